"""How do events and views stand on disk?

As JSON with a version, strict both ways: what was written is read back equal, and text of an unknown version, with an unknown
key or a value of the wrong type is `Undecodable`, never guessed at. Every field is written out, so a default that changes later
does not change what old rows say. A changed shape needs a new version here and a migration in `schema`.

ASCII only: a lone surrogate, which JSON may carry and UTF-8 may not, survives as its escape.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, get_args, get_origin

import attrs
from cattrs import Converter
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from sandboxd.a2a.model import Message, Part
from sandboxd.store import spelled
from sandboxd.tasks.events import Answered, Asked, Closed, Event, Finished, Noticed, Rejected, Started, Submitted, Wrote
from sandboxd.tasks.view import ArtifactView, TaskView

VERSION: Final = 1
_KINDS: Final[Mapping[str, type[Event]]] = {
    "submitted": Submitted,
    "started": Started,
    "wrote": Wrote,
    "asked": Asked,
    "answered": Answered,
    "closed": Closed,
    "noticed": Noticed,
    "finished": Finished,
    "rejected": Rejected,
}
_NAMES: Final = {cls: name for name, cls in _KINDS.items()}


class Undecodable(Exception):
    """A stored text is not what this version writes."""


def encode_event(event: Event) -> tuple[str, str]:
    """The event's kind, and its fields as JSON."""
    match event:
        case Wrote():
            return "wrote", _versioned(spelled.wrote(event))
        case Submitted():
            return "submitted", _versioned(spelled.submitted(event))
        case Finished():
            return "finished", _versioned(spelled.finished(event))
        case _:
            return _NAMES[type(event)], spelled.dump({"v": VERSION, **_WRITERS[type(event)](event)})


def decode_event(kind: str, text: str) -> Event:
    """The event that `encode_event` was given."""
    try:
        cls = _KINDS[kind]
    except KeyError:
        raise Undecodable(f"unknown kind of event `{kind}`") from None
    event: Event = _load(text, cls)
    return event


def encode_view(view: TaskView) -> str:
    """The view as JSON, without `earlier`: on record a history has no part that is elsewhere."""
    return _versioned(spelled.view(view, view.history, view.artifacts))


def encode_standing(view: TaskView) -> str:
    """The same without history and artifacts, which stand elsewhere."""
    return _versioned(spelled.view(view, (), ()))


def decode_view(text: str) -> TaskView:
    """The view that `encode_view` was given."""
    view: TaskView = _load(text, TaskView)
    return view


def encode_message(message: Message) -> str:
    """A message of a history as JSON."""
    return _versioned(spelled.message(message))


def decode_message(text: str) -> Message:
    """The message that `encode_message` was given."""
    message: Message = _load(text, Message)
    return message


def encode_artifacts(artifacts: tuple[ArtifactView, ...]) -> str:
    """A view's artifacts alone: the one part that output changes."""
    return spelled.artifact_list(artifacts)


def decode_artifacts(text: str) -> tuple[ArtifactView, ...]:
    """What `encode_artifacts` was given."""
    try:
        return tuple(_CONVERTER.structure(artifact, ArtifactView) for artifact in json.loads(text))
    except Exception as error:
        raise Undecodable(_words(error)) from error


def _versioned(members: str) -> str:
    return f'{{"v":{VERSION},{members}}}'


def _load(text: str, cls: type[Any]) -> Any:
    try:
        fields = json.loads(text)
        version = fields.pop("v")
        if version != VERSION:
            raise Undecodable(f"version {version!r}, but this version of sandboxd reads {VERSION}")
        return _CONVERTER.structure(fields, cls)
    except Undecodable:
        raise
    except Exception as error:  # cattrs and json raise whatever fits; all of it means the same here
        raise Undecodable(_words(error)) from error


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _make_converter() -> Converter:
    converter = Converter(forbid_extra_keys=True, detailed_validation=False)
    for cls in (str, int, bool):
        converter.register_structure_hook(cls, _exactly(cls))
    converter.register_unstructure_hook(datetime, spelled.moment)
    converter.register_structure_hook(datetime, _moment)
    # JSON objects of others (metadata, facts, schemas) go through as they are.
    converter.register_unstructure_hook_func(_is_mapping, dict)
    converter.register_structure_hook_func(_is_mapping, _exactly(dict))
    converter.register_structure_hook_factory(_is_tuple, lambda kind: _tuple_hook(converter, kind))

    write_part = make_dict_unstructure_fn(Part, converter)
    read_part = make_dict_structure_fn(Part, converter, _cattrs_forbid_extra_keys=True, _cattrs_detailed_validation=False)
    converter.register_unstructure_hook(Part, lambda part: _bytes_as_text(write_part(part)))
    converter.register_structure_hook(Part, lambda value, kind: _text_as_bytes(read_part(value, kind)))

    without = override(omit=True)
    write_view = make_dict_unstructure_fn(TaskView, converter, earlier=without)
    read_view = make_dict_structure_fn(
        TaskView, converter, _cattrs_forbid_extra_keys=True, _cattrs_detailed_validation=False, earlier=without
    )
    converter.register_unstructure_hook(TaskView, write_view)
    converter.register_structure_hook(TaskView, read_view)
    return converter


def _exactly(cls: type[Any]) -> Callable[[Any, Any], Any]:
    def check(value: Any, _: Any) -> Any:
        if type(value) is not cls:  # bool is no int here, and nothing is converted
            raise TypeError(f"expected {cls.__name__}, got {type(value).__name__}")
        return value

    return check


def _moment(value: Any, _: Any) -> datetime:
    moment = datetime.fromisoformat(value)
    if moment.utcoffset() is None:
        raise ValueError("a time needs an offset")
    return moment.astimezone(UTC)


def _is_mapping(kind: Any) -> bool:
    return get_origin(kind) is Mapping  # the origin of `collections.abc.Mapping[…]`


def _is_tuple(kind: Any) -> bool:
    return get_origin(kind) is tuple


def _tuple_hook(converter: Converter, kind: Any) -> Callable[[Any, Any], Any]:
    member = get_args(kind)[0]
    read = converter.get_structure_hook(member)

    def structure(value: Any, _: Any) -> Any:
        if type(value) is not list:  # a text would come apart into its letters
            raise TypeError(f"expected list, got {type(value).__name__}")
        return tuple(read(each, member) for each in value)

    return structure


def _bytes_as_text(fields: dict[str, Any]) -> dict[str, Any]:
    if fields["kind"] == "raw":
        fields["value"] = base64.b64encode(fields["value"]).decode()
    return fields


def _text_as_bytes(part: Part) -> Part:
    return attrs.evolve(part, value=base64.b64decode(part.value, validate=True)) if part.kind == "raw" else part


_CONVERTER: Final = _make_converter()
_WRITERS: Final[Mapping[type[Event], Callable[[Event], dict[str, Any]]]] = {
    cls: _CONVERTER.get_unstructure_hook(cls) for cls in _NAMES
}
