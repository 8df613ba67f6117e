"""Is a credential of the config's found where systemd put it, and its absence told?"""

from __future__ import annotations

from pathlib import Path

import pytest

from sandboxd.config import parse_config, to_toml
from sandboxd.errors import LoadError
from sandboxd.service.credentials import placed

TEXT = """
[listen]
tcp = "127.0.0.1:8765"
tls = { cert = "tls/cert.pem", key = "$CREDENTIALS_DIRECTORY/tls.key" }

[auth]
tokens = { cli = "$CREDENTIALS_DIRECTORY/cli", other = "/etc/sandboxd/other.token" }

[[instance]]
id = "main"
root = "/srv/workspace"
"""
FILE = Path("/etc/sandboxd/sandboxd.toml")


def test_a_credential_is_the_file_that_systemd_put_there(tmp_path: Path) -> None:
    for name in ("cli", "tls.key"):
        (tmp_path / name).touch()

    config = placed(parse_config(FILE, TEXT), tmp_path)

    assert config.tokens == {"cli": tmp_path / "cli", "other": Path("/etc/sandboxd/other.token")}
    assert config.listen.tls is not None
    assert (config.listen.tls.cert, config.listen.tls.key) == (Path("/etc/sandboxd/tls/cert.pem"), tmp_path / "tls.key")


def test_every_credential_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(LoadError) as refused:
        placed(parse_config(FILE, TEXT), tmp_path)

    assert [problem.field for problem in refused.value.problems] == ["auth.tokens.cli", "listen.tls.key"]
    assert "LoadCredential=cli:" in str(refused.value)


def test_without_a_unit_there_are_none() -> None:
    with pytest.raises(LoadError, match="they come from a unit"):
        placed(parse_config(FILE, TEXT), None)


def test_the_config_keeps_its_spelling() -> None:
    config = parse_config(FILE, TEXT)

    assert parse_config(FILE, to_toml(config)) == config


@pytest.mark.parametrize(
    "spelled", ["$HOME/token", "$CREDENTIALS_DIRECTORY", "$CREDENTIALS_DIRECTORY/a/b", "$CREDENTIALS_DIRECTORY/.."]
)
def test_no_other_variable_is_read(spelled: str) -> None:
    with pytest.raises(LoadError, match="must be spelled out"):
        parse_config(FILE, TEXT.replace("$CREDENTIALS_DIRECTORY/cli", spelled))
