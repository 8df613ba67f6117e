"""How a run ends, whatever its program and its children do about it."""

from __future__ import annotations

import pytest

from tests.live.stage import Stage

CHATTY = """
( trap '' HUP; while :; do echo more; sleep 0.05; done ) &
echo done
exit 3
"""
FLOOD = """
( trap '' HUP; exec yes ) &
echo done
exit 3
"""


@pytest.mark.parametrize("text_line", [True, False], ids=["terminal", "pipes"])
@pytest.mark.parametrize("script", [CHATTY, FLOOD], ids=["chatty", "flood"])
async def test_a_background_child_that_never_falls_silent_does_not_keep_its_run_going(stage: Stage, script, text_line):
    task_id, _ = await stage.start(script, "bash", text_line=text_line)

    ended = await stage.ended(task_id, seconds=6)

    assert (ended.reason, ended.exit_code) == ("exit", 3)
    assert b"done" in await stage.output(task_id, "terminal" if text_line else "stdout")
