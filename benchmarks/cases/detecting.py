"""How fast does the detector take output, and does a flood in one task delay the questions of another?"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import detector_speed, hostile_output
from benchmarks.bench import Bench
from benchmarks.result import Goal, Row


def rows(bench: Bench) -> Iterator[Row]:
    """The detector beside a pattern over the tail after each read; another task's questions beside a flood and without."""
    for name, data in detector_speed.outputs().items():
        speeds = [detector_speed.measure(data) for _ in range(bench.count(3, least=1))]
        goal = Goal("least", detector_speed.GOALS[name])
        ours, theirs = (tuple(getattr(speed, of) for speed in speeds) for of in ("detector_mb_s", "naive_mb_s"))
        yield Row(f"detector: {name}", "escapes stripped, a pattern over the tail", goal, "MB/s", ours, theirs)
    questions = bench.count(hostile_output.QUESTIONS)
    usual = _delays(bench, "nothing", questions)
    within = Goal("most", hostile_output.QUIET_GOAL_MS, "value")
    yield Row(
        "a question, beyond its settle time",
        "",
        within,
        "ms",
        (usual.median,),
        note="in the daemon, median; a question that is asked within 2 ms names the end of its silence",
    )
    for name in hostile_output.FLOODS:
        if name != "nothing":
            goal = Goal("most", hostile_output.GOAL_MS, "difference")
            worst = _delays(bench, name, questions).most
            yield Row(f"a question beside {name}", "the usual one", goal, "ms", (worst,), (usual.median,), note="the worst")


def _delays(bench: Bench, name: str, questions: int) -> hostile_output.Delays:
    folder = bench.folder / f"detecting-{list(hostile_output.FLOODS).index(name)}"
    folder.mkdir()
    return hostile_output.measure(folder, hostile_output.FLOODS[name], questions)
