"""Why was this taken for a question, and why was that not?

Replays what a program wrote through the same detector that the daemon runs. An asciicast (version 2) brings its times and
what was typed; raw bytes have no times, so there silence is assumed wherever a word or a mark ends: each question that such
a pause would raise is named. Values only; reading the file and printing are the caller's.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import attrs

from sandboxd.detect.detector import Detector, Prompt, Withdrawn
from sandboxd.detect.rule import Rule, fit_one
from sandboxd.detect.terminal import View
from sandboxd.errors import LoadError, Problem
from sandboxd.hitl.answer import AnswerForm

OUTPUT_MAX_BYTES: Final = 256 * 1024  # of raw output; the end is kept (dense prose costs 10 s a megabyte)
_PAUSE: Final = re.compile(rb"[ ?:\])>.]+")
_LONG_SILENCE_S: Final = 3600.0
_PREFIXES_MAX: Final = 40


@attrs.frozen
class Piece:
    """Something that was written (or typed) at a time, in seconds from the start."""

    at_s: float
    data: bytes
    is_typed: bool = False


@attrs.frozen
class Recording:
    """What a transcript holds; `has_times` False: the times are made up, with a long silence after each piece."""

    pieces: tuple[Piece, ...]
    cols: int = 80
    height: int = 24
    has_times: bool = False
    dropped_bytes: int = 0


@attrs.frozen
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


@attrs.frozen
class Near:
    """A rule that nearly fits the last live line, and what is missing."""

    rule: str
    why: str


@attrs.frozen
class Explanation:
    """Everything that was raised, and how it stands at the end."""

    fired: tuple[Fired, ...]
    view: View
    near: tuple[Near, ...]
    has_times: bool
    dropped_bytes: int = 0


def explain(rules: Sequence[Rule], data: bytes) -> Explanation:
    """Replay a transcript, an asciicast or raw bytes; `LoadError` when it says that it is an asciicast and is none."""
    recording = read_recording(data)
    detector = Detector(rules, cols=recording.cols, height=recording.height)
    titles = {rule.id: rule.title for rule in rules}
    fired: list[Fired] = []
    offset, line_number = 0, 1

    def listen(until_s: float) -> None:
        while (deadline := detector.next_deadline()) is not None and deadline <= until_s:
            match detector.poll(deadline):
                case Prompt(text, form, rule, evidence):
                    at_s = deadline if recording.has_times else None
                    fired.append(Fired(offset, line_number, at_s, rule, titles[rule], text, form, evidence))
                case Withdrawn():
                    fired[-1] = attrs.evolve(fired[-1], end="withdrawn")
                case None:
                    pass

    for piece in recording.pieces:
        listen(piece.at_s)
        if piece.is_typed:
            if fired and fired[-1].end == "standing":
                fired[-1] = attrs.evolve(fired[-1], end="answered")
            detector.typed(piece.at_s)
            continue
        detector.feed(piece.data, piece.at_s)
        offset += len(piece.data)
        line_number += piece.data.count(b"\n")
    listen(math.inf)
    view = detector.view()
    return Explanation(tuple(fired), view, tuple(_near(rules, detector, view)), recording.has_times, recording.dropped_bytes)


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
            if detector.answered(found, view):
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
