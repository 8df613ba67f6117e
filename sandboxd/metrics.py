"""How much of what has happened? (Prometheus text format, its own registry)

Base units, and no id, path or principal as a label: every label's values come from this file, a config, a policy or a pack, so
their number has a bound. Rooms count as things happen; what stands now (`TASKS`, `PROMPTS_OPEN`) is set when `/metrics` is
read. One daemon, or cockpit, a process, so the counts are the module's.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

REGISTRY: Final = CollectorRegistry()
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

BUILD: Final = Gauge("sandboxd_build_info", "What runs here.", ["version"], registry=REGISTRY)
TASKS: Final = Gauge("sandboxd_tasks_active", "Tasks that have not ended, by state.", ["state"], registry=REGISTRY)
TASKS_ENDED: Final = Counter(
    "sandboxd_tasks_total", "Runs that ended, by mode and outcome.", ["mode", "outcome"], registry=REGISTRY
)
TASK_S: Final = Histogram(
    "sandboxd_task_duration_seconds",
    "From start to end of a run, by mode.",
    ["mode"],
    buckets=(0.1, 0.5, 1, 5, 15, 60, 300, 900),  # adapter-command/v1: at most 900 s
    registry=REGISTRY,
)
REJECTED: Final = Counter(
    "sandboxd_envelopes_rejected_total", "Adapter commands that policy or file system refused.", registry=REGISTRY
)
PROMPTS_OPEN: Final = Gauge("sandboxd_prompts_open", "Questions that wait for an answer.", registry=REGISTRY)
PROMPTS: Final = Counter("sandboxd_prompts_total", "Questions raised, by rule.", ["rule"], registry=REGISTRY)
ANSWERS: Final = Counter("sandboxd_answers_total", "Answers that arrived, by outcome.", ["outcome"], registry=REGISTRY)
ANSWER_WAIT_S: Final = Histogram(
    "sandboxd_answer_wait_seconds",
    "From a question to its accepted answer.",
    buckets=(1, 5, 15, 60, 300, 900),
    registry=REGISTRY,
)
ANSWER_RESUME_S: Final = Histogram(
    "sandboxd_answer_resume_seconds",
    "From an accepted answer's arrival to the recorded change of state.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),  # hitl-prompt/v1, AC-4: the bound is 1 s
    registry=REGISTRY,
)
WAITING: Final = Counter(
    "sandboxd_waiting_total",
    "Programs that wait for input which nobody is asked for (undetected, menu, secret); the log and the task have the line.",
    ["why"],
    registry=REGISTRY,
)
RECEIPTS: Final = Counter(
    "sandboxd_receipts_total", "What became of typed answers, as far as the terminal tells.", ["outcome"], registry=REGISTRY
)
OUTPUT_DROPPED_BYTES: Final = Counter(
    "sandboxd_output_dropped_bytes_total", "Output that a cap dropped between the kept head and tail.", registry=REGISTRY
)
COCKPIT_OPEN: Final = Gauge(
    "sandboxd_cockpit_questions_open", "Questions of a cockpit that are not closed, by host.", ["host"], registry=REGISTRY
)
COCKPIT_WAITING: Final = Gauge(
    "sandboxd_cockpit_tasks_unasked",
    "Tasks that ask what a cockpit does not ask people, by host and kind (observed, malformed, postponed).",
    ["host", "kind"],
    registry=REGISTRY,
)
RELOADS: Final = Counter(
    "sandboxd_reloads_total", "Reloads of the config, by outcome (done, refused).", ["outcome"], registry=REGISTRY
)
CONNECTIONS: Final = Gauge("sandboxd_connections", "Open connections, by door.", ["door"], registry=REGISTRY)
CONNECTIONS_REFUSED: Final = Counter(
    "sandboxd_connections_refused_total", "Connections refused because all were taken, by door.", ["door"], registry=REGISTRY
)

BOUNDS: Final = Counter(
    "sandboxd_bounds_reached_total",
    "How often a bound of docs/limits.md was reached, by its name.",
    ["bound"],
    registry=REGISTRY,
)
STORE_BYTES: Final = Gauge("sandboxd_store_bytes", "What the store has in use, when it was last looked at.", registry=REGISTRY)
DISK_FREE_BYTES: Final = Gauge(
    "sandboxd_disk_free_bytes", "What is free on the store's disk, when it was last looked at.", registry=REGISTRY
)
UNSENT_BYTES: Final = Gauge("sandboxd_unsent_bytes", "Output in answers that clients have not taken yet.", registry=REGISTRY)
DESCRIPTORS: Final = Gauge("sandboxd_open_descriptors", "Descriptors that the daemon holds.", registry=REGISTRY)
SUBSCRIBERS: Final = Gauge("sandboxd_subscribers", "Streams that follow a task.", registry=REGISTRY)

PUSHES: Final = Counter(
    "sandboxd_push_notifications_total", "Push notifications, by what came of a try.", ["outcome"], registry=REGISTRY
)

_OF_A_COCKPIT: Final = CollectorRegistry()  # what is a daemon's alone would say 0 there, which reads as if it had been counted
for _metric in (BUILD, COCKPIT_OPEN, COCKPIT_WAITING, BOUNDS, RELOADS, CONNECTIONS, CONNECTIONS_REFUSED, DESCRIPTORS):
    _OF_A_COCKPIT.register(_metric)
for _bound in (
    *("max_tasks", "max_tasks_per_instance", "max_tasks_per_principal", "max_subscribers", "max_subscribers_per_task"),
    *(
        "max_body",
        "max_header",
        "max_text",
        "max_unsent",
        "max_store",
        "min_free",
        "max_events",
        "max_prompts",
        "max_questions",
        "max_open",
        "max_open_per_host",
        "rate",
        "output",
        "tmp",
    ),
):
    BOUNDS.labels(bound=_bound)
for _outcome in ("delivered", "failed", "dead"):
    PUSHES.labels(outcome=_outcome)
for _outcome in ("accepted", "invalid", "conflict", "write_failed"):  # a series that is there from the start can be alerted on
    ANSWERS.labels(outcome=_outcome)


def task_ended(mode: str, state: str, reason: str, fail_kind: str | None, elapsed_s: float) -> None:
    """A run came to its end; `state` is the terminal one, `reason` and `fail_kind` as its last event has them."""
    outcome = f"{'app' if fail_kind == 'application' else 'infra'}_failure" if state == "failed" else state
    TASKS_ENDED.labels(mode=mode, outcome="timeout" if reason == "timeout" else outcome).inc()
    TASK_S.labels(mode=mode).observe(elapsed_s)


def exposition() -> bytes:
    """Everything, as `/metrics` answers it."""
    return generate_latest(REGISTRY)


def cockpit_exposition() -> bytes:
    """What a cockpit counts, as its own `/metrics` answers it."""
    return generate_latest(_OF_A_COCKPIT)
