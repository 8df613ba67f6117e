"""Which scenarios are run at which doors, and what did they come to?

First a request is looked for that asks; then every scenario runs at every door, one after the other, each on tasks of its own.
CF-7 is the run itself: it passes at a door where CF-1 to CF-6 have passed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Final

from sandboxd.a2a.extensions import ADAPTER_COMMAND
from sandboxd.conformance import adapter, hitl, idempotency, restart, sentences
from sandboxd.conformance.bench import RUNNER, Bench, shown
from sandboxd.conformance.codec import Seen
from sandboxd.conformance.finding import Broken, CannotJudge, CannotRun, Finding, Report, Result, Verdict
from sandboxd.conformance.line import Line
from sandboxd.conformance.scenario import Need, Scenario
from sandboxd.conformance.site import EXAMPLES, Entrance, Options, Site, explore
from sandboxd.values import frozen

SCENARIOS: Final = (*hitl.SCENARIOS, *adapter.SCENARIOS, *idempotency.SCENARIOS, *restart.SCENARIOS)
_ROUND_TRIP: Final = Scenario("CF-7", "the harness is green for CF-1 to CF-6", lambda _: None)
_ASKING: Final = (f"{EXAMPLES}/several-questions-request.json", f"{EXAMPLES}/cycle-005-request.json")
_LEADING: Final = tuple(f"CF-{number}" for number in range(1, 7))


@frozen
class Requests:
    """What the target can be made to do. `asking` empty: nothing that asks was found, and `why` says what was tried."""

    asking: str = ""
    is_example: bool = False
    has_adapter: bool = False
    why: str = ""


def known_ids() -> tuple[str, ...]:
    """Every scenario's id, in the order of the report."""
    ids = [scenario.id for scenario in SCENARIOS]
    ids.insert(ids.index("CF-6") + 1, _ROUND_TRIP.id)
    return tuple(ids)


def wanted(only: Sequence[str]) -> tuple[str, ...]:
    """The ids that these patterns mean: an id, its beginning up to a dash, or a pattern with `*`; `CannotRun` for none."""
    if not only:
        return known_ids()
    found: list[str] = []
    for pattern in only:
        text = pattern.upper()
        fits = [one for one in known_ids() if one == text or one.startswith(f"{text.rstrip('-')}-") or fnmatchcase(one, text)]
        if not fits:
            raise CannotRun(f"cannot run `{pattern}`: there is no such scenario; there are {', '.join(known_ids())}")
        found += fits
    if _ROUND_TRIP.id in found:
        found += _LEADING
    return tuple(one for one in known_ids() if one in found)


def drive(url: str, line: Line, options: Options, *, told: Callable[[Result], None] = lambda _: None) -> Report:
    """Judge the target; `told` hears of each scenario as it ends. `CannotRun` when there is nothing to drive."""
    began = time.monotonic()
    ids = wanted(options.only)
    site = explore(url, line, options)
    requests = _find_requests(site)
    results: list[Result] = []
    for entrance in site.entrances:
        here: dict[str, Result] = {}
        for scenario in (*hitl.SCENARIOS, _ROUND_TRIP, *SCENARIOS[len(hitl.SCENARIOS) :]):
            if scenario.id not in ids:
                continue
            judged = _round_trip(entrance, here) if scenario is _ROUND_TRIP else _judge(scenario, site, entrance, requests)
            here[scenario.id] = judged
            told(judged)
        results += sorted(here.values(), key=lambda result: ids.index(result.scenario))
    name = site.card.get("name")
    doors = tuple(entrance.name for entrance in site.entrances)
    took_s = round(time.monotonic() - began, 1)
    return Report(url, str(name or ""), doors, tuple(results), took_s, site.notes)


def _judge(scenario: Scenario, site: Site, entrance: Entrance, requests: Requests) -> Result:
    began = time.monotonic()

    def result(verdict: Verdict, *findings: Finding, reason: str = "") -> Result:
        took_s = round(time.monotonic() - began, 2)
        notes, figures = tuple(bench.notes), dict(bench.figures)
        return Result(scenario.id, scenario.title, entrance.name, verdict, took_s, findings, reason, notes, figures)

    bench = Bench(site, entrance, requests.asking or _ASKING[-1], is_example=requests.is_example)
    missing = [why for need in scenario.needs if (why := _missing(need, site, requests))]
    if missing:
        return result(Verdict.SKIPPED, reason="; ".join(missing))
    try:
        scenario.run(bench)
    except Broken as broken:
        return result(Verdict.FAILED, broken.finding)
    except CannotJudge as why:
        return result(Verdict.SKIPPED, reason=str(why))
    finally:
        bench.clean_up()
    return result(Verdict.PASSED)


def _missing(need: Need, site: Site, requests: Requests) -> str:
    """Why this need is not met; empty: it is."""
    match need:
        case "prompt" if not requests.asking:
            return f"no prompt can be made here: {requests.why}"
        case "adapter" if not requests.has_adapter:
            return "the card lists no adapter-command/v1, and no --request names a command"
        case "example" if not requests.is_example:
            return "the target does not have the example adapter, so no request is known that fails"
        case "idempotency" if site.extension(idempotency.IDEMPOTENCY) is None:
            return "the card does not list idempotency/v1"
        case "restart" if not site.options.restart_command:
            return "no --restart-cmd was given"
        case _:
            return ""


def _round_trip(entrance: Entrance, here: dict[str, Result]) -> Result:
    """CF-7."""

    def result(verdict: Verdict, *findings: Finding, reason: str = "") -> Result:
        return Result(_ROUND_TRIP.id, _ROUND_TRIP.title, entrance.name, verdict, 0.0, findings, reason)

    red = [one for one in _LEADING if here[one].verdict is Verdict.FAILED] if all(one in here for one in _LEADING) else []
    if red:
        step = "2. the harness is green for CF-1 to CF-6"
        return result(Verdict.FAILED, Finding(step, "a green run", sentences.CF7_GREEN, f"failed: {', '.join(red)}"))
    skipped = [one for one in _LEADING if one not in here or here[one].verdict is Verdict.SKIPPED]
    return result(Verdict.SKIPPED, reason=f"not judged: {', '.join(skipped)}") if skipped else result(Verdict.PASSED)


def _find_requests(site: Site) -> Requests:
    """Try the request that was named, or the example adapter's own, at the first door."""
    listed = site.extension(ADAPTER_COMMAND)
    if listed is None and not site.options.request:
        return Requests(why="the card lists no adapter-command/v1, and no --request names a command")
    tried = [site.options.request] if site.options.request else list(_ASKING)
    said = []
    for path in tried:
        bench = Bench(site, site.entrances[0], path, is_example=False)
        try:
            taken = bench.send(bench.message(bench.envelope(path)))
            if isinstance(taken, Seen):
                taken = bench.wait(taken, lambda task: task.asks or task.has_ended)
                if taken.asks:  # an envelope that is missing is for CF-1 to find
                    return Requests(path, is_example=not site.options.request, has_adapter=True)
            said.append(f"`{path}`: {shown(taken) if isinstance(taken, Seen) else taken}")
        except Broken as broken:
            said.append(f"`{path}`: {broken.finding.came}")
        finally:
            bench.clean_up()
    return Requests(has_adapter=True, why=f"no task of {RUNNER} asked; {'; '.join(said)}")
