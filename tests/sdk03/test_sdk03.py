"""Does the last 0.3 release of the public SDK do every call, over JSON-RPC and REST?

It cannot be installed beside today's, so `scripts/test-sdk03` makes an environment for it and names its Python
(`SANDBOXD_SDK03`); `drive.py` is what runs there.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon

DRIVER = Path(__file__).with_name("drive.py")
CHECKS = re.findall(r"^async def ((?:asking_)?check_\w+)", DRIVER.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def python() -> str:
    found = os.environ.get("SANDBOXD_SDK03")
    if not found:
        pytest.skip("NOT TESTED HERE: the SDK of A2A 0.3, which `make test-sdk03` installs")
    return found


@pytest.fixture(scope="module")
def caps_off(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path_factory.mktemp("caps-off"), "/usr/bin/true", extra='[tck]\nprofile = "caps-off"')
    daemon.config.write_text('card = "merged"\n' + daemon.config.read_text())  # in the profile it is 1.0's alone
    daemon.start()
    yield daemon
    daemon.end()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, node: Path) -> Iterator[Daemon]:
    """Two instances on one workspace; the second one's interfaces are all below `/agents/second`."""
    daemon = Daemon(tmp_path_factory.mktemp("two"), str(node))
    second = f'[[instance]]\nid = "second"\nroot = "{daemon.workspace}"\npolicies = ["{daemon.policy}"]\n'
    daemon.config.write_text(daemon.config.read_text() + second)
    daemon.start()
    yield daemon
    daemon.end()


@pytest.fixture(
    scope="module",
    params=[
        ("JSONRPC", "", True),
        ("HTTP+JSON", "", True),
        ("JSONRPC", "/agents/second", False),
        ("HTTP+JSON", "/agents/second", False),
    ],
    ids=["JSONRPC", "REST", "JSONRPC-second-plain", "REST-second-plain"],
)
def results(request: pytest.FixtureRequest, python: str, host: Daemon, caps_off: Daemon) -> dict[str, str]:
    transport, at, names_extensions = request.param
    given = {
        "url": host.url + at,
        "token": host.token,
        "caps_off": caps_off.url,
        "transport": transport,
        "names_extensions": names_extensions,
        "asks": host.envelope(host.request([["ask", "Proceed? [y/N] "], ["print", "went on"]])),
        "prints": host.envelope(host.request([["print", "printed"]]), input_mode="text-line" if names_extensions else ...),
    }
    asked = json.dumps(given)
    done = subprocess.run([python, str(DRIVER)], input=asked, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("check", CHECKS)
def test_the_sdk_of_03_agrees_that(results: dict[str, str], check: str):
    if check not in results:
        pytest.skip("it asks a question, and this client names no extension")
    if results[check] != "ok":
        pytest.fail(results[check], pytrace=False)
