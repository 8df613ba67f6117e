"""Where does a task's output go?

What the program wrote to its stderr goes to stderr, everything else to stdout, as `docker logs` does; made safe on the way,
piece by piece, so that a question without a newline is seen at once. Talk between the pieces begins on a line of its own.
"""

from __future__ import annotations

import codecs
from typing import TextIO

from sandboxd.cli.console import Console
from sandboxd.cli.text import Screen


class OutputPrinter:
    """Prints pieces of a task's artifacts in the order in which they come."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._screens: dict[str, Screen] = {}
        self._last: Screen | None = None

    def write(self, artifact_id: str, data: bytes) -> None:
        """One piece of one artifact."""
        screen = self._screens.setdefault(artifact_id, Screen())
        self._print(artifact_id, screen, screen.feed(data))

    def say_cut(self, artifact_id: str, dropped: int) -> None:
        """Mark the place where the daemon kept nothing of the middle of a long output."""
        screen = self._screens.setdefault(artifact_id, Screen())
        self._print(artifact_id, screen, screen.finish())
        self.to_line_start()
        self._console.talk(f"── {dropped} bytes were cut here ──", style="dim")

    def to_line_start(self) -> None:
        """Ends an unfinished line on the terminal, so that talk does not stand behind it; a pipe gets no byte for it."""
        if self._console.wide and self._last is not None and not self._last.at_line_start:
            print(file=self._console.err, flush=True)
            self._last.at_line_start = True

    def finish(self) -> None:
        """The rest of every stream; the last line is ended."""
        for artifact_id, screen in self._screens.items():
            self._print(artifact_id, screen, screen.finish())
        self.to_line_start()

    def _print(self, artifact_id: str, screen: Screen, text: str) -> None:
        if text:
            self._last = screen
            stream: TextIO = self._console.err if artifact_id == "stderr" else self._console.out
            stream.write(text)
            stream.flush()


class TextStreams:
    """Output as text for JSON, which escapes whatever a terminal could obey: each artifact's bytes decoded across pieces."""

    def __init__(self) -> None:
        self._decoders: dict[str, codecs.IncrementalDecoder] = {}

    def feed(self, artifact_id: str, data: bytes) -> str:
        """The text of one piece; a character that was cut comes with its rest."""
        decoder = self._decoders.setdefault(artifact_id, codecs.getincrementaldecoder("utf-8")("replace"))
        return decoder.decode(data)
