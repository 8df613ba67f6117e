"""What did the operator configure?

`sandboxd.toml`, read strictly: every problem at once, an unknown key with the closest known one, sizes and durations with
their unit. Relative paths are relative to the file's own folder. Nothing is opened or created here but the file itself: whether
a root exists and a policy holds is asked by those who use them. `config_text_init` is a commented file that loads.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args
from urllib.parse import urlsplit

import attrs

from sandboxd.config_doors import NAME, Listen, read_listen, read_path, read_tokens, resolve
from sandboxd.config_limits import HostLimits, limits_json, read_limits
from sandboxd.config_push import LOOPBACK, Push, push_json, read_push
from sandboxd.errors import LoadError, Problem
from sandboxd.policy.decide import LEVELS
from sandboxd.policy.exec_text import shown
from sandboxd.policy.model import Isolation
from sandboxd.policy.table import Table, parse_toml
from sandboxd.values import frozen

CardForm = Literal["merged", "strict"]
CARD_FORMS: Final[tuple[CardForm, ...]] = get_args(CardForm)
DEFAULT_PATH: Final = Path("/etc/sandboxd/sandboxd.toml")
SHOWN_ROOT: Final = "/workspace"
_DAYS_MAX: Final = 36_500
_FILE_MAX_BYTES: Final = 1024 * 1024
_INSTANCE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@frozen
class Instance:
    """A workspace that tasks run in: `root` on this host, `shown` to clients. Only the listed policies are active."""

    id: str
    root: Path
    shown: str = SHOWN_ROOT
    policies: tuple[Path, ...] = ()
    is_default: bool = True


@frozen
class Retention:
    """For how many days a finished task is kept, its output, and its events (for replay); 0: for ever. And the audit record.

    `vacuum`: give the space of what is gone back to the file system.
    """

    tasks_days: int = 30
    output_days: int = 30
    events_days: int = 7
    vacuum: bool = True
    audit_days: int = 365


@frozen
class IsolationSettings:
    """The level that every task gets at least; what tasks may read of this host besides the system; where bubblewrap is."""

    level: Isolation = "none"
    read: tuple[Path, ...] = ()
    bubblewrap: Path = Path("/usr/bin/bwrap")


TckProfile = Literal["full", "caps-off", "required-extension"]
TCK_PROFILES: Final[tuple[TckProfile, ...]] = get_args(TckProfile)


@frozen
class Config:
    """The effective configuration; `source` is the file it came from, None: no file.

    `tck`: the daemon plays the public A2A kit's scripts instead of running commands.
    """

    state_dir: Path
    listen: Listen
    instances: tuple[Instance, ...]
    programs: Mapping[str, str] = attrs.field(factory=dict)
    tokens: Mapping[str, Path] = attrs.field(factory=dict)
    limits: HostLimits = attrs.field(factory=HostLimits)
    retention: Retention = Retention()
    push: Push = attrs.field(factory=Push)
    card: CardForm = "merged"
    isolation: IsolationSettings = IsolationSettings()
    public_url: str | None = None
    tck: TckProfile | None = None
    source: Path | None = attrs.field(default=None, eq=False)

    @property
    def default_instance(self) -> Instance:
        """The instance that the root paths of the doors mean."""
        return next(instance for instance in self.instances if instance.is_default)

    @classmethod
    def for_run(cls, root: Path, policies: Sequence[Path], programs: Mapping[str, str], state_dir: Path) -> Config:
        """What `sandboxd run` uses without a file: one instance on one folder, no listener, no token."""
        instance = Instance("local", root.absolute(), policies=tuple(policy.absolute() for policy in policies))
        return cls(state_dir.absolute(), Listen(), (instance,), dict(programs))


def load_config(path: Path) -> Config:
    """The configuration in the file; `LoadError` names every problem by its key."""
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_MAX_BYTES + 1)
        if len(content) > _FILE_MAX_BYTES:
            raise LoadError(str(path), [Problem("", f"is larger than {_FILE_MAX_BYTES} bytes")])
        text = content.decode()
    except OSError as error:
        raise LoadError(str(path), [Problem("", error.strerror or str(error))]) from error
    except UnicodeDecodeError as error:
        raise LoadError(str(path), [Problem("", f"is no UTF-8 text: {error.reason} at byte {error.start}")]) from error
    return parse_config(path, text)


def parse_config(path: Path, text: str) -> Config:
    """The configuration in `text`, as if it stood in the file `path`."""
    problems: list[Problem] = []
    folder = path.absolute().parent
    top = Table(parse_toml(str(path), text), problems)
    state_dir = read_path(top, "state_dir", folder, "/var/lib/sandboxd")
    config = Config(
        state_dir=state_dir,
        listen=read_listen(top.table("listen"), folder, state_dir),
        instances=_read_instances(top, folder),
        programs=_read_programs(top),
        tokens=read_tokens(top.table("auth"), folder, state_dir),
        limits=read_limits(top.table("limits")),
        retention=_read_retention(top.table("retention")),
        push=read_push(top.table("push")),
        card=cast("CardForm", top.word("card", CARD_FORMS, "merged")),
        isolation=_read_isolation(top.table("isolation"), folder),
        public_url=_read_public_url(top),
        tck=_read_tck(top.table("tck")),
        source=path,
    )
    if config.listen.tcp is not None and config.listen.tcp.is_wildcard and config.public_url is None:
        top.problem(
            "public_url", f"is missing: `{config.listen.tcp}` is every address, and clients must be told one that answers"
        )
    if config.tck is not None:
        config = _open_for_kit(config, top)
    top.close()
    if problems:
        raise LoadError(str(path), problems)
    return config


def _read_instances(top: Table, folder: Path) -> tuple[Instance, ...]:
    tables = top.tables("instance")
    if not tables:
        top.problem("instance", "is missing: write at least one `[[instance]]` with `id`, `root` and `policies`")
        return ()
    instances = [_read_instance(table, folder, is_alone=len(tables) == 1) for table in tables]
    ids: set[str] = set()
    for table, instance in zip(tables, instances, strict=True):
        if instance.id in ids:
            table.problem("id", f"{shown(instance.id)} is the id of another instance already")
        ids.add(instance.id)
    if sum(instance.is_default for instance in instances) != 1:
        top.problem("instance", "exactly one instance must have `default = true`")
    return tuple(instances)


def _read_instance(table: Table, folder: Path, *, is_alone: bool) -> Instance:
    name = table.text("id")
    if name and not _INSTANCE_ID.fullmatch(name):
        table.problem("id", f"{shown(name)} is no id: at most 64 letters, digits, `.`, `_`, `-`, the first a letter or digit")
    root = read_path(table, "root", folder)
    if os.path.normpath(root) in ("/", "//"):
        table.problem("root", "must be a workspace of its own, not `/`")
    name_shown = table.text("shown", SHOWN_ROOT).rstrip("/")
    if not name_shown.startswith("/") or {"", ".", ".."} & set(name_shown.split("/")[1:]):
        table.problem("shown", f'must be an absolute path that names a folder, such as "{SHOWN_ROOT}"')
    policies = tuple(resolve(table, "policies", folder, policy) for policy in table.texts("policies"))
    if len(set(policies)) < len(policies):
        table.problem("policies", "names the same file twice")
    is_default = table.flag("default", is_alone) is True
    table.close()
    return Instance(name, root, name_shown, policies, is_default)


def _read_programs(top: Table) -> dict[str, str]:
    programs = top.mapping("programs")
    table = top.table("programs") if programs else top
    for name, path in programs.items():
        if not NAME.fullmatch(name):
            table.problem(name, "is no name for a program: at most 64 letters, digits, `.`, `_`, `+`, `-`")
        if not path.startswith("/"):
            table.problem(name, f"{shown(path)} must be an absolute path: `PATH` is never searched")
    return programs


def _read_retention(table: Table) -> Retention:
    standard = Retention()
    tasks_days = table.number("tasks_days", standard.tasks_days, least=0, most=_DAYS_MAX)
    output_days = table.number("output_days", tasks_days, least=0, most=_DAYS_MAX)
    events_days = table.number("events_days", _shorter(standard.events_days, output_days), least=0, most=_DAYS_MAX)
    if _shorter(output_days, tasks_days) != output_days:
        table.problem("output_days", "is longer than `tasks_days`: output goes with its task")
    if _shorter(events_days, output_days) != events_days:
        table.problem("events_days", "is longer than `output_days`: events are replayed with their output")
    audit_days = table.number("audit_days", standard.audit_days, most=_DAYS_MAX)
    retention = Retention(tasks_days, output_days, events_days, table.flag("vacuum", standard.vacuum) is True, audit_days)
    table.close()
    return retention


def _shorter(days: int, other_days: int) -> int:
    return min(days or _DAYS_MAX + 1, other_days or _DAYS_MAX + 1) % (_DAYS_MAX + 1)  # 0 is for ever


def _read_isolation(table: Table, folder: Path) -> IsolationSettings:
    standard = IsolationSettings()
    level = cast("Isolation", table.word("level", LEVELS, standard.level))
    read = tuple(resolve(table, "read", folder, name) for name in table.texts("read"))
    for path in read:
        if os.path.normpath(path) in ("/", "//", "/proc", "/dev", "/etc"):
            table.problem("read", f"{shown(str(path))} is more than a task may see: name the folder in it that is needed")
    settings = IsolationSettings(level, read, read_path(table, "bubblewrap", folder, str(standard.bubblewrap)))
    table.close()
    return settings


def _read_tck(table: Table) -> TckProfile | None:
    text = table.text("profile", "off")
    table.close()
    found = next((profile for profile in TCK_PROFILES if profile == text), None)
    if found is None and text != "off":
        table.problem("profile", f"{shown(text)} must be one of `off`, " + ", ".join(f"`{known}`" for known in TCK_PROFILES))
    return found


def _open_for_kit(config: Config, top: Table) -> Config:
    """The kit brings no credentials: everyone on this machine may call, and nobody else can."""
    if config.listen.tcp is None or not config.listen.tcp.is_loopback:
        top.problem("tck.profile", "needs a `listen.tcp` on loopback: whoever connects may call, and only this machine may")
    if config.public_url is not None:
        top.problem("tck.profile", "is open to whoever calls, so it has no `public_url`")
    card: CardForm = config.card if top.has("card") else "strict"  # as the 1.0 kit wants it; the 0.3 kit reads a merged one
    # The kit's receiver of notifications is on loopback.
    allow = dict.fromkeys((*config.push.allow, *LOOPBACK))
    push = attrs.evolve(config.push, enabled=config.tck != "caps-off", allow=tuple(allow))
    return attrs.evolve(config, card=card, push=push, listen=attrs.evolve(config.listen, unauthenticated=True))


def _read_public_url(top: Table) -> str | None:
    if not top.has("public_url"):
        return None
    text = top.text("public_url").rstrip("/")
    try:
        url = urlsplit(text)
        is_plain = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_plain = False
    if not is_plain or url.username or url.password or re.search(r"[?#\s]", text):
        top.problem("public_url", "must be an http or https URL without credentials, query and fragment")
    return text


def config_text_init() -> str:
    """A commented file to begin with; it loads as it stands, and nothing may run by it yet."""
    return Path(__file__).with_name("share").joinpath("sandboxd.toml").read_text()


def to_json(config: Config) -> dict[str, Any]:
    """The effective configuration by the file's own keys; holds paths of tokens, never a token."""
    listen = config.listen
    known: dict[str, Any] = {
        "state_dir": str(config.state_dir),
        "public_url": config.public_url,
        "card": config.card,
        "listen": {
            "unix": None if listen.unix is None else str(listen.unix),
            "tcp": None if listen.tcp is None else str(listen.tcp),
            "unauthenticated": listen.unauthenticated,
            "allow_root": listen.allow_root,
            "tls": None
            if listen.tls is None
            else {key: str(value) for key, value in attrs.asdict(listen.tls).items() if value},
        },
        "auth": {"tokens": {name: str(file) for name, file in config.tokens.items()}},
        "programs": dict(config.programs),
        "instance": [
            {
                "id": instance.id,
                "root": str(instance.root),
                "shown": instance.shown,
                "policies": [str(policy) for policy in instance.policies],
                "default": instance.is_default,
            }
            for instance in config.instances
        ],
        "limits": limits_json(config.limits),
        "retention": attrs.asdict(config.retention),
        "push": push_json(config.push),
        "isolation": {
            "level": config.isolation.level,
            "read": [str(path) for path in config.isolation.read],
            "bubblewrap": str(config.isolation.bubblewrap),
        },
        "tck": {"profile": config.tck or "off"},
    }
    return _without_none(known)


def to_toml(config: Config) -> str:
    """The effective configuration as a file that loads as itself."""
    known = to_json(config)
    lines = [f"{key} = {_toml(value)}" for key, value in known.items() if isinstance(value, str)]
    for name, value in known.items():
        for table in value if isinstance(value, list) else [value] if isinstance(value, dict) and value else []:
            lines += ["", f"[[{name}]]" if isinstance(value, list) else f"[{name}]"]
            lines += [f"{_toml_key(key)} = {_toml(item)}" for key, item in table.items()]
    return "\n".join(lines) + "\n"


def _without_none(table: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_none(value) if isinstance(value, dict) else value for key, value in table.items() if value is not None
    }


def _toml(value: Any) -> str:
    match value:
        case dict():
            return "{ " + ", ".join(f"{_toml_key(key)} = {_toml(item)}" for key, item in value.items()) + " }"
        case list():
            return f"[{', '.join(_toml(item) for item in value)}]"
        case _:
            # JSON's strings, numbers and booleans are TOML's, but for DEL, which TOML wants escaped.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)
