"""How do output bytes look to a client?

A terminal is text as a person sees it: bytes that are no UTF-8 become U+FFFD, and the exact bytes are one GET away. Pipes
are exact: a piece that is no UTF-8 goes out as `raw`. Pieces are cut between characters (`split_text`), so a character that
two reads share is never torn.

A client may say which media types it is prepared to take (A2A 1.0 §3.2.2, `acceptedOutputModes`; agents SHOULD tailor their
output to that). Then terminal text is called `text/plain` for who takes no `text/x-ansi`, the same characters, and goes out as
its exact bytes, `application/octet-stream`, to who takes no text. What fits nothing that the client named goes out as ever: the
spec has no refusal for that, and nothing is left out or bent.

Artifacts `file:NAME`, `link:NAME` and `data:NAME` are a file, a URL and JSON; no command writes
them, the public kit's profile does.
"""

from __future__ import annotations

import codecs
from collections.abc import Collection, Mapping
from typing import Any, Final

import attrs

from sandboxd.a2a.extensions import ARTIFACT_CUT
from sandboxd.a2a.jsontext import parse_json
from sandboxd.a2a.model import Artifact, ArtifactUpdate, Part
from sandboxd.tasks.events import Wrote
from sandboxd.tasks.view import ArtifactView, TaskView

TERMINAL: Final = "terminal"
ANSI: Final = "text/x-ansi"
PLAIN: Final = "text/plain"
BYTES: Final = "application/octet-stream"
JSON: Final = "application/json"
MEDIA_TYPES: Final = (PLAIN, ANSI, BYTES)  # of what commands write
_NAMES: Final[Mapping[str, str]] = {
    TERMINAL: "Terminal output",
    "stdout": "Standard output",
    "stderr": "Standard error",
    "echo": "Echo",
}


def split_text(data: bytes) -> tuple[bytes, bytes]:
    """The bytes up to the last whole character, and the at most three that begin another one (RFC 3629)."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data[-3:])  # a character that is begun here begins with a byte that nothing before it can take in
    pending = decoder.getstate()[0]
    return (data[: len(data) - len(pending)], pending) if pending else (data, b"")


def artifact_update(view: TaskView, event: Wrote, chunk: bytes, modes: Collection[str] = ()) -> ArtifactUpdate:
    """The news of a `Wrote` with its bytes. `modes`: the media types that the client takes, empty: it did not say."""
    metadata: dict[str, Any] | None = {ARTIFACT_CUT: {"at": event.offset, "bytes": event.cut}} if event.cut else None
    artifact = Artifact(
        event.artifact_id, (_part(event.artifact_id, chunk, modes),), _NAMES.get(event.artifact_id), metadata=metadata
    )
    return ArtifactUpdate(view.task_id, view.context_id, artifact, append=not event.first, last_chunk=event.last)


def artifact_of(artifact: ArtifactView, kept: bytes, modes: Collection[str] = ()) -> Artifact:
    """The whole artifact: head and tail are parts of their own where something was cut out between them. `modes` as above."""
    pieces = [kept[: artifact.head], kept[artifact.head :]] if artifact.cut else [kept]
    metadata: dict[str, Any] | None = {ARTIFACT_CUT: {"at": artifact.head, "bytes": artifact.cut}} if artifact.cut else None
    parts = tuple(_part(artifact.artifact_id, piece, modes) for piece in pieces)
    return Artifact(artifact.artifact_id, parts, _NAMES.get(artifact.artifact_id), metadata=metadata)


def media_type(artifact_id: str) -> str:
    """The type that a part of this artifact has as text."""
    return ANSI if artifact_id == TERMINAL else PLAIN


def takes(modes: Collection[str], media_type: str) -> bool:
    """Whether a client that named these modes takes that type; ranges, parameters and 0.3's bare `text` are understood."""
    kind = media_type.partition("/")[0]
    named = {mode.partition(";")[0].strip().lower() for mode in modes}
    return not modes or not named.isdisjoint({media_type, f"{kind}/*", kind, "*/*", "*"})


def _part(artifact_id: str, data: bytes, modes: Collection[str]) -> Part:
    part = _natural(artifact_id, data)
    if ":" in artifact_id or (part.media_type is not None and takes(modes, part.media_type)):
        return part
    if part.kind == "text" and takes(modes, PLAIN):
        return attrs.evolve(part, media_type=PLAIN)
    return Part("raw", data, media_type=BYTES) if takes(modes, BYTES) else part


def _natural(artifact_id: str, data: bytes) -> Part:
    match artifact_id.partition(":"):
        case ("file", ":", name):
            return Part("raw", data, name, PLAIN)
        case ("link", ":", name):
            return Part("url", data.decode(), name, PLAIN)
        case ("data", ":", _):
            return Part("data", parse_json(data), media_type=JSON)
    try:
        return Part("text", data.decode(), media_type=media_type(artifact_id))
    except UnicodeDecodeError:
        if artifact_id == TERMINAL:
            return Part("text", data.decode(errors="replace"), media_type=media_type(artifact_id))
        return Part("raw", data, media_type=BYTES)
