"""Why was this taken for a question, and why was that not?

Replays what a program wrote through the same detector that the daemon runs. An asciicast (version 2) brings its times and
what was typed; raw bytes have no times, so there silence is assumed wherever a word or a mark ends: each question that such
a pause would raise is named. Values only; reading the file and printing are the caller's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import attrs

from sandboxd.detect.detector import Detector, Prompt, Stalled, Withdrawn
from sandboxd.detect.evidence import NOTHING_KNOWN, Evidence
from sandboxd.detect.rule import Rule, fit_one
from sandboxd.detect.view import View
from sandboxd.errors import LoadError, Problem
from sandboxd.hitl.answer import AnswerForm
from sandboxd.values import frozen

OUTPUT_MAX_BYTES: Final = 256 * 1024  # of raw output; the end is kept (dense prose costs 10 s a megabyte)
_PAUSE: Final = re.compile(rb"[ ?:\])>.]+")
_LONG_SILENCE_S: Final = 3600.0
_PREFIXES_MAX: Final = 40
TITLES: Final[Mapping[str, str]] = {
    "generic.kernel": "A process waits for a line, and this is the line that it stands behind",
    "generic.text": "The line looks like a question; the kernel does not say whether somebody waits",
    "generic.menu": "Somebody waits for keys, which no line of text can answer",
}


@frozen
class Truth:
    """What the kernel said while a recording was made: `(seconds, canonical, echo)` and `(seconds, reading)` at each change."""

    terminal: tuple[tuple[float, bool, bool], ...]
    reading: tuple[tuple[float, bool], ...]
    ends_at_s: float

    def at(self, at_s: float) -> Evidence:
        """The kernel's word at that time."""
        modes = [entry for entry in self.terminal if entry[0] <= at_s]
        reading = [entry for entry in self.reading if entry[0] <= at_s]
        canonical, echo = modes[-1][1:] if modes else (None, None)
        return Evidence(canonical=canonical, echo=echo, reading=reading[-1][1] if reading else None)


def read_truth(document: Mapping[str, Any]) -> Truth:
    """What `sandboxd record` writes beside a recording; `ValueError`, `LookupError` or `TypeError` when it is no such thing."""
    return Truth(
        tuple((float(at), bool(canonical), bool(echo)) for at, canonical, echo, *_ in document["tty_timeline"]),
        tuple((float(at), bool(reading)) for at, reading in document["blocked_timeline"] if reading is not None),
        float(document["duration"]),
    )


@frozen
class Piece:
    """Something that was written (or typed) at a time, in seconds from the start."""

    at_s: float
    data: bytes
    is_typed: bool = False


@frozen
class Recording:
    """What a transcript holds; `has_times` False: the times are made up, with a long silence after each piece."""

    pieces: tuple[Piece, ...]
    cols: int = 80
    height: int = 24
    has_times: bool = False
    dropped_bytes: int = 0


@frozen
class Fired:
    """A question that was raised: after which byte and in which line of the output, by which rule, on what evidence.

    `end`: `answered`, `withdrawn` (the live line moved on) or `standing` (to the end of the transcript). `at_s` None: no times.
    """

    offset: int
    line_number: int
    at_s: float | None
    rule: str
    title: str
    text: str
    form: AnswerForm
    evidence: Mapping[str, Any]
    end: Literal["answered", "withdrawn", "standing"] = "standing"


@frozen
class Near:
    """A rule that nearly fits the last live line, and what is missing."""

    rule: str
    why: str


@frozen
class Happening:
    """One thing that the daemon would have done: what it is, when (None: no times), and on what evidence.

    `stalled`: somebody waits, and no line of text can be offered; `kind` is then `menu` or `undetected`.
    """

    at_s: float | None
    event: Literal["raised", "withdrawn", "answered", "stalled"]
    line: str
    kind: str
    rule: str
    evidence: Mapping[str, Any]

    @property
    def is_answerable(self) -> bool:
        """Whether one typed line can answer it."""
        return self.event != "stalled"

    @property
    def is_secret(self) -> bool:
        """Whether it asks for something that is hidden."""
        return self.kind == "secret"


@frozen
class Explanation:
    """Everything that was raised, and how it stands at the end."""

    fired: tuple[Fired, ...]
    happenings: tuple[Happening, ...]
    view: View
    near: tuple[Near, ...]
    has_times: bool
    dropped_bytes: int = 0


def explain(rules: Sequence[Rule], data: bytes, truth: Truth | None = None) -> Explanation:
    """Replay a transcript, an asciicast or raw bytes; `LoadError` when it says that it is an asciicast and is none.

    `truth`: what the kernel said while it was recorded.
    """
    recording = read_recording(data)
    replay = _Replay(rules, recording, truth)
    replay.run()
    view = replay.detector.view()
    near = tuple(_near(rules, replay.detector, view))
    dropped = recording.dropped_bytes
    return Explanation(tuple(replay.fired), tuple(replay.happenings), view, near, recording.has_times, dropped)


class _Replay:
    """Feeds a recording to a detector, and writes down what that says."""

    def __init__(self, rules: Sequence[Rule], recording: Recording, truth: Truth | None) -> None:
        # Where no times are known, each word's end is taken for a pause, and only a pack's word is then worth anything.
        self.detector = Detector(
            rules,
            cols=recording.cols,
            height=recording.height,
            witnessed=truth is not None and recording.has_times,
            by_shape=recording.has_times,
        )
        self.fired: list[Fired] = []
        self.happenings: list[Happening] = []
        self._recording = recording
        self._truth = truth if recording.has_times else None
        self._titles = {**TITLES, **{rule.id: rule.title for rule in rules}}
        self._offset, self._line_number = 0, 1

    def run(self) -> None:
        pieces = self._recording.pieces
        for number, piece in enumerate(pieces, 1):
            self._listen(piece.at_s)
            if piece.is_typed:
                self._typed(piece.at_s)
                continue
            if number == len(pieces):
                self.detector.by_shape = True
            self.detector.feed(piece.data, piece.at_s)
            self._offset += len(piece.data)
            self._line_number += piece.data.count(b"\n")
        ends_at_s = pieces[-1].at_s if pieces else 0.0
        self._listen(max(ends_at_s, self._truth.ends_at_s) if self._truth else ends_at_s + _LONG_SILENCE_S)

    def _listen(self, until_s: float) -> None:
        while (deadline := self.detector.next_deadline()) is not None and deadline <= until_s:
            evidence = self._truth.at(deadline) if self._truth else NOTHING_KNOWN
            news = self.detector.poll(deadline, evidence)
            at_s = deadline if self._recording.has_times else None
            match news:
                case Prompt(text, form, rule, facts):
                    title = self._titles.get(rule, rule)
                    self.fired.append(Fired(self._offset, self._line_number, at_s, rule, title, text, form, facts))
                    self.happenings.append(Happening(at_s, "raised", text, form.kind, rule, facts))
                case Withdrawn():
                    self._end("withdrawn", at_s)
                case Stalled(text, why, rule, facts):
                    self.happenings.append(Happening(at_s, "stalled", text, why, rule, facts))
                case None:
                    pass

    def _typed(self, at_s: float) -> None:
        if self.fired and self.fired[-1].end == "standing":
            self._end("answered", at_s)
        self.detector.typed(at_s)

    def _end(self, end: Literal["withdrawn", "answered"], at_s: float | None) -> None:
        fired = self.fired[-1] = attrs.evolve(self.fired[-1], end=end)
        self.happenings.append(Happening(at_s, end, fired.text, fired.form.kind, fired.rule, fired.evidence))


def read_recording(data: bytes) -> Recording:
    """An asciicast, where the first line is the header of one; else the bytes as they are."""
    header = _header(data)
    return _raw(data) if header is None else _asciicast(header, data)


def _header(data: bytes) -> Mapping[str, Any] | None:
    line = data.split(b"\n", 1)[0]
    if not line.lstrip().startswith(b"{") or len(line) > 65536:
        return None
    try:
        header = json.loads(line)
    except ValueError:
        return None
    return header if isinstance(header, dict) and "version" in header and ("width" in header or "term" in header) else None


def _raw(data: bytes) -> Recording:
    dropped = max(0, len(data) - OUTPUT_MAX_BYTES)
    data = data[dropped:]
    pieces: list[Piece] = []
    start = 0
    for stop in [*(found.end() for found in _PAUSE.finditer(data)), len(data)]:
        if stop > start:
            pieces.append(Piece(len(pieces) * _LONG_SILENCE_S, data[start:stop]))
        start = stop
    return Recording(tuple(pieces), dropped_bytes=dropped)


def _asciicast(header: Mapping[str, Any], data: bytes) -> Recording:
    if header["version"] != 2:
        raise _no_recording(1, f"asciicast version {header['version']} is not read, only version 2")
    cols, height = header.get("width"), header.get("height")
    if not (isinstance(cols, int) and isinstance(height, int) and 0 < cols <= 10_000 and 0 < height <= 10_000):
        raise _no_recording(1, "`width` and `height` must be the size of the terminal")
    pieces: list[Piece] = []
    for number, line in enumerate(data.splitlines()[1:], 2):
        if not line.strip():
            continue
        try:
            at_s, code, text = json.loads(line)
            written = text.encode("utf-8", "surrogateescape")
            at_s = float(at_s)
        except (ValueError, TypeError, AttributeError):
            raise _no_recording(number, 'is no asciicast event: [seconds, "o", text]') from None
        if code == "o":
            pieces.append(Piece(at_s, written))
        elif code == "i" and written.endswith((b"\r", b"\n")):
            pieces.append(Piece(at_s, written, is_typed=True))
    return Recording(tuple(pieces), cols, height, has_times=True)


def _no_recording(number: int, why: str) -> LoadError:
    return LoadError("the recording", [Problem(f"line {number}", why)])


def _near(rules: Sequence[Rule], detector: Detector, view: View) -> Iterator[Near]:
    if view.unknown:
        return
    winner = ""
    for rule in rules:
        found = fit_one(rule, view)
        if found is not None:
            if detector.answered(found.start, view):
                yield Near(rule.id, "fits, but the line has been answered already")
            elif winner:
                yield Near(rule.id, f"fits too, but rule {winner} comes first")
            else:
                winner = rule.id
        elif why := _why_not(rule, view):
            yield Near(rule.id, why)


def _why_not(rule: Rule, view: View) -> str:
    if rule.above is not None and fit_one(attrs.evolve(rule, above=None), view) is not None:
        return f"`line` fits, but `above` does not fit the line above: `{view.above}`"
    line = view.line
    if not line.strip():
        ended = attrs.evolve(view, line=f"{view.above} ", above="")
        if fit_one(rule, ended) is not None:
            return f"would fit, but its line has ended: `{view.above}`"
        return ""
    stops = [found.end() for found in re.finditer(r"[ ?:\])>.]+", line)][-_PREFIXES_MAX:]
    for stop in reversed(stops):
        if stop < len(line) and fit_one(rule, attrs.evolve(view, line=line[:stop])) is not None:
            return f"would fit, but the line goes on: `{line[stop:].rstrip()}`"
    if not line.endswith(" ") and fit_one(rule, attrs.evolve(view, line=f"{line} ")) is not None:
        return "would fit with a blank at the end of the line"
    return ""
