"""How does the shipped detector do on recordings of real programs?

Puts the real detector, with the shipped packs, behind the calling convention of a corpus scorer: `Detector()` for each
recording, then `detector(tail, ctx)` at moments of silence, where `tail` is the last 8,192 bytes of output and `ctx` says how
long it has been silent, when something was last typed, the terminal's size and, if known, `icanon`, `echo` and `blocked`.
"""

from __future__ import annotations

from typing import Any

from sandboxd import packs
from sandboxd.detect.detector import Detector as RealDetector
from sandboxd.detect.detector import Prompt, Stalled, Withdrawn
from sandboxd.detect.evidence import Evidence
from sandboxd.detect.load import combine, load_pack
from sandboxd.detect.rule import Rule

_QUERY = b"\x1b[6n"  # where is the cursor?
_REPLY_S = 0.2
_TINY_S = 1e-6  # times are added up by the caller: a look at the settle time must not miss it by a rounding error


def shipped_rules() -> tuple[Rule, ...]:
    """The rules of all packs that come with sandboxd."""
    files = sorted(packs.shipped("detectors").glob("*.toml"))
    return combine([load_pack(str(path), path.read_text("utf-8")) for path in files])


class Detector:
    """One recording's detector."""

    rules: tuple[Rule, ...] | None = None

    def __init__(self) -> None:
        if Detector.rules is None:
            Detector.rules = shipped_rules()
        self._real: RealDetector | None = None
        self._tail = b""
        self._typed_at: float | None = None
        self._prompt: Prompt | None = None
        self._stalled: Stalled | None = None

    def __call__(self, tail: bytes, ctx: Any) -> dict[str, Any] | None:
        """What is asked at this moment, or None."""
        if self._real is None:
            self._real = RealDetector(Detector.rules or (), cols=ctx.cols, height=ctx.rows, witnessed=ctx.blocked is not None)
        new = _new_output(self._tail, tail)
        self._tail = tail
        said_at = ctx.t - ctx.idle
        typed_at = None if ctx.since_input is None else ctx.t - ctx.since_input
        is_typed = typed_at is not None and (self._typed_at is None or typed_at > self._typed_at + _TINY_S)
        if is_typed and typed_at is not None and tail.endswith(_QUERY) and 0 <= typed_at - said_at < _REPLY_S:
            self._typed_at, is_typed = typed_at, False  # a terminal's reply, which is no answer
        if is_typed and typed_at is not None and typed_at >= said_at:
            self._feed(new, said_at)
            new = b""
        if is_typed and typed_at is not None:
            self._typed_at = typed_at
            self._real.typed(typed_at)
            self._prompt = self._stalled = None
        self._feed(new, said_at)
        evidence = Evidence(canonical=ctx.icanon, echo=ctx.echo, reading=ctx.blocked)
        now = ctx.t + _TINY_S
        for _ in range(4):
            deadline = self._real.next_deadline()
            if deadline is None or deadline > now:
                break
            match self._real.poll(now, evidence):
                case Prompt() as prompt:
                    self._prompt, self._stalled = prompt, None
                case Withdrawn():
                    self._prompt = None
                case Stalled() as stalled:
                    self._stalled = stalled
                case None:
                    pass
        if self._prompt is not None:
            form = self._prompt.form
            return {
                "line": self._prompt.text,
                "kind": form.kind,
                "secret": form.kind == "secret",
                "answerable": True,
                "rule": self._prompt.rule,
            }
        if self._stalled is not None:
            return {"line": self._stalled.text, "kind": "menu", "secret": False, "answerable": False}
        return None

    def _feed(self, data: bytes, at_s: float) -> None:
        assert self._real is not None
        if data:
            self._real.feed(data, at_s)
            self._stalled = None


def _new_output(old: bytes, tail: bytes) -> bytes:
    """What was added to a tail of bounded length: everything behind the longest overlap."""
    if tail.startswith(old):
        return tail[len(old) :]
    for start in range(1, len(old)):
        if tail.startswith(old[start:]):
            return tail[len(old) - start :]
    return tail
