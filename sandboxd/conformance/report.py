"""How is a report spelled for a program: as JSON, as JUnit?

The JSON object is versioned by its `schema`. JUnit: one suite a door, one case a scenario; what a target says is data, so what
XML cannot carry is replaced.
"""

from __future__ import annotations

import re
from typing import Any, Final
from xml.etree import ElementTree as Xml

from sandboxd.conformance.finding import Finding, Report, Result, Verdict

SCHEMA: Final = "sandboxd.conformance/1"
_NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, 2.2


def as_json(report: Report) -> dict[str, Any]:
    """The report as one JSON object."""
    return {
        "schema": SCHEMA,
        "target": report.target,
        "agent": report.agent,
        "doors": list(report.doors),
        "took_s": report.took_s,
        "passed": report.count(Verdict.PASSED),
        "failed": report.count(Verdict.FAILED),
        "skipped": report.count(Verdict.SKIPPED),
        "exit": report.exit_code,
        "notes": list(report.notes),
        "results": [_result_json(result) for result in report.results],
    }


def as_junit(report: Report) -> str:
    """The report as JUnit XML."""
    root = Xml.Element("testsuites", _counts(report.results), name=_safe(f"sandboxd conformance {report.target}"))
    for door in report.doors:
        of_door = [result for result in report.results if result.door == door]
        suite = Xml.SubElement(root, "testsuite", _counts(of_door), name=door)
        figures = Xml.SubElement(suite, "properties")
        for result in of_door:
            for name, value in result.figures.items():
                Xml.SubElement(figures, "property", name=f"{result.scenario}.{name}", value=f"{value:g}")
            _case(suite, result)
    Xml.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def finding_lines(finding: Finding) -> list[str]:
    """A finding for people: the step, what was expected by which sentence, what came."""
    return [
        f"step      {finding.step}",
        f"expected  {finding.expected}",
        f"by        {finding.by}",
        f"came      {finding.came}",
    ]


def figures_text(result: Result) -> str:
    """A scenario's figures in one line."""
    return ", ".join(f"{name} {value:g}" for name, value in result.figures.items())


def _result_json(result: Result) -> dict[str, Any]:
    spelled: dict[str, Any] = {
        "scenario": result.scenario,
        "title": result.title,
        "door": result.door,
        "verdict": result.verdict.value,
        "took_s": result.took_s,
        "findings": [
            {"step": found.step, "expected": found.expected, "by": found.by.as_json(), "came": found.came}
            for found in result.findings
        ],
    }
    optional = {"reason": result.reason, "notes": list(result.notes), "figures": dict(result.figures)}
    return spelled | {name: value for name, value in optional.items() if value}


def _counts(results: Any) -> dict[str, str]:
    failed = sum(1 for result in results if result.verdict is Verdict.FAILED)
    skipped = sum(1 for result in results if result.verdict is Verdict.SKIPPED)
    took_s = sum(result.took_s for result in results)
    return {
        "tests": str(len(results)),
        "failures": str(failed),
        "errors": "0",
        "skipped": str(skipped),
        "time": f"{took_s:.2f}",
    }


def _case(suite: Xml.Element, result: Result) -> None:
    name = f"{result.scenario} {result.title}"
    case = Xml.SubElement(suite, "testcase", classname=result.door, name=name, time=f"{result.took_s:.2f}")
    if result.verdict is Verdict.SKIPPED:
        Xml.SubElement(case, "skipped", message=_safe(result.reason))
    for found in result.findings:
        failure = Xml.SubElement(case, "failure", message=_safe(f"{found.step}: expected {found.expected}"))
        failure.text = _safe("\n".join(finding_lines(found)))
    said = [*result.notes, *([figures_text(result)] if result.figures else [])]
    if said:
        Xml.SubElement(case, "system-out").text = _safe("\n".join(said))


def _safe(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
