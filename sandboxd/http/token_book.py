"""Which named tokens are there, and how does a change of them reach the daemon?

One file in the state folder, `tokens.json`, mode 0600, written by `sandboxd tokens` alone and read by the daemon whenever it
has changed (a look at its inode, size and time a request, some microseconds): a revoked token is refused from the next request
on, without a restart or a signal. It holds hashes, no tokens. An entry may name a client certificate instead of a token.
Revoked entries stay: a name is never given again, since tasks and the audit record know their principals by it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import attrs

from sandboxd.a2a.wire import rfc3339
from sandboxd.operations.access import SCOPES, Grants
from sandboxd.serving.private_file import changing, read_private, unusable, write_private
from sandboxd.serving.watched import Watched
from sandboxd.values import frozen

FILE_NAME: Final = "tokens.json"
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
ENTRIES_MAX: Final = 1000  # each is compared with at every request


@frozen
class Entry:
    """One named token, or one certificate's common name. Times are aware UTC."""

    name: str
    grants: Grants
    created_at: datetime
    digest: bytes | None = attrs.field(default=None, repr=False)
    certificate: str | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    @property
    def principal(self) -> str:
        """Its name for the record."""
        return f"token:{self.name}" if self.certificate is None else f"cert:{self.certificate}"

    def is_live(self, now: datetime) -> bool:
        """Whether it lets anybody in."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class TokenBook:
    """The entries as the file has them now."""

    def __init__(self, path: Path, taken: Collection[str] = ()) -> None:
        """Read it; `LoadError`, also when an entry has the name of a token of the config (`taken`)."""
        self._file = Watched(path, read_book)
        for entry in self._file.value:
            if entry.name in taken:
                raise unusable(path, f"`{entry.name}` is the name of a token of the config's, too; give that one another name")

    @property
    def entries(self) -> Sequence[Entry]:
        """Every entry, those that let nobody in any more too."""
        return self._file.value

    def live(self, now: datetime) -> Sequence[Entry]:
        """Every entry that lets somebody in."""
        return [entry for entry in self._file.value if entry.is_live(now)]


def read_book(path: Path) -> tuple[Entry, ...]:
    """Every entry, revoked ones too; none where there is no file. `LoadError`."""
    if not path.exists():
        return ()
    text = read_private(path)
    try:
        book = json.loads(text)
        if book["format"] != 1:
            raise ValueError("its format is not 1")
        return tuple(_entry(spelled) for spelled in book["tokens"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise unusable(path, f"it is not what `sandboxd tokens` writes: {error}") from error


def add(path: Path, entry: Entry) -> None:
    """Put a new entry on record; `LoadError` when its name, or its certificate, is or was in use."""
    with changing(path):
        entries = read_book(path)
        if any(known.name == entry.name for known in entries):
            raise unusable(path, f"`{entry.name}` is, or was, the name of another token; names are not given twice")
        if entry.certificate is not None and any(
            known.certificate == entry.certificate and known.revoked_at is None for known in entries
        ):
            raise unusable(path, f"there is an entry for the certificate `{entry.certificate}` already; revoke it first")
        if len(entries) >= ENTRIES_MAX:
            raise unusable(path, f"it has {ENTRIES_MAX} entries, which is the limit")
        _write(path, [*entries, entry])


def revoke(path: Path, name: str, now: datetime) -> bool:
    """Refuse that token from now on; False when no live token has the name."""
    with changing(path):
        entries = read_book(path)
        if not any(entry.name == name and entry.revoked_at is None for entry in entries):
            return False
        _write(
            path,
            [attrs.evolve(entry, revoked_at=entry.revoked_at or now) if entry.name == name else entry for entry in entries],
        )
    return True


def entry_json(entry: Entry) -> dict[str, Any]:
    """The entry without its hash, for people and programs."""
    spelled: dict[str, Any] = {
        "name": entry.name,
        "principal": entry.principal,
        "scopes": [scope for scope in SCOPES if scope in entry.grants.scopes],
        "instances": None if entry.grants.instances is None else sorted(entry.grants.instances),
        "created_at": rfc3339(entry.created_at),
    }
    if entry.certificate is not None:
        spelled["certificate"] = entry.certificate
    for key, moment in (("expires_at", entry.expires_at), ("revoked_at", entry.revoked_at)):
        if moment is not None:
            spelled[key] = rfc3339(moment)
    return spelled


def _write(path: Path, entries: Iterable[Entry]) -> None:
    tokens = []
    for entry in entries:
        spelled = entry_json(entry)
        del spelled["principal"]
        tokens.append(spelled if entry.digest is None else {**spelled, "sha256": entry.digest.hex()})
    write_private(path, json.dumps({"format": 1, "tokens": tokens}, indent=1) + "\n")


def _entry(spelled: dict[str, Any]) -> Entry:
    unknown = set(spelled["scopes"]) - set(SCOPES)
    if unknown:
        raise ValueError(f"unknown scopes {sorted(unknown)}")
    instances = spelled.get("instances")
    digest, certificate = spelled.get("sha256"), spelled.get("certificate")
    if (digest is None) == (certificate is None):
        raise ValueError(f"`{spelled['name']}` must have a hash or a certificate")
    return Entry(
        name=str(spelled["name"]),
        grants=Grants(frozenset(spelled["scopes"]), None if instances is None else frozenset(instances)),
        created_at=_moment(spelled["created_at"]),
        digest=None if digest is None else bytes.fromhex(digest),
        certificate=certificate,
        expires_at=_moment(spelled["expires_at"]) if "expires_at" in spelled else None,
        revoked_at=_moment(spelled["revoked_at"]) if "revoked_at" in spelled else None,
    )


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
