"""Is what was written read back equal, and is anything else refused?"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxd.store import codec, spelled
from sandboxd.store.codec import (
    Undecodable,
    decode_artifacts,
    decode_event,
    decode_view,
    encode_artifacts,
    encode_event,
    encode_message,
    encode_view,
)
from sandboxd.tasks.events import Wrote
from sandboxd.tasks.machine import TABLE
from sandboxd.tasks.view import ArtifactView, TaskView, fold
from tests.tasks.happenings import BY_KIND, EXAMPLES, MOMENT, events, names

WROTE = Wrote(MOMENT, "terminal", 0, 3, first=True, last=False)


@given(events)
def test_any_event_comes_back_equal(event):
    assert decode_event(*encode_event(event)) == event


@given(events, st.lists(st.builds(ArtifactView, names, st.integers(0), st.booleans(), st.integers(0), st.integers(0))))
def test_what_is_spelled_out_by_hand_is_the_text_that_every_other_value_gets(event, artifacts):
    assert encode_event(event)[1] == spelled.dump({"v": codec.VERSION, **codec._CONVERTER.unstructure(event)})
    assert encode_artifacts(tuple(artifacts)) == spelled.dump(codec._CONVERTER.unstructure(artifacts))


@given(st.data())
def test_the_view_of_any_story_comes_back_equal(data):
    view = TaskView(data.draw(names), data.draw(names), data.draw(names))
    for _ in range(data.draw(st.integers(0, 15))):
        kinds = sorted({kind.__name__: kind for state, kind, _ in TABLE if state is view.state}.items())
        if not kinds:
            break
        view = fold(view, data.draw(BY_KIND[data.draw(st.sampled_from([kind for _, kind in kinds]))]))

    assert decode_view(encode_view(view)) == view
    assert encode_view(view) == spelled.dump({"v": codec.VERSION, **codec._CONVERTER.unstructure(view)})
    for message in view.history:
        assert encode_message(message) == spelled.dump({"v": codec.VERSION, **codec._CONVERTER.unstructure(message)})


@given(st.lists(st.builds(ArtifactView, names, st.integers(0), st.booleans(), st.integers(0), st.integers(0))).map(tuple))
def test_any_artifacts_come_back_equal(artifacts):
    assert decode_artifacts(encode_artifacts(artifacts)) == artifacts


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_a_stored_text_is_plain_ascii_with_its_version(event):
    _, text = encode_event(event)

    assert text.isascii()
    assert json.loads(text)["v"] == 1


def _changed(**fields: object) -> str:
    return json.dumps(json.loads(encode_event(WROTE)[1]) | fields)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "JSONDecodeError"),
        ("[]", "TypeError"),
        ("{}", "'v'"),
        (_changed(v=2), "version 2"),
        (_changed(colour="red"), "colour"),
        (_changed(size="3"), "expected int, got str"),
        (_changed(size=True), "expected int, got bool"),
        (_changed(size=3.0), "expected int, got float"),
        (_changed(first=1), "expected bool, got int"),
        (_changed(artifact_id=None), "expected str, got NoneType"),
        (_changed(at="2026-11-29T12:00:00"), "offset"),
        (_changed(at="yesterday"), "yesterday"),
        ('{"v":1}', "missing|KeyError"),
    ],
)
def test_a_text_that_this_version_does_not_write_is_refused(text, why):
    with pytest.raises(Undecodable, match=why):
        decode_event("wrote", text)


def test_an_unknown_kind_of_event_is_refused():
    with pytest.raises(Undecodable, match="unknown kind of event `vanished`"):
        decode_event("vanished", "{}")


def test_a_list_that_is_a_text_does_not_come_apart():
    kind, text = encode_event(EXAMPLES[3])
    with pytest.raises(Undecodable, match="expected list, got str"):
        decode_event(kind, json.dumps(json.loads(text) | {"options": "yn"}))


def test_a_literal_that_is_not_known_is_refused():
    kind, text = encode_event(EXAMPLES[5])
    with pytest.raises(Undecodable, match="evaporated"):
        decode_event(kind, json.dumps(json.loads(text) | {"closure": "evaporated"}))


def test_a_view_with_an_unknown_state_is_refused():
    text = encode_view(fold(TaskView("t", "c", "i"), EXAMPLES[0]))
    with pytest.raises(Undecodable, match="sleeping"):
        decode_view(text.replace('"state":"submitted"', '"state":"sleeping"'))


def test_what_no_json_can_say_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="JSON compliant"):
        encode_view(TaskView("t", "c", "i", facts={"share": float("nan")}))
