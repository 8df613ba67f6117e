"""Is the config read strictly, with every mistake named by key, and shown as what it is?"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sandboxd.config import (
    Config,
    Instance,
    IsolationSettings,
    Retention,
    config_text_init,
    load_config,
    parse_config,
    to_json,
    to_toml,
)
from sandboxd.config_doors import Listen, TcpAddress, Tls
from sandboxd.config_limits import HostLimits
from sandboxd.errors import LoadError

FILE = Path("/etc/sandboxd/sandboxd.toml")
MINIMAL = '[[instance]]\nid = "main"\nroot = "/srv/one"\n'
FULL = """
state_dir = "state"
public_url = "https://sandbox.example.org/a2a/"
card = "strict"

[listen]
unix = "run/d.sock"
tcp = "[::1]:0"
unauthenticated = true
allow_root = true

[listen.tls]
cert = "tls/cert.pem"
key = "/srv/key.pem"
client_ca = "tls/ca.pem"

[auth]
tokens = { cli = "cli.token", "orchestrator.one" = "/srv/o.token" }

[programs]
node = "/opt/node/bin/node"
"python3.11" = "/usr/bin/python3"

[[instance]]
id = "one"
root = "../work space"
shown = "/project/"
policies = ["policies.d/a.toml", "/srv/b.toml"]

[[instance]]
id = "two.2_x-y"
root = "/srv/two"
default = true

[limits]
max_tasks = 2
max_connections = 4
max_body = "64KiB"
keepalive = "2m"
ping = "500ms"
stop_grace = "1500ms"
rate = 0
burst = 7
max_tasks_per_instance = 2
max_tasks_per_principal = 1
max_events = 1000
max_subscribers = 5
max_subscribers_per_task = 3
max_unsent = "32MiB"
max_store = "1GiB"
min_free = "0B"

[retention]
tasks_days = 0
output_days = 9
events_days = 2
vacuum = false
audit_days = 8

[isolation]
level = "none"
"""


def problems_of(text: str) -> dict[str, str]:
    with pytest.raises(LoadError) as caught:
        parse_config(FILE, text)
    assert caught.value.source == str(FILE)
    problems: dict[str, str] = {}
    for problem in caught.value.problems:
        problems[problem.field] = f"{problems.get(problem.field, '')}{problem.reason}\n"
    return problems


def test_the_smallest_file_is_one_instance() -> None:
    config = parse_config(FILE, MINIMAL)

    assert config.instances == (Instance("main", Path("/srv/one"), "/workspace", (), is_default=True),)
    assert config.default_instance.id == "main"
    assert config.state_dir == Path("/var/lib/sandboxd")
    assert config.listen == Listen(Path("/var/lib/sandboxd/sandboxd.sock"))
    assert config.tokens == {"cli": Path("/var/lib/sandboxd/cli.token")}
    assert (config.limits, config.retention, config.public_url) == (HostLimits(), Retention(), None)
    assert config.isolation == IsolationSettings("none")
    assert config.source == FILE


def test_every_key_is_read_and_relative_paths_belong_to_the_files_folder() -> None:
    config = parse_config(FILE, FULL)

    assert config == Config(
        state_dir=Path("/etc/sandboxd/state"),
        public_url="https://sandbox.example.org/a2a",
        listen=Listen(
            Path("/etc/sandboxd/run/d.sock"),
            TcpAddress("::1", 0),
            unauthenticated=True,
            allow_root=True,
            tls=Tls(Path("/etc/sandboxd/tls/cert.pem"), Path("/srv/key.pem"), Path("/etc/sandboxd/tls/ca.pem")),
        ),
        tokens={"cli": Path("/etc/sandboxd/cli.token"), "orchestrator.one": Path("/srv/o.token")},
        programs={"node": "/opt/node/bin/node", "python3.11": "/usr/bin/python3"},
        instances=(
            Instance(
                "one",
                Path("/etc/sandboxd/../work space"),
                "/project",
                (Path("/etc/sandboxd/policies.d/a.toml"), Path("/srv/b.toml")),
                is_default=False,
            ),
            Instance("two.2_x-y", Path("/srv/two"), is_default=True),
        ),
        limits=HostLimits(2, 4, 65_536, 120, 0.5, 1.5, 0, 7, 2, 1, 1000, 5, 3, 32 * 1024**2, 1024**3, 0),
        retention=Retention(0, 9, 2, vacuum=False, audit_days=8),
        card="strict",
    )
    assert config.default_instance.id == "two.2_x-y"


@pytest.mark.parametrize("text", [MINIMAL, FULL, config_text_init()])
def test_what_is_shown_loads_as_itself(text: str) -> None:
    config = parse_config(FILE, text)

    assert parse_config(Path("/elsewhere/x.toml"), to_toml(config)) == config
    assert json.loads(json.dumps(to_json(config))) == to_json(config)


def test_names_that_toml_would_misread_are_shown_escaped() -> None:
    odd = Path('/srv/"odd"\\\n\x7f é😀')
    config = Config(Path("/s"), Listen(Path("/s/d.sock")), (Instance("a", odd, policies=(odd,)),), tokens={"a.b": odd})

    assert parse_config(FILE, to_toml(config)) == config


def test_the_first_config_loads_and_so_does_every_line_that_it_comments_out() -> None:
    text = config_text_init()
    # A comment that begins with `key = ` shows a key; the others are prose.
    uncommented = re.sub(r"(?m)^# (?=[a-z_0-9]+ = )", "", text)

    assert uncommented.count("\n# ") < text.count("\n# ")
    assert parse_config(FILE, text).instances[0].policies == ()
    assert parse_config(FILE, uncommented).limits == HostLimits()


def test_the_first_config_shows_the_defaults() -> None:
    shown = parse_config(FILE, re.sub(r"(?m)^# (?=(?!public_url|tcp|tls|tokens|python3)[a-z_0-9]+ = )", "", config_text_init()))
    silent = parse_config(FILE, config_text_init())

    assert shown == silent


@pytest.mark.parametrize(
    ("old", "new", "key", "told"),
    [
        ('state_dir = "state"', "state_dir = 5", "state_dir", "must be a string"),
        ('state_dir = "state"', 'state_dir = ""', "state_dir", "must not be empty"),
        ('state_dir = "state"', 'state_dir = "~/state"', "state_dir", "`~` is not read"),
        ('state_dir = "state"', 'statedir = "state"', "statedir", "did you mean `state_dir`"),
        ("[limits]", "[limit]", "limit", "did you mean `limits`"),
        ("https://sandbox.example.org/a2a/", "sandbox.example.org", "public_url", "http or https URL"),
        ("https://sandbox.example.org/a2a/", "ftp://example.org", "public_url", "http or https URL"),
        ("https://sandbox.example.org/a2a/", "https://u:p@example.org", "public_url", "without credentials"),
        ("https://sandbox.example.org/a2a/", "https://example.org/?a=b", "public_url", "query"),
        ("https://sandbox.example.org/a2a/", "https://example.org:99999", "public_url", "http or https URL"),
        ("https://sandbox.example.org/a2a/", "https://[::1", "public_url", "http or https URL"),
        ("https://sandbox.example.org/a2a/", "https://", "public_url", "http or https URL"),
        ("run/d.sock", "x" * 94, "listen.unix", "at most 107"),
        ("[::1]:0", "127.0.0.1", "listen.tcp", "no IP address with a port"),
        ("[::1]:0", "127.0.0.1:65536", "listen.tcp", "no IP address with a port"),
        ("[::1]:0", "127.0.0.300:1", "listen.tcp", "no IP address with a port"),
        ("[::1]:0", "example.org:80", "listen.tcp", "no IP address with a port"),
        ("[::1]:0", "::1:80", "listen.tcp", "no IP address with a port"),
        ('tcp = "[::1]:0"', "tcp = 8765", "listen.tcp", "must be a string"),
        ('tcp = "[::1]:0"', 'port = "8765"', "listen.port", "unknown key"),
        ("unauthenticated = true", 'unauthenticated = "yes"', "listen.unauthenticated", "`true` or `false`"),
        ("unauthenticated = true", "unauthenticted = true", "listen.unauthenticted", "did you mean `unauthenticated`"),
        ('cli = "cli.token"', "cli = 5", "auth.tokens.cli", "must be a string"),
        ('cli = "cli.token"', 'cli = ""', "auth.tokens.cli", "must not be empty"),
        ('cli = "cli.token"', '"a b" = "cli.token"', "auth.tokens.a b", "no name for a token"),
        ('cli = "cli.token"', 'cli = "/srv/o.token"', "auth.tokens", "share a file"),
        ("/opt/node/bin/node", "node", "programs.node", "must be an absolute path"),
        ("/opt/node/bin/node", "~/node", "programs.node", "must be an absolute path"),
        ('node = "/opt', '"a/b" = "/opt', "programs.a/b", "no name for a program"),
        ('node = "/opt/node/bin/node"', "node = []", "programs.node", "must be a string"),
        ('id = "one"', "", "instance.1.id", "is missing"),
        ('id = "one"', 'id = "-one"', "instance.1.id", "is no id"),
        ('id = "one"', 'id = "a/b"', "instance.1.id", "is no id"),
        ('id = "one"', f'id = "{"x" * 65}"', "instance.1.id", "is no id"),
        ('id = "one"', 'id = "one\\n"', "instance.1.id", "is no id"),
        ('id = "one"', 'id = "two.2_x-y"', "instance.2.id", "another instance"),
        ('root = "/srv/two"', "", "instance.2.root", "is missing"),
        ('root = "/srv/two"', 'root = "/"', "instance.2.root", "not `/`"),
        ('root = "/srv/two"', 'root = "/srv/.."', "instance.2.root", "not `/`"),
        ('root = "/srv/two"', 'root = "~"', "instance.2.root", "`~` is not read"),
        ('root = "/srv/two"', 'root = "/srv/two"\npath = "/"', "instance.2.path", "unknown key"),
        ("/project/", "project", "instance.1.shown", "absolute path"),
        ("/project/", "/", "instance.1.shown", "absolute path"),
        ("/project/", "/a/../b", "instance.1.shown", "absolute path"),
        ("/project/", "/a//b", "instance.1.shown", "absolute path"),
        ('"/srv/b.toml"', '"policies.d/a.toml"', "instance.1.policies", "same file twice"),
        ('"/srv/b.toml"', '""', "instance.1.policies", "must not be empty"),
        ('"/srv/b.toml"', "5", "instance.1.policies", "list of strings"),
        ("default = true", "", "instance", "exactly one"),
        ('id = "one"', 'id = "one"\ndefault = true', "instance", "exactly one"),
        ("max_tasks = 2", "max_tasks = 0", "limits.max_tasks", "whole number from 1"),
        ("max_tasks = 2", "max_tasks = 2.0", "limits.max_tasks", "whole number from 1"),
        ("max_tasks = 2", "max_task = 2", "limits.max_task", "did you mean `max_tasks`"),
        ('max_body = "64KiB"', "max_body = 65536", "limits.max_body", "with its unit"),
        ('max_body = "64KiB"', 'max_body = "1KiB"', "limits.max_body", "from 65536"),
        ('ping = "500ms"', 'ping = "0ms"', "limits.ping", "from 0.1 s"),
        ('keepalive = "2m"', 'keepalive = "2 minutes"', "limits.keepalive", "with its unit"),
        ("tasks_days = 0", "tasks_days = -1", "retention.tasks_days", "whole number from 0"),
        ("tasks_days = 0", "tasks_days = 8", "retention.output_days", "longer than `tasks_days`"),
        ("events_days = 2", "events_days = 10", "retention.events_days", "longer than `output_days`"),
        ("events_days = 2", "events_days = 0", "retention.events_days", "longer than `output_days`"),
        ("vacuum = false", "vacuum = 1", "retention.vacuum", "must be `true` or `false`"),
        ('level = "none"', 'level = "medium"', "isolation.level", "must be one of"),
        ('level = "none"', 'level = "none"\nread = ["/etc"]', "isolation.read", "name the folder in it"),
        ('level = "none"', 'level = "none"\nread = ["/"]', "isolation.read", "more than a task may see"),
        ('level = "none"', "level = 0", "isolation.level", "must be a string"),
    ],
)
def test_a_mistake_is_named_by_its_key(old: str, new: str, key: str, told: str) -> None:
    assert old in FULL

    problems = problems_of(FULL.replace(old, new, 1))

    assert key in problems, problems
    assert told in problems[key]


def test_all_mistakes_come_at_once_and_each_once() -> None:
    with pytest.raises(LoadError) as caught:
        parse_config(FILE, 'colour = "red"\n[listen]\nunix = ""\n[isolation]\nlevel = "medium"\n')

    assert sorted(problem.field for problem in caught.value.problems) == [
        "colour",
        "instance",
        "isolation.level",
        "listen.unix",
    ]


def test_a_single_instance_that_is_no_default_leaves_none() -> None:
    assert "exactly one" in problems_of(MINIMAL + "default = false\n")["instance"]


@pytest.mark.parametrize("text", ["", "instance = 5", "instance = []", "[instance]\nid = 'a'", "listen = 5", "instance = [5]"])
def test_a_file_of_another_shape_is_a_load_error(text: str) -> None:
    assert problems_of(text)


@pytest.mark.parametrize(
    ("lines", "field", "told"),
    [
        ('tcp = "192.0.2.1:1"', "listen.tcp", "clear text is for loopback only"),
        (
            'tcp = "192.0.2.1:1"\nunauthenticated = true\ntls = { cert = "c", key = "k" }',
            "listen.unauthenticated",
            "who they are",
        ),
        ('tcp = "0.0.0.0:1"\ntls = { cert = "c", key = "k" }', "public_url", "every address"),
        ('tls = { cert = "c", key = "k" }', "listen.tls", "not set"),
        ('tcp = "192.0.2.1:1"\ntls = { cert = "c" }', "listen.tls.key", "is missing"),
    ],
)
def test_an_address_of_others_needs_tls_and_a_url_that_answers(lines: str, field: str, told: str) -> None:
    assert told in problems_of(f"{MINIMAL}[listen]\n{lines}\n")[field]


def test_with_tls_any_address_will_do() -> None:
    text = f'{MINIMAL}[listen]\ntcp = "192.0.2.1:1"\ntls = {{ cert = "c", key = "k" }}\n'

    assert parse_config(FILE, text).listen.tcp == TcpAddress("192.0.2.1", 1)


def test_localhost_is_the_loopback_address() -> None:
    tcp = parse_config(FILE, MINIMAL + '[listen]\ntcp = "localhost:1"\nunauthenticated = true\n').listen.tcp

    assert tcp == TcpAddress("127.0.0.1", 1)


def test_a_socket_name_in_a_deep_folder_is_told_before_it_fails_to_bind() -> None:
    assert "at most 107" in problems_of(f'state_dir = "/{"x" * 100}"\n{MINIMAL}')["listen.unix"]


def test_a_file_is_read_from_disk(tmp_path: Path) -> None:
    (tmp_path / "sandboxd.toml").write_text(MINIMAL.replace("/srv/one", "."))

    assert load_config(tmp_path / "sandboxd.toml").instances[0].root == tmp_path


@pytest.mark.parametrize("content", [b"\xff", b"#" * (1024 * 1024 + 1), b"a = ", None])
def test_a_file_that_cannot_be_read_is_a_load_error(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "sandboxd.toml"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(LoadError) as caught:
        load_config(path)

    assert caught.value.source == str(path)
    assert len(str(caught.value)) < 400


def test_run_without_a_file_is_one_instance_without_a_listener(tmp_path: Path) -> None:
    config = Config.for_run(tmp_path, [tmp_path / "p.toml"], {"node": "/usr/bin/node"}, tmp_path / "state")

    assert config.listen == Listen()
    assert config.default_instance == Instance("local", tmp_path, "/workspace", (tmp_path / "p.toml",))
    assert (config.state_dir, config.tokens, config.source) == (tmp_path / "state", {}, None)


@pytest.mark.parametrize(
    ("text", "retention"),
    [
        ("", Retention(30, 30, 7)),
        ("tasks_days = 3", Retention(3, 3, 3)),
        ("tasks_days = 0", Retention(0, 0, 7)),
        ("output_days = 5", Retention(30, 5, 5)),
    ],
)
def test_what_is_left_out_of_the_retention_follows_what_is_there(text: str, retention: Retention) -> None:
    assert parse_config(Path("x.toml"), f"{MINIMAL}\n[retention]\n{text}").retention == retention
