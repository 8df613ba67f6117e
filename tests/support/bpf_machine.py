"""What does a seccomp program decide? A small machine for classic BPF, apart from the assembler that it judges."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import attrs

NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16  # struct seccomp_data
MOST_INSTRUCTIONS: Final = 4096  # BPF_MAXINSNS
_JUMPS: Final[Mapping[int, Callable[[int, int], bool]]] = {
    0x15: lambda accumulator, operand: accumulator == operand,
    0x25: lambda accumulator, operand: accumulator > operand,
    0x35: lambda accumulator, operand: accumulator >= operand,
    0x45: lambda accumulator, operand: bool(accumulator & operand),
}


class NotGiven(Exception):
    """It looks at a word of which nothing is known; `args` has where that stands."""


@attrs.frozen
class Decided:
    """A verdict, and how many instructions it took."""

    verdict: int
    steps: int


class Machine:
    """One program, as the kernel takes it. `ValueError` for one that the kernel would not take."""

    def __init__(self, program: bytes) -> None:
        self._instructions = list(struct.iter_unpack("=HBBI", program))
        if not 0 < len(self._instructions) <= MOST_INSTRUCTIONS:
            raise ValueError(f"{len(self._instructions)} instructions")
        for at, (code, if_true, if_false, operand) in enumerate(self._instructions):
            ahead = operand if code == 0x05 else max(if_true, if_false)
            if at + 1 + ahead >= len(self._instructions) and code != 0x06:
                raise ValueError(f"instruction {at} leads past the end")

    @property
    def operands(self) -> set[int]:
        """All that it compares with."""
        return {operand for code, _, _, operand in self._instructions if code in _JUMPS}

    def run(self, words: Mapping[int, int]) -> Decided:
        """What it decides on a call of which these words are known, by where they stand; `NotGiven`."""
        at = accumulator = steps = 0
        while True:
            code, if_true, if_false, operand = self._instructions[at]
            at, steps = at + 1, steps + 1
            if code == 0x20:
                if operand not in words:
                    raise NotGiven(operand)
                accumulator = words[operand]
            elif code in _JUMPS:
                at += if_true if _JUMPS[code](accumulator, operand) else if_false
            elif code == 0x05:
                at += operand
            elif code == 0x54:
                accumulator &= operand
            elif code == 0x06:
                return Decided(operand, steps)
            else:
                raise ValueError(f"cannot run instruction {code:#x}: unknown")

    def paths(self, words: Mapping[int, int], values: Mapping[int, set[int]]) -> Iterator[tuple[dict[int, int], Decided]]:
        """Whatever it decides when each word that it asks for besides takes each of the values that may stand there."""
        waiting = [dict(words)]
        while waiting:
            known = waiting.pop()
            try:
                yield known, self.run(known)
            except NotGiven as asked:
                waiting += [{**known, asked.args[0]: value} for value in values[asked.args[0]]]
