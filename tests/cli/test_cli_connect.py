"""Which daemon does a command reach?"""

from __future__ import annotations

from pathlib import Path

import pytest

from sandboxd.cli.connect import USUAL_SOCKET, Reach
from sandboxd.cli.exits import Failure
from sandboxd.cli.main import main
from sandboxd.config import DEFAULT_PATH

INSTANCE = '[[instance]]\nid = "a"\nroot = "root"\npolicies = []\n'


def test_a_socket_needs_no_token() -> None:
    address = Reach(socket="/run/x.sock", token_file="/nowhere").address()

    assert (address.socket, address.url, address.token) == ("/run/x.sock", "", "")


def test_a_token_goes_to_this_machine(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")

    for host in ("127.0.0.1:1", "localhost:1", "[::1]:1"):
        assert Reach(url=f"http://{host}/", token_file=str(tmp_path / "token")).address().token == "s3cret"


@pytest.mark.parametrize("host", ["example.org", "10.0.0.1", "127.0.0.1.example.org"])
def test_a_token_does_not_leave_this_machine_in_the_open(tmp_path: Path, host: str) -> None:
    (tmp_path / "token").write_text("s3cret\n")

    with pytest.raises(Failure, match="everybody on the way") as failure:
        Reach(url=f"http://{host}:1", token_file=str(tmp_path / "token")).address()
    assert "s3cret" not in str(failure.value)
    assert Reach(url=f"https://{host}:1", token_file=str(tmp_path / "token")).address().token == "s3cret"


@pytest.mark.parametrize("content", [b"", b"two words", b"\xff\xfe", b"x" * 5000])
def test_a_file_without_a_token_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)

    with pytest.raises(Failure, match="it holds no token"):
        Reach(url="http://127.0.0.1:1", token_file=str(tmp_path / "token")).address()


def test_a_token_is_never_shown(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret")

    assert "s3cret" not in repr(Reach(url="http://127.0.0.1:1", token_file=str(tmp_path / "token")).address())


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:8765", "http://"])
def test_a_url_that_is_none_is_told(url: str) -> None:
    with pytest.raises(Failure, match="cannot use"):
        Reach(url=url).address()


def test_the_config_says_where_the_socket_is(tmp_path: Path) -> None:
    (tmp_path / "sandboxd.toml").write_text(f'state_dir = "state"\n[listen]\nunix = "s.sock"\n{INSTANCE}')

    assert Reach(config=str(tmp_path / "sandboxd.toml")).address().socket == str(tmp_path / "s.sock")


def test_a_config_with_tcp_alone_brings_its_token(tmp_path: Path) -> None:
    (tmp_path / "sandboxd.toml").write_text(f'state_dir = "state"\n[listen]\ntcp = "127.0.0.1:8765"\n{INSTANCE}')
    (tmp_path / "state").mkdir()
    (tmp_path / "state/cli.token").write_text("s3cret\n")

    address = Reach(config=str(tmp_path / "sandboxd.toml")).address()

    assert (address.url, address.token) == ("http://127.0.0.1:8765", "s3cret")


@pytest.mark.skipif(DEFAULT_PATH.exists(), reason="this host has a config of its own")
def test_without_any_word_the_usual_socket_is_meant() -> None:
    assert Reach().address().socket == USUAL_SOCKET


def test_two_places_on_one_command_line_are_wrong_usage() -> None:
    assert main(["tasks", "list", "--socket", "/x", "--url", "http://127.0.0.1:1"]) == 2


# httpcore 1.0 leaves a unix socket that could not be connected to the garbage collector.
@pytest.mark.filterwarnings("ignore:Exception ignored in.*socket:pytest.PytestUnraisableExceptionWarning")
def test_a_typed_socket_wins_over_a_url_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SANDBOXD_URL", "http://127.0.0.1:1")

    main(["tasks", "list", "--socket", str(tmp_path)])

    assert f"`{tmp_path}`" in capsys.readouterr().err
