"""How does a decision on a system call become a seccomp program?

A small assembler for classic BPF (seccomp(2), linux/filter.h). The alternative, libseccomp by pyseccomp, was left out: it ties
the spawner to a C library that a host may not have, its Debian 12 version does not know the calls since Linux 5.17, and a
filter that is a list with a dozen exceptions is read more easily than the library's calls that would build it.

Arguments are compared by their low 32 bits, which is all that the kernel looks at for those that are compared here (`int`): a
64-bit comparison is what CVE-2019-10063 walked around.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

_JUMP: Final = 0x05  # BPF_JMP | BPF_JA
_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_GREATER: Final = 0x25  # BPF_JMP | BPF_JGT | BPF_K
_ANY_BIT: Final = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_AND: Final = 0x54  # BPF_ALU | BPF_AND | BPF_K
_RETURN: Final = 0x06  # BPF_RET | BPF_K
_NUMBER_AT: Final = 0  # struct seccomp_data: nr, arch, instruction_pointer, args[6]
_ARCHITECTURE_AT: Final = 4
_ARGUMENTS_AT: Final = 16
_ROW_MAX: Final = 250  # a conditional jump reaches 255 instructions

ALLOW: Final = 0x7FFF0000
KILL: Final = 0x80000000  # SECCOMP_RET_KILL_PROCESS
_ERRNO: Final = 0x00050000

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand
Block = tuple[Instruction, ...]


def refuse(number: int) -> int:
    """The verdict "fail with this errno"."""
    return _ERRNO | number


def give(verdict: int) -> Block:
    """The end: that verdict."""
    return ((_RETURN, 0, 0, verdict),)


def load_number() -> Block:
    """The call's number into the accumulator."""
    return ((_LOAD, 0, 0, _NUMBER_AT),)


def load_argument(index: int, *, high: bool = False) -> Block:
    """The low (or high) half of an argument into the accumulator; both architectures here are little endian."""
    return ((_LOAD, 0, 0, _ARGUMENTS_AT + 8 * index + (4 if high else 0)),)


def mask(bits: int) -> Block:
    """Keep only those bits of the accumulator."""
    return ((_AND, 0, 0, bits),)


def only_on(architecture: int) -> Block:
    """Kill whoever calls by another architecture's table: its numbers mean other calls."""
    return ((_LOAD, 0, 0, _ARCHITECTURE_AT), (_EQUAL, 1, 0, architecture), *give(KILL))


def if_any_bit(bits: int, verdict: int) -> Block:
    """That verdict when one of those bits is set, else go on."""
    return ((_ANY_BIT, 0, 1, bits), *give(verdict))


def unless_any_bit(bits: int, then: Block) -> Block:
    """Into the block when none of those bits is set, else past it. The block must end with a verdict."""
    assert then[-1][0] == _RETURN
    return ((_ANY_BIT, len(then), 0, bits), *then)


def if_one_of(values: Iterable[int], verdict: int) -> Block:
    """That verdict when the accumulator is one of the values, else go on."""
    row = sorted(set(values))
    block: list[Instruction] = []
    for start in range(0, len(row), _ROW_MAX):
        part = row[start : start + _ROW_MAX]
        last = len(part) - 1
        block += [(_EQUAL, last - index, 1 if index == last else 0, value) for index, value in enumerate(part)]
        block += give(verdict)
    return tuple(block)


def if_equal(value: int, then: Block) -> Block:
    """Go into the block when the accumulator has that value, else past it. The block must end with a verdict."""
    assert len(then) <= _ROW_MAX and then[-1][0] == _RETURN  # a block that ran on would judge with another accumulator
    return ((_EQUAL, 0, len(then), value), *then)


def by_range(starts: Mapping[int, Block]) -> Block:
    """Into the block of the greatest start that is not above the accumulator. Needs a start at 0; blocks end with a verdict.

    A binary search: the kernel runs through the program once for every number there is when it takes it (kernel/seccomp.c,
    `seccomp_cache_prepare`), so that a list, in which each number passes all that stand before it, took 0.3 ms more of a start.
    Blocks that are the same stand there once.
    """
    ranges = [(start, block) for start, block in sorted(starts.items())]
    ranges = [pair for before, pair in zip([(0, ()), *ranges], ranges, strict=False) if before[1] != pair[1]]
    assert ranges[0][0] == 0 and all(block[-1][0] == _RETURN for _, block in ranges)
    tail = _Tail()
    tail.search(ranges)
    return tail.instructions()


class _Tail:
    """A program from its end to the front: what is there already lies ahead of what comes, where BPF can jump to."""

    def __init__(self) -> None:
        self._backwards: list[Instruction] = []
        self._places: dict[Block, int] = {}  # of a block's first instruction, counted from the end

    def instructions(self) -> Block:
        """All that is there, in the order in which it runs."""
        return tuple(reversed(self._backwards))

    def search(self, ranges: Sequence[tuple[int, Block]]) -> int:
        """Where it begins to look for one of these ranges."""
        if len(ranges) == 1:
            return self._place(ranges[0][1])
        middle = len(ranges) // 2
        above, below = self.search(ranges[middle:]), self.search(ranges[:middle])
        above, below = self._near(above), self._near(below)
        here = len(self._backwards)
        return self._put((_GREATER, here - above - 1, here - below - 1, ranges[middle][0] - 1))

    def _place(self, block: Block) -> int:
        if block not in self._places:
            for instruction in reversed(block):
                self._places[block] = self._put(instruction)
        return self._places[block]

    def _near(self, place: int) -> int:
        """That place, or where a jump to it is, for one that can only be reached by a jump of its own."""
        distance = len(self._backwards) - place
        return place if distance < _ROW_MAX else self._put((_JUMP, 0, 0, distance - 1))

    def _put(self, instruction: Instruction) -> int:
        self._backwards.append(instruction)
        return len(self._backwards) - 1


def assemble(blocks: Sequence[Block]) -> bytes:
    """The program as the kernel takes it: an array of struct sock_filter."""
    return b"".join(struct.pack("=HBBI", *instruction) for block in blocks for instruction in block)
