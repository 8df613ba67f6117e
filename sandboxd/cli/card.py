"""What does an agent's card say, and who signed it?

`show` and `verify` look at any agent's card, over the network, without credentials and without following redirects. `rotate`
changes the keys of this host's daemon, in the state folder of its config; the daemon goes by them at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import attrs
import click
import httpx

from sandboxd.a2a.card_signing import ALGORITHM, COVERS, JWKS_PATH, decode, payload, read_entry
from sandboxd.a2a.jsontext import parse_json
from sandboxd.cli.console import Console
from sandboxd.cli.exits import Exit, Failure, of_load_error
from sandboxd.cli.groups import Group
from sandboxd.cli.options import json_option
from sandboxd.cli.settings import read_config
from sandboxd.cli.text import shown
from sandboxd.errors import InvalidJson, LoadError
from sandboxd.http.card_keys import FILE_NAME, finish, holds, rotate
from sandboxd.values import frozen

CARD_PATH: Final = "/.well-known/agent-card.json"
_MAX_BYTES: Final = 1024 * 1024
_TIMEOUT_S: Final = 15.0
_MEANS: Final = {"a2a": "A2A 1.0's fields", "json": "the whole JSON"}


@frozen
class Checked:
    """One signature: over what it holds (`a2a`, `json`), empty: over nothing, and then why."""

    kid: str
    covers: str
    why: str = ""


@click.group(cls=Group)
def card() -> None:
    """Show and verify an agent card, rotate the keys that sign it."""


@card.command()
@click.argument("url")
@json_option
def show(*, url: str, as_json: bool) -> None:
    """Print the card of the agent at URL, its base URL or that of the card itself."""
    console, found = Console.of_process(), _fetch(_card_url(url), "the card")
    if as_json:
        console.object({"schema": "sandboxd.card/1", "url": _card_url(url), "card": found})
    else:
        console.say(shown(json.dumps(found, indent=2, ensure_ascii=False), keep="\n"))


@card.command()
@click.argument("url")
@click.option("--jwks", "file", type=click.Path(path_type=Path, dir_okay=False), help="Trust only the keys in this JWK set.")
@json_option
def verify(*, url: str, file: Path | None, as_json: bool) -> int:
    """Check the signatures on the card of the agent at URL; 1 when none holds.

    Without --jwks the keys are those that the same server shows. That proves that card and keys belong together, and no more
    about who it is than the connection does: keep the keys, and give them with --jwks the next time.
    """
    console, where = Console.of_process(), _card_url(url)
    found = _fetch(where, "the card")
    keys_url = where.removesuffix(CARD_PATH) + JWKS_PATH
    keys = _keys(_read(file) if file else _fetch(keys_url, "the keys"))
    checked = check_card(found, keys)
    is_good = any(one.covers for one in checked)
    if as_json:
        console.object(
            {"schema": "sandboxd.card-check/1", "url": where, "ok": is_good, "signatures": [attrs.asdict(c) for c in checked]}
        )
        return Exit.DONE if is_good else Exit.OTHER
    rows = [["ok" if one.covers else "fail", one.kid, _MEANS.get(one.covers, one.why)] for one in checked]
    console.table(["", "key", "covers"], rows, styles={"ok": "green", "fail": "red"})
    if not checked:
        console.talk("The card has no signatures.")
    elif not any(one.covers == "json" for one in checked) and is_good:
        console.talk("Only A2A 1.0's fields are signed: whatever else stands on the card is not.")
    return Exit.DONE if is_good else Exit.OTHER


@card.command("rotate")
@click.option("--finish", "is_last", is_flag=True, help="Drop the older key: the rotation is over.")
@click.option("--config", "file", metavar="FILE", envvar="SANDBOXD_CONFIG", default="", help="Which config [SANDBOXD_CONFIG].")
@json_option
def rotate_(*, is_last: bool, file: str, as_json: bool) -> None:
    """Make a new key beside the old one; cards are signed with both until --finish."""
    console, config = Console.of_process(), read_config(file)
    path = config.state_dir / FILE_NAME
    try:
        keys = finish(path) if is_last else rotate(path, datetime.now(UTC))
    except LoadError as error:
        raise of_load_error(error) from error
    if as_json:
        console.object({"schema": "sandboxd.card-keys/1", "keys": [key.jwk for key in keys]})
        return
    for key in keys:
        console.say(key.kid)
    if not is_last:
        console.talk("Cards are signed with both now. Once every client knows the new key: sandboxd card rotate --finish")


def check_card(card: Mapping[str, Any], keys: Mapping[str, bytes]) -> list[Checked]:
    """What each signature on the card is worth; `keys`: Ed25519 public keys by their `kid`."""
    entries = card.get("signatures")
    return [_check(card, spelled, keys) for spelled in entries] if isinstance(entries, list) else []


def _check(card: Mapping[str, Any], spelled: Any, keys: Mapping[str, bytes]) -> Checked:
    signature = read_entry(spelled)
    if signature is None:
        return Checked("", "", "it is no signature in A2A's form")
    if signature.alg != ALGORITHM:
        return Checked(signature.kid, "", f"its algorithm `{signature.alg}` is not checked here, only {ALGORITHM}")
    public = keys.get(signature.kid)
    if public is None:
        return Checked(signature.kid, "", "its key is not among those that are trusted")
    for covers in reversed(COVERS):  # the stronger claim first, whatever its header says
        if holds(signature, payload(card, covers), public):
            return Checked(signature.kid, covers)
    return Checked(signature.kid, "", "it does not fit this card")


def _keys(jwks: Mapping[str, Any]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    listed = jwks.get("keys")
    for key in listed if isinstance(listed, Sequence) and not isinstance(listed, str) else []:
        if isinstance(key, Mapping) and (key.get("kty"), key.get("crv")) == ("OKP", "Ed25519"):
            try:
                found[str(key.get("kid", ""))] = decode(str(key.get("x", "")))
            except ValueError:
                continue  # a key that nobody can use
    return found


def _card_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Failure(f"cannot use `{url}`: it needs http:// or https:// and a host", Exit.USAGE)
    return url if parts.path.endswith(".json") else url.rstrip("/") + CARD_PATH


def _fetch(url: str, what: str) -> Mapping[str, Any]:
    try:
        with (
            httpx.Client(trust_env=False, timeout=_TIMEOUT_S) as client,
            client.stream("GET", url, headers={"Accept": "application/json"}) as answer,
        ):
            body = b""
            for piece in answer.iter_bytes():
                body += piece
                if len(body) > _MAX_BYTES:
                    raise Failure(f"cannot read {what} at `{url}`: it is larger than {_MAX_BYTES} bytes")
    except httpx.HTTPError as error:
        raise Failure(f"cannot fetch {what} at `{url}`: {error}", Exit.UNREACHABLE) from error
    if answer.status_code != httpx.codes.OK:
        code = Exit.NOT_FOUND if answer.status_code == httpx.codes.NOT_FOUND else Exit.OTHER
        raise Failure(f"cannot fetch {what} at `{url}`: the server says {answer.status_code}", code)
    return _object(body, f"{what} at `{url}`")


def _read(file: Path) -> Mapping[str, Any]:
    try:
        return _object(file.read_bytes(), f"`{file}`")
    except OSError as error:
        raise Failure(f"cannot read `{file}`: {(error.strerror or str(error)).lower()}") from error


def _object(body: bytes, what: str) -> Mapping[str, Any]:
    try:
        value = parse_json(body)
    except InvalidJson as error:
        raise Failure(f"cannot read {what}: it is no JSON ({error.message})") from error
    if not isinstance(value, Mapping):
        raise Failure(f"cannot read {what}: it is no object")
    return value
