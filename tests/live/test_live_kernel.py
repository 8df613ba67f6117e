"""Programs that really ask, that only look like it, and that ask for what is not to be kept: with the kernel as witness."""

from __future__ import annotations

from sandboxd import metrics
from sandboxd.a2a.model import TaskState
from sandboxd.tasks.events import Answered, Asked, Closed, Noticed
from tests.live.stage import Stage, answer, open_stage
from tests.support.captured import captured

CANARY = "canary-5f1c77"
ASKS_A_SECRET = """
import getpass, sys
value = getpass.getpass("Deploy token: ")
print("read", len(value), "characters:", value)
"""
FLUSHES = """
import os, termios, time
print("Proceed? [y/N] ", end="", flush=True)
while not os.path.exists("answered"): time.sleep(0.01)
termios.tcflush(0, termios.TCIFLUSH)
print("got", input())
"""
MENU = """
import os, tty
tty.setraw(0)
os.write(1, b"? Pick one\\r\\n\\x1b[36m> first\\x1b[0m\\r\\n  second\\r\\n\\x1b[?25l")
os.read(0, 10)
"""


def is_noticed(what: str):
    return lambda event: isinstance(event, Noticed) and event.what == what


async def test_an_unread_partial_line_is_no_question(stage: Stage):
    task_id, _ = await stage.start("printf 'Remove old files? [y/N] '; sleep 1.5; echo done", "bash")

    assert (await stage.ended(task_id)).exit_code == 0
    assert not any(isinstance(stored.event, Asked) for stored in await stage.events(task_id))


async def test_a_line_that_no_pack_knows_is_asked_where_somebody_waits_for_it(stage: Stage):
    task_id, run = await stage.start("print('got', input('the colour of the shed, please '))")
    asked, seq = await stage.asked(task_id)

    assert asked.envelope.prompt == "the colour of the shed, please"
    assert (asked.facts["kind"], asked.facts["rule"], asked.facts["enter"]) == ("free_text", "generic.kernel", "LF")
    assert asked.facts["evidence"]["reader"].endswith(": read")
    answer(run(), asked.envelope.prompt_id, "green")
    noticed = await stage.until(task_id, is_noticed("answer-consumed"), after=seq)
    assert isinstance(noticed.event, Noticed)
    assert noticed.event.facts == {"prompt_id": asked.envelope.prompt_id}
    await stage.wrote(task_id, b"got green")


async def test_a_question_that_ended_its_line_is_asked_where_somebody_waits(stage: Stage):
    task_id, _ = await stage.start("echo 'Type the name of the project to confirm'; read -r x", "bash")

    assert (await stage.asked(task_id))[0].envelope.prompt == "Type the name of the project to confirm"


async def test_output_takes_no_question_back_while_somebody_waits_for_it(stage: Stage):
    script = "(sleep 1; echo '[worker] heartbeat'; touch noise) & read -r -p 'Apply? [y/N] ' x; echo got $x"
    task_id, run = await stage.start(script, "bash")
    asked, seq = await stage.asked(task_id)

    await stage.wrote(task_id, b"heartbeat")
    await stage.appears("noise")
    answer(run(), asked.envelope.prompt_id, "y")

    await stage.wrote(task_id, b"got y")
    assert not any(isinstance(stored.event, Closed) for stored in await stage.events(task_id))
    assert seq > 0


async def test_a_question_that_nobody_waits_for_any_more_is_withdrawn_though_its_line_stands(stage: Stage):
    task_id, _ = await stage.start("read -r -t 1 -p 'Apply? [y/N] ' x; sleep 20", "bash")
    _, seq = await stage.asked(task_id)

    closed = await stage.until(task_id, lambda event: isinstance(event, Closed), after=seq)

    assert isinstance(closed.event, Closed)
    assert closed.event.closure == "withdrawn"


async def test_a_secret_is_not_asked_of_people_by_default(stage: Stage):
    before = metrics.WAITING.labels(why="secret")._value.get()
    task_id, _ = await stage.start(ASKS_A_SECRET)

    noticed = await stage.until(task_id, is_noticed("secret-withheld"))

    assert isinstance(noticed.event, Noticed)
    assert noticed.event.line == "Deploy token:"
    assert metrics.WAITING.labels(why="secret")._value.get() == before + 1
    assert await stage.state(task_id) is TaskState.WORKING
    assert not any(isinstance(stored.event, Asked) for stored in await stage.events(task_id))


async def test_a_policy_may_fail_a_task_that_asks_for_a_secret(tmp_path):
    async with open_stage(tmp_path, more='[prompts]\nsecrets = "fail"') as stage:
        task_id, _ = await stage.start(ASKS_A_SECRET)
        ended = await stage.ended(task_id)

    assert (ended.reason, ended.fail_kind) == ("secret-asked", "infrastructure")


async def test_a_secret_that_is_relayed_is_kept_nowhere(tmp_path):
    with captured() as logged:
        async with open_stage(tmp_path, more='[prompts]\nsecrets = "relay"') as stage:
            task_id, run = await stage.start(ASKS_A_SECRET)
            asked, _ = await stage.asked(task_id)
            assert asked.facts["kind"] == "secret"
            assert asked.envelope.response_schema["properties"]["text"]["writeOnly"] is True
            answer(run(), asked.envelope.prompt_id, CANARY)
            assert (await stage.ended(task_id)).exit_code == 0

            assert f"read {len(CANARY)} characters: [secret]".encode() in await stage.output(task_id)
            events = await stage.events(task_id)
            (answered,) = [stored.event for stored in events if isinstance(stored.event, Answered)]
            assert "[secret]" in str(answered.message)
            view = await stage.store.view(task_id)
            assert CANARY not in f"{events} {view} {run}"
        kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())

    assert b"Deploy token" in kept
    assert CANARY.encode() not in kept
    assert CANARY not in str(logged)
    assert CANARY.encode() not in metrics.exposition()


async def test_an_answer_that_was_thrown_away_is_told_and_its_question_raised_anew(blind_stage: Stage):
    task_id, run = await blind_stage.start(FLUSHES)
    first, seq = await blind_stage.asked(task_id)
    answer(run(), first.envelope.prompt_id, "y")
    (blind_stage.root / "answered").touch()

    noticed = await blind_stage.until(task_id, is_noticed("answer-discarded"), after=seq)
    second, _ = await blind_stage.asked(task_id, after=noticed.seq)
    assert second.envelope.prompt == first.envelope.prompt
    assert second.envelope.prompt_id != first.envelope.prompt_id
    answer(run(), second.envelope.prompt_id, "again")

    await blind_stage.wrote(task_id, b"got again")


async def test_what_getpass_flushes_after_it_has_read_is_no_discarded_answer(tmp_path):
    script = "import getpass\nfor n in range(3): getpass.getpass(f'Token {n}: ')\nprint('all read')"
    async with open_stage(tmp_path, more='[prompts]\nsecrets = "relay"') as stage:
        task_id, run = await stage.start(script)
        seq = 0
        for number in range(3):
            asked, seq = await stage.asked(task_id, after=seq)
            assert asked.envelope.prompt == f"Token {number}:"
            answer(run(), asked.envelope.prompt_id, "abc")
        await stage.ended(task_id)

        assert not any(is_noticed("answer-discarded")(stored.event) for stored in await stage.events(task_id))


async def test_a_menu_is_reported_and_never_offered(stage: Stage):
    task_id, _ = await stage.start(MENU)

    noticed = await stage.until(task_id, is_noticed("waiting-menu"))

    assert isinstance(noticed.event, Noticed)
    assert not any(isinstance(stored.event, Asked) for stored in await stage.events(task_id))


async def test_a_wait_behind_no_question_is_loud(stage: Stage):
    before = metrics.WAITING.labels(why="undetected")._value.get()
    task_id, _ = await stage.start("import sys; print('ready', flush=True); sys.stdin.readline()")

    noticed = await stage.until(task_id, is_noticed("waiting-undetected"))

    assert isinstance(noticed.event, Noticed)
    assert noticed.event.line == "ready"
    assert metrics.WAITING.labels(why="undetected")._value.get() == before + 1
