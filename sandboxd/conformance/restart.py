"""What becomes of an open question when the target is killed? RS-1 and RS-2, with a command that restarts the target."""

from __future__ import annotations

import subprocess
import time
from typing import Final

from sandboxd.conformance import sentences
from sandboxd.conformance.bench import Bench, shown
from sandboxd.conformance.codec import Seen
from sandboxd.conformance.door import Asked, Refused
from sandboxd.conformance.scenario import Scenario

_COMMAND_S: Final = 120.0
_BACK_S: Final = 60.0
_RESOLVED_S: Final = 5.0  # a task that only its own deadline ends was not resolved by the restart


def resolves_open_prompts(bench: Bench) -> None:
    """RS-1."""
    bench.at("drive the agent into INPUT_REQUIRED")
    asked = bench.prompt()
    payload = bench.valid(asked)
    restart(bench)
    bench.at("the task says what became of it")
    now = bench.wait(bench.get(asked.id), lambda task: task.has_ended, for_s=_RESOLVED_S)
    if now.still_asks(asked.prompt_id):
        # Only where the process itself survived may its question still be open: then an answer must reach it.
        bench.note("the task still asks after the restart; whether its process survived was judged by an answer")
        taken = bench.answer(asked, payload)
        if isinstance(taken, Refused):
            bench.fail("a task that is not waiting for an answer it refuses", sentences.NO_REATTACH, f"{shown(now)}; {taken}")
        gone_on = bench.wait(taken, lambda task: not task.still_asks(asked.prompt_id))
        went_on = not gone_on.still_asks(asked.prompt_id)
        bench.expect(went_on, "the answer reaches the process that asked", sentences.EXACTLY, shown(gone_on))
        return
    bench.expect(now.has_ended, "a terminal state", sentences.INFRASTRUCTURE, shown(now))
    bench.expect(now.state == "failed", "failed: its process is gone", sentences.INFRASTRUCTURE, shown(now))
    bench.at("the old prompt_id is refused with 409")
    _expect_conflict(bench, bench.answer(asked, payload))


def remembers_answers(bench: Bench) -> None:
    """RS-2."""
    bench.at("answer a question, and every further one")
    asked = bench.prompt()
    payload = bench.valid(asked)
    ended = bench.finish_off(asked, sentences.OPEN_UNTIL)
    restart(bench)
    bench.at("the task ends as it had ended")
    now = bench.get(ended.id)
    bench.expect(now.state == ended.state, f"{ended.state}, as before", sentences.EXIT_ZERO, shown(now))
    bench.at("the answered prompt_id is refused with 409")
    _expect_conflict(bench, bench.answer(asked, payload))


def restart(bench: Bench) -> None:
    """Run the restart command, then wait until the card is served again; a command that fails is no fault of the target."""
    bench.at("restart the target")
    try:
        done = subprocess.run(  # the operator's own command line, split and not given to a shell
            bench.options.restart_command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_COMMAND_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        bench.skip(f"the restart command could not run: {error}")
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()[-300:]
        bench.skip(f"the restart command ended with {done.returncode}: {said}")
    bench.site.line.close()
    ends_at = time.monotonic() + _BACK_S
    while True:
        came = bench.site.line.ask(bench.site.url, Asked("GET", "/.well-known/agent-card.json"), {})
        if came.status == 200:
            return
        if time.monotonic() > ends_at:
            bench.fail(f"the card within {_BACK_S:.0f} s of the restart", sentences.DECLARED, came)
        time.sleep(0.1)


def _expect_conflict(bench: Bench, read: Seen | Refused) -> None:
    if isinstance(read, Seen):
        bench.fail("409 / hitl_already_answered_or_unknown", sentences.NO_REATTACH, f"it was accepted: {shown(read)}")
    bench.expect(read.is_conflict, "409 / hitl_already_answered_or_unknown", sentences.CONFLICT, read)


_NEEDS: Final = ("prompt", "restart")
SCENARIOS: Final = (
    Scenario("RS-1", "a restart resolves an open question truthfully", resolves_open_prompts, _NEEDS),
    Scenario("RS-2", "a restart forgets no answer", remembers_answers, _NEEDS),
)
