"""Hypothesis strategies: anything that can happen to a task."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from hypothesis import strategies as st

from sandboxd.a2a.model import Message, Part
from sandboxd.errors import Problem
from sandboxd.hitl.envelope import PromptEnvelope
from sandboxd.tasks.events import Answered, Asked, Closed, Event, Finished, Noticed, Rejected, Started, Submitted, Wrote

texts = st.text(st.characters(), max_size=12)  # lone surrogates too: JSON may carry them
names = st.text("abc-", min_size=1, max_size=6)
moments = st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | texts
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=8
)
objects = st.dictionaries(texts, json_values, max_size=3)
ids = st.uuids(version=4).map(str)

parts = st.one_of(
    st.builds(Part, st.sampled_from(["text", "url"]), texts, st.none() | texts, st.none() | texts, st.none() | objects),
    st.builds(Part, st.just("raw"), st.binary(max_size=16)),
    st.builds(Part, st.just("data"), json_values),
)
messages = st.builds(
    Message,
    names,
    st.sampled_from(["user", "agent"]),
    st.lists(parts, max_size=3).map(tuple),
    st.none() | names,
    st.none() | names,
    st.none() | objects,
    st.lists(names, max_size=2).map(tuple),
    st.lists(names, max_size=2).map(tuple),
)
envelopes = st.builds(PromptEnvelope, ids, texts, objects, st.none() | moments, st.just(("any",)))
problems = st.builds(Problem, texts, texts, st.sampled_from(["", "type"]))

submitted = st.builds(Submitted, moments, messages)
started = st.builds(Started, moments, objects)
wrote = st.builds(
    Wrote, moments, names, st.integers(0, 2**40), st.integers(0, 2**20), st.booleans(), st.booleans(), st.integers(0, 2**40)
)
asked = st.builds(Asked, moments, names, envelopes, st.lists(texts, max_size=3).map(tuple), objects)
answered = st.builds(Answered, moments, ids, messages, names)
closed = st.builds(Closed, moments, names, ids, st.sampled_from(["withdrawn", "expired"]), texts)
noticed = st.builds(
    Noticed,
    moments,
    names,
    st.sampled_from(["waiting-undetected", "secret-withheld", "answer-consumed"]),
    texts,
    texts,
    objects,
)
finished = st.builds(
    Finished,
    moments,
    names,
    st.sampled_from(["exit", "signal", "timeout", "canceled", "spawn-failed", "daemon-died"]),
    st.sampled_from([None, "application", "infrastructure"]),
    texts,
    st.none() | st.integers(0, 255),
    st.none() | st.just("SIGKILL"),
    objects,
)
rejected = st.builds(Rejected, moments, names, st.lists(problems, max_size=3).map(tuple))

BY_KIND: dict[type[Event], st.SearchStrategy[Event]] = {
    Submitted: submitted,
    Started: started,
    Wrote: wrote,
    Asked: asked,
    Answered: answered,
    Closed: closed,
    Noticed: noticed,
    Finished: finished,
    Rejected: rejected,
}
events: st.SearchStrategy[Event] = st.one_of(*BY_KIND.values())

MOMENT = datetime(2026, 11, 29, 12, tzinfo=UTC)
MESSAGE = Message("message-1", "user", (Part("text", "go"),))
ENVELOPE = PromptEnvelope(str(uuid.UUID(int=4)), "Proceed?", {"type": "object"}, None)

# One plain example of every event and case, for tests that go through all of them.
EXAMPLES: tuple[Event, ...] = (
    Submitted(MOMENT, MESSAGE),
    Started(MOMENT, {}),
    Wrote(MOMENT, "terminal", 0, 3, first=True, last=False),
    Asked(MOMENT, "asked-1", ENVELOPE, ("y", "n"), {"rule": "shell.yes-no"}),
    Answered(MOMENT, ENVELOPE.prompt_id, MESSAGE, "alice"),
    Closed(MOMENT, "closed-1", ENVELOPE.prompt_id, "withdrawn", "The question is gone."),
    Closed(MOMENT, "closed-2", ENVELOPE.prompt_id, "expired", "Nobody answered in time."),
    Finished(MOMENT, "end-1", "exit", None, "It exited with 0.", 0),
    Finished(MOMENT, "end-2", "exit", "application", "It exited with 3.", 3),
    Finished(MOMENT, "end-3", "timeout", "infrastructure", "Its time ran out."),
    Finished(MOMENT, "end-4", "canceled", None, "A client canceled it.", detail={"by": "alice"}),
    Rejected(MOMENT, "no-1", (Problem("argv", "not allowed"),)),
    Noticed(MOMENT, "noticed-1", "waiting-undetected", "┤ OK ├", "A process waits for input."),
)
