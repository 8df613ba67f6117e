"""Does the beginning of a message's id say what a scripted task does?"""

from __future__ import annotations

import pytest

from sandboxd.live.scripted import Ask, Hold, Reject, Show, message_for, script_for


@pytest.mark.parametrize(
    ("message_id", "kinds"),
    [
        ("tck-complete-task-1a2b3c4d", []),
        ("tck-artifact-file-1a2b3c4d", [Show]),
        ("tck-input-required-1a2b3c4d-jsonrpc", [Ask]),
        ("tck-reject-task-1a2b3c4d", [Reject]),
        ("test-resubscribe-message-id-1", [Hold]),
        ("test-history-message-1", [Ask]),
        ("anything-else", []),
    ],
)
def test_a_script_is_found_by_the_ids_beginning(message_id: str, kinds: list[type]) -> None:
    assert [type(step) for step in script_for(message_id)] == kinds


def test_the_longest_beginning_wins() -> None:
    (shown,) = script_for("tck-artifact-file-url-1a2b3c4d")

    assert isinstance(shown, Show)
    assert shown.artifact_id == "link:output.txt"


def test_a_bare_message_is_the_answer_to_one_id_alone() -> None:
    assert message_for("tck-message-response-1") == "Direct message response"
    assert message_for("tck-complete-task-1") is None
