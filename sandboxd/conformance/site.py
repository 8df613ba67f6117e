"""What is known of the target before the first scenario?

Its card, which doors it has, and which of its requests ask, pass and fail. The card is believed where it names a door of the
origin that is driven; a door that it does not name is tried with a request that cannot do anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import attrs

from sandboxd.a2a.extensions import HITL_PROMPT
from sandboxd.conformance.codec import Draft
from sandboxd.conformance.door import Asked, Came, Dialect, Door, JsonRpc, Refused, Rest, name_of
from sandboxd.conformance.finding import CannotRun
from sandboxd.conformance.line import Line
from sandboxd.values import frozen

DoorName = Literal["jsonrpc", "rest", "dialect", "all"]
VersionName = Literal["1.0", "0.3", "all"]

_CARDS: Final = ("/.well-known/agent-card.json", "/.well-known/agent.json")
_BINDINGS: Final = {"JSONRPC": "jsonrpc", "HTTP+JSON": "rest"}
EXAMPLES: Final = ".aiwg/ops/adapters/sandbox-agent-runner/examples"  # of the example adapter
_NOBODY: Final = "00000000-0000-4000-8000-000000000000"


@frozen
class Options:
    """How a run was asked for."""

    door: DoorName = "all"
    version: VersionName = "all"
    request: str = ""
    restart_command: tuple[str, ...] = ()
    trials: int = 50
    tolerance_ms: int = 0
    only: tuple[str, ...] = ()


@frozen
class Entrance:
    """A door and the URL it hangs at; `is_declared`: the card names it."""

    door: Door
    url: str
    is_declared: bool

    @property
    def name(self) -> str:
        """How reports call it."""
        return name_of(self.door)


@frozen
class Site:
    """The target."""

    url: str
    card: Mapping[str, Any]
    line: Line
    entrances: tuple[Entrance, ...]
    options: Options
    notes: tuple[str, ...] = ()

    @property
    def required(self) -> tuple[str, ...]:
        """Extensions that the card demands of every client; hitl-prompt's own activation is what scenarios are about."""
        capabilities = self.card.get("capabilities")
        listed = _objects(capabilities.get("extensions")) if isinstance(capabilities, Mapping) else []
        return tuple(str(one.get("uri")) for one in listed if one.get("required") is True and one.get("uri") != HITL_PROMPT)

    def extension(self, uri: str) -> Mapping[str, Any] | None:
        """What the card says of that extension, wherever 1.0 and 0.3 put it; None: nothing."""
        capabilities = self.card.get("capabilities")
        listed = capabilities.get("extensions") if isinstance(capabilities, Mapping) else None
        for found in listed if isinstance(listed, list) else []:
            if isinstance(found, Mapping) and found.get("uri") == uri:
                return found
        return None


def headers_of(door: Door, extensions: Sequence[str]) -> dict[str, str]:
    """The headers that a request at that door carries.

    0.3 has no version header and named the other one `X-…`; the dialect has the plain name alone, and where the two share a
    path a server may tell its clients apart by that.
    """
    headers = {"A2A-Version": "1.0"} if door.codec.version == "1.0" else {}
    if extensions:
        headers["A2A-Extensions"] = ", ".join(extensions)
        if door.codec.version == "0.3" and not isinstance(door, Dialect):
            headers["X-A2A-Extensions"] = ", ".join(extensions)
    return headers


def explore(url: str, line: Line, options: Options) -> Site:
    """Read the card and find the doors that were asked for; `CannotRun` when there is nothing to drive."""
    card = _read_card(url, line)
    notes: list[str] = []
    entrances = []
    for door in _wanted(options):
        declared = _declared(card, door)
        here = [found for found in declared if _origin(found) == _origin(url)]
        if declared and not here:
            notes.append(f"the card has {name_of(door)} at another origin, {declared[0]}; it was driven below {url}")
        entrance = Entrance(door, (here[0] if here else url).rstrip("/"), bool(declared))
        if declared or _answers(entrance, line):
            entrances.append(entrance)
        elif options.door != "all" and options.version != "all":
            raise CannotRun(f"cannot drive {name_of(door)}: neither the card of {url} names it, nor does it answer there")
        else:
            notes.append(f"{name_of(door)}: not on the card, and it does not answer")
    if not entrances:
        raise CannotRun(f"cannot drive {url}: it has none of the doors that were asked for")
    first = entrances[0]
    came = line.ask(first.url, first.door.get(_NOBODY), headers_of(first.door, ()))
    if came.status in (401, 403):
        raise CannotRun(f"cannot drive {url}: it does not let this client in (--token-file); {came}")
    return Site(url, card, line, tuple(entrances), options, tuple(notes))


def _read_card(url: str, line: Line) -> Mapping[str, Any]:
    said: list[Came] = []
    for path in _CARDS:
        came = line.ask(url, Asked("GET", path), {})
        if came.status == 200 and isinstance(came.body, Mapping):
            return came.body
        if came.status == 0:
            raise CannotRun(f"cannot reach {url}: {came.text}")
        said.append(came)
    raise CannotRun(f"cannot read the agent card of {url}: {said[0]}")


def _wanted(options: Options) -> list[Door]:
    every: list[Door] = [JsonRpc("1.0"), Rest("1.0"), JsonRpc("0.3"), Rest("0.3"), Dialect()]
    return [door for door in every if options.door in ("all", door.name) and options.version in ("all", door.codec.version)]


def _declared(card: Mapping[str, Any], door: Door) -> list[str]:
    """Where the card has that door, by 1.0's list and by 0.3's fields; the dialect is on no card.

    Cards write 0.3's HTTP binding with `/v1` at its end and without; the door adds it.
    """
    found: list[tuple[Any, Any, Any]] = []
    for listed in _objects(card.get("supportedInterfaces")):
        found.append((listed.get("protocolBinding"), listed.get("protocolVersion"), listed.get("url")))
    old = card.get("protocolVersion")
    found.append((card.get("preferredTransport") or "JSONRPC", old, card.get("url")))
    for listed in _objects(card.get("additionalInterfaces")):
        found.append((listed.get("transport"), old, listed.get("url")))
    return [
        url.rstrip("/").removesuffix("/v1") if isinstance(door, Rest) and door.codec.version == "0.3" else url
        for binding, version, url in found
        if _BINDINGS.get(str(binding)) == door.name and isinstance(url, str) and str(version).startswith(door.codec.version)
    ]


def _answers(entrance: Entrance, line: Line) -> bool:
    """Whether a question after a task that nobody has is answered as such, rather than as a path that nobody serves."""
    door = entrance.door
    came = line.ask(entrance.url, door.get(_NOBODY), headers_of(door, (HITL_PROMPT,)))
    if isinstance(door, JsonRpc):
        refused = door.read(came) if isinstance(came.body, Mapping) and "error" in came.body else None
        return isinstance(refused, Refused) and refused.code == -32001
    if isinstance(door, Dialect):
        # No message in it, so it can start nothing; 404 and 405 are what a path gets that is not served.
        probe = line.ask(entrance.url, Asked("POST", "/messages:send", {}), headers_of(door, (HITL_PROMPT,)))
        return probe.status not in (0, 404, 405, 501)
    probe = line.ask(entrance.url, attrs.evolve(door.send(Draft(""), wait=False), body={}), headers_of(door, (HITL_PROMPT,)))
    is_by_version = "VERSION_NOT_SUPPORTED" in probe.text
    return probe.status not in (0, 404, 405, 501) and not is_by_version


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc
