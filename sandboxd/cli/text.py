"""How is text from a task shown on a terminal, so that it can do nothing there?

Text from a child, a client or a prompt is data: no byte of it steers the terminal. `shown` is for one value (a question, an
id, a reason): nothing is dropped, every character that is no text becomes a symbol that can be read. `Screen` is for a
stream of output: newlines and tabs stay, CR LF is a newline, and well-formed CSI sequences (colour, cursor moves, erasing)
are dropped, because without them everything that was written stands there in order: dropping them can reveal text, never
hide it. Sequences that carry text of their own (OSC, DCS: titles, clipboards, links) and pieces of sequences are shown.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from typing import Final

_JOINERS: Final = frozenset("\u200c\u200d")  # written inside Persian and Indic words and emoji; they neither hide nor reorder
_NO_TEXT: Final = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})
_CSI: Final = re.compile(r"\x1b\[[0-?]{0,32}[ -/]{0,4}[@-~]")  # ECMA-48 5.4: parameters, intermediates, final
_LINE_END: Final = re.compile(r"\r+\n")  # several CR where a raw program writes CR LF and its tty adds one
_CSI_BEGUN: Final = re.compile(r"\x1b(?:\[[0-?]{0,32}[ -/]{0,4})?\Z")


def shown(text: str, *, keep: str = "") -> str:
    """The text with every character that is no text as a visible symbol; characters in `keep` stay as they are."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char in keep else _symbol(char) for char in text)


def one_line(text: str, *, limit: int = 200) -> str:
    """The text on one line of at most `limit` characters; a longer one loses its end, and says so by `…`."""
    spelled = shown(" ".join(text.split("\n")))
    return spelled if len(spelled) <= limit else spelled[: limit - 1] + "…"


class Screen:
    """Turns output, as it arrives in pieces, into text for a terminal; one for each stream of bytes."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self.at_line_start = True

    def feed(self, data: bytes) -> str:
        """What can be shown by now; a character or sequence that was cut waits for its rest."""
        return self._show(self._decoder.decode(data))

    def finish(self) -> str:
        """The rest, at the end of the stream."""
        return self._show(self._decoder.decode(b"", final=True), is_end=True)

    def _show(self, text: str, *, is_end: bool = False) -> str:
        text = self._held + text
        self._held = ""
        if not is_end:
            begun = _CSI_BEGUN.search(text)
            cut = begun.start() if begun else len(text.rstrip("\r"))
            text, self._held = text[:cut], text[cut:]
        safe = shown(_LINE_END.sub("\n", _CSI.sub("", text)), keep="\n\t")
        if safe:
            self.at_line_start = safe.endswith("\n")
        return safe


def _symbol(char: str) -> str:
    code = ord(char)
    if char in _JOINERS or unicodedata.category(char) not in _NO_TEXT:
        return char
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode's pictures of the control characters
    if code == 0x7F:
        return "\u2421"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
