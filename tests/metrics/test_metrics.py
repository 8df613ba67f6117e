"""Do the counts say what they are named for?"""

from __future__ import annotations

import pytest

from sandboxd import metrics


@pytest.mark.parametrize(
    ("state", "reason", "fail_kind", "outcome"),
    [
        ("completed", "exit", None, "completed"),
        ("failed", "exit", "application", "app_failure"),
        ("failed", "signal", "infrastructure", "infra_failure"),
        ("failed", "timeout", "infrastructure", "timeout"),
        ("canceled", "canceled", None, "canceled"),
    ],
)
def test_every_end_has_its_outcome(state, reason, fail_kind, outcome):
    series = metrics.TASKS_ENDED.labels(mode="test", outcome=outcome)
    before = series._value.get()
    metrics.task_ended("test", state, reason, fail_kind, 1.5)

    assert series._value.get() == before + 1


def test_no_label_can_grow_without_bound():
    labels = {label for metric in metrics.REGISTRY.collect() for sample in metric.samples for label in sample.labels}

    of_a_cockpit = {"host", "kind"}  # hosts are those of its config
    assert labels <= {"version", "bound", "state", "mode", "outcome", "rule", "door", "why", "le"} | of_a_cockpit


def test_answers_are_there_from_the_start():
    text = metrics.exposition().decode()

    for outcome in ("accepted", "invalid", "conflict", "write_failed"):
        assert f'sandboxd_answers_total{{outcome="{outcome}"}}' in text
