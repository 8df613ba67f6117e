"""Where a program takes keys, does its answer get its Enter, once, and nothing else get it?"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sandboxd.live.verdict import Ending
from sandboxd.tasks.events import Answered, Asked, Event, Noticed
from tests.live.stage import Stage, answer

NODE = os.environ.get("SANDBOXD_NODE") or shutil.which("node")
INK = Path(os.environ.get("SANDBOXD_TEST_INK", "nowhere")) / "node_modules"
needs_ink = pytest.mark.skipif(
    NODE is None or not (INK / "ink-text-input").is_dir(),
    reason="NOT TESTED HERE: SANDBOXD_TEST_INK names no folder in which `npm install ink react ink-text-input` was run",
)

# As ink does: what one read brings is one key; it is taken in a moment later, and only then does a return submit it.
KEYS = """
import os, time, tty
tty.setraw(0)
def say(text): os.write(1, text.encode())
def field(label):
    say(label)
    text = ""
    while (key := os.read(0, 4096).decode()) != "\\r":
        time.sleep(0.05)
        text += key
        say(key.replace("\\r", "<CR>"))
    say("\\r\\n")
    return text
"""
ASK_TWO = f"{KEYS}\nsay(repr([field('Name: '), field('Town: ')]))\n"
ONE_KEY_THEN_ANOTHER = (
    f"{KEYS}\nsay('Wipe it? (y/n) '); os.read(0, 4096); say('\\r\\n'); say('got ' + repr(field('Which disk: ')))\n"
)
ONE_KEY_THEN_A_LINE = """
import os, termios, tty
before = termios.tcgetattr(0)
tty.setraw(0)
os.write(1, b"Wipe it? (y/n) ")
os.read(0, 4096)
termios.tcsetattr(0, termios.TCSANOW, before)
print()
print("got", repr(input("Which disk: ")))
"""
ONE_KEY_AND_OUT = "import os, tty\ntty.setraw(0)\nos.write(1, b'Quit? (y/n) ')\nos.read(0, 4096)\n"
ONE_KEY_AND_BUSY = f"{ONE_KEY_AND_OUT}os.write(1, b'taken')\nimport time\ntime.sleep(60)\n"
ASK_WITH_INK = """
import {createElement as h, useState} from 'react'
import {Box, Text, render} from 'ink'
import TextInput from 'ink-text-input'
const labels = ['Name?', 'Town?']
function App() {
  const [text, setText] = useState('')
  const [given, setGiven] = useState([])
  const submit = value => {
    const all = [...given, value]
    setGiven(all)
    setText('')
    if (all.length == labels.length) { setTimeout(() => { console.log('got ' + all.join(' of ')); process.exit() }, 50) }
  }
  const field = h(TextInput, {value: text, onChange: setText, onSubmit: submit})
  return h(Box, null, h(Text, null, (labels[given.length] ?? 'Done.') + ' '), field)
}
render(h(App))
"""


def is_unfinished(event: Event) -> bool:
    return isinstance(event, Noticed) and event.what == "answer-unfinished"


def is_consumed(event: Event) -> bool:
    return isinstance(event, Noticed) and event.what == "answer-consumed"


async def told(stage: Stage, task_id: str, what: Callable[[Event], bool]) -> list[Event]:
    return [stored.event for stored in await stage.events(task_id) if what(stored.event)]


async def test_a_program_that_takes_a_read_for_one_key_gets_the_text_and_then_its_enter(stage: Stage):
    task_id, run = await stage.start(ASK_TWO)
    seq = 0
    for text in ("Ada Lovelace", "London"):
        asked, seq = await stage.asked(task_id, after=seq)
        assert asked.facts["enter"] == "CR"
        answer(run(), asked.envelope.prompt_id, text)

    assert (await stage.ended(task_id)).exit_code == 0
    assert b"['Ada Lovelace', 'London']" in await stage.output(task_id)
    answers = await told(stage, task_id, lambda event: isinstance(event, Answered))
    assert [event.enter for event in answers if isinstance(event, Answered)] == ["CR", "CR"]
    assert len(await told(stage, task_id, is_unfinished)) == 0


async def test_an_empty_answer_is_the_enter_alone(stage: Stage):
    task_id, run = await stage.start(f"{KEYS}\nsay('got ' + repr(field('Name (default: Ada): ')))")
    asked, _ = await stage.asked(task_id)

    answer(run(), asked.envelope.prompt_id, "")

    await stage.wrote(task_id, b"got ''")


async def test_the_answer_is_read_only_when_its_enter_is(stage: Stage):
    task_id, run = await stage.start(f"{ASK_TWO}os.read(0, 1)")
    asked, seq = await stage.asked(task_id)
    answer(run(), asked.envelope.prompt_id, "Ada")

    consumed = await stage.until(task_id, is_consumed, after=seq)
    assert isinstance(consumed.event, Noticed)
    assert consumed.event.facts == {"prompt_id": asked.envelope.prompt_id}
    second, _ = await stage.asked(task_id, after=seq)
    assert second.envelope.prompt == "Town:"


@pytest.mark.parametrize("script", [ONE_KEY_THEN_ANOTHER, ONE_KEY_THEN_A_LINE], ids=["keys", "a line"])
async def test_an_enter_that_would_answer_the_next_question_is_not_typed_and_that_is_told(stage: Stage, script: str):
    task_id, run = await stage.start(script)
    first, seq = await stage.asked(task_id)
    answer(run(), first.envelope.prompt_id, "y")

    noticed = await stage.until(task_id, is_unfinished, after=seq)
    assert isinstance(noticed.event, Noticed)
    assert noticed.event.facts["prompt_id"] == first.envelope.prompt_id
    second, _ = await stage.asked(task_id, after=noticed.seq)
    assert second.envelope.prompt == "Which disk:"
    answer(run(), second.envelope.prompt_id, "sda")
    await stage.wrote(task_id, b"got 'sda'")


async def test_a_program_that_ends_on_the_text_alone_has_its_answer_and_no_enter(stage: Stage):
    task_id, run = await stage.start(ONE_KEY_AND_OUT)
    asked, _ = await stage.asked(task_id)

    answer(run(), asked.envelope.prompt_id, "y")

    assert (await stage.ended(task_id)).exit_code == 0
    (noticed,) = await told(stage, task_id, is_unfinished)
    assert isinstance(noticed, Noticed)
    assert noticed.facts == {"prompt_id": asked.envelope.prompt_id, "why": "the program ended"}


async def test_a_cancel_between_text_and_enter_is_told(stage: Stage):
    task_id, run = await stage.start(ONE_KEY_AND_BUSY)
    asked, _ = await stage.asked(task_id)
    answer(run(), asked.envelope.prompt_id, "y")
    await stage.wrote(task_id, b"taken")

    stage.supervisor.end_nowait(task_id, Ending("canceled"))

    assert (await stage.ended(task_id)).reason == "canceled"
    (noticed,) = await told(stage, task_id, is_unfinished)
    assert isinstance(noticed, Noticed)
    assert noticed.facts["why"] == "the run is ended"


async def test_nothing_is_asked_while_an_enter_is_due(stage: Stage):
    task_id, run = await stage.start(ONE_KEY_AND_BUSY)
    asked, seq = await stage.asked(task_id)
    answer(run(), asked.envelope.prompt_id, "y")

    noticed = await stage.until(task_id, is_unfinished, after=seq, seconds=30)

    assert isinstance(noticed.event, Noticed)
    assert "did not wait for more" in noticed.event.facts["why"]
    assert len(await told(stage, task_id, lambda event: isinstance(event, Asked))) == 1


@needs_ink
async def test_ink_is_asked_and_takes_its_answers(stage: Stage):
    (stage.root / "node_modules").symlink_to(INK)
    (stage.root / "ask.mjs").write_text(ASK_WITH_INK)
    task_id, run = await stage.start(f"exec '{NODE}' ask.mjs", "bash")
    seq = 0
    for label, text in (("Name?", "Ada"), ("Town?", "London")):
        asked, seq = await stage.asked(task_id, after=seq)
        assert asked.envelope.prompt == label
        answer(run(), asked.envelope.prompt_id, text)

    await stage.wrote(task_id, b"got Ada of London")
    assert len(await told(stage, task_id, is_unfinished)) == 0
