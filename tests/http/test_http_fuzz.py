"""Does any request, however odd, get a well-formed answer of its door, in time, that tells nothing of the inside?

Against a real daemon over TCP. `SANDBOXD_FUZZ_EXAMPLES` is how many requests each property sends; the default is for CI.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import mutants
from tests.support.daemon import Daemon, prompt_of, state_of
from tests.support.mutants import Sent
from tests.support.wire import exchange, judge

EXAMPLES = int(os.environ.get("SANDBOXD_FUZZ_EXAMPLES", "60"))
FAULTS = ("Traceback", "Cannot finish")

many = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


class Target:
    """A daemon that refuses nobody for asking often, with a task that is over and one that asks."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.known = {mutants.TOKEN: daemon.token, mutants.FINISHED: daemon.run([["print", "done"]])["id"]}

    def see_to_the_question(self) -> None:
        """Another task asks if the last one is over: some requests do answer it."""
        asking = self.known.get(mutants.ASKING)
        if asking is None or state_of(self.daemon.get(asking)) != "INPUT_REQUIRED":
            task = self.daemon.run([["ask", "Proceed? [y/N] "]], timeout_seconds=300)
            self.known |= {mutants.ASKING: task["id"], mutants.PROMPT: prompt_of(task)["prompt_id"]}

    def check(self, sent: Sent) -> None:
        answer = exchange(self.daemon.url, sent.data(self.known), method=sent.method)
        assert answer is not None, "closed without an answer"
        judge(answer, sent.door, folder=str(self.daemon.folder))


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory, node: Path) -> Iterator[Target]:
    extra = '[limits]\nrate = 0\n[push]\nallow = ["127.0.0.0/8"]\n'
    daemon = Daemon(tmp_path_factory.mktemp("fuzzed"), str(node), extra=extra)
    daemon.start()
    yield Target(daemon)
    daemon.end()


@pytest.fixture
def target(fuzzed: Target) -> Iterator[Target]:
    """At the end it is well, and has logged no fault."""
    log = fuzzed.daemon.folder / "log"
    before = log.stat().st_size
    fuzzed.see_to_the_question()
    yield fuzzed
    assert httpx.get(f"{fuzzed.daemon.url}/readyz", trust_env=False).status_code == 200
    said = log.read_bytes()[before:].decode(errors="replace")
    assert not [fault for fault in FAULTS if fault in said], said[-4000:]


@pytest.mark.parametrize(
    "door", [mutants.rpc_10, mutants.rpc_03, mutants.rest_10, mutants.rest_03, mutants.dialect, mutants.host]
)
def test_a_valid_request_is_answered_as_its_door_answers(target: Target, door):
    for sent in door():
        target.check(sent)


@given(sent=mutants.mutants(mutants.rpc_10()))
@many
def test_a_changed_call_of_10_is_answered(target: Target, sent: Sent):
    target.check(sent)


@given(sent=mutants.mutants(mutants.rpc_03()))
@many
def test_a_changed_call_of_03_is_answered(target: Target, sent: Sent):
    target.check(sent)


@given(sent=mutants.mutants(mutants.rest_10()))
@many
def test_a_changed_request_of_10_is_answered(target: Target, sent: Sent):
    target.check(sent)


@given(sent=mutants.mutants(mutants.rest_03()))
@many
def test_a_changed_request_of_03_is_answered(target: Target, sent: Sent):
    target.check(sent)


@given(sent=mutants.mutants(mutants.dialect()))
@many
def test_a_changed_request_of_the_dialect_is_answered(target: Target, sent: Sent):
    target.check(sent)


@given(sent=mutants.mutants(mutants.host()))
@many
def test_a_changed_request_to_the_host_is_answered(target: Target, sent: Sent):
    target.check(sent)


@given(path=mutants.paths, query=mutants.queries, method=st.sampled_from(["GET", "POST", "DELETE"]), body=mutants.bodies)
@many
def test_any_path_is_answered(target: Target, path: bytes, query: bytes, method: str, body: bytes):
    target.check(Sent("any", method, path, query=query, body=body if method == "POST" else None))


@given(
    data=st.binary(max_size=200),
    start=st.sampled_from([b"", b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\nHost: a\r\n", b"\x16\x03\x01"]),
)
@many
def test_any_bytes_are_answered_or_hung_up_on(target: Target, data: bytes, start: bytes):
    answer = exchange(target.daemon.url, start + data, method="GET", hang_up=True)
    if answer is not None:
        judge(answer, "any", folder=str(target.daemon.folder))
