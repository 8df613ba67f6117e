"""ARCHITECTURE.md's picture and the transition table are one."""

from pathlib import Path

from sandboxd.tasks.machine import diagram

REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_picture_of_the_states_is_drawn_from_the_table():
    assert diagram() in (REPOSITORY / "ARCHITECTURE.md").read_text()
