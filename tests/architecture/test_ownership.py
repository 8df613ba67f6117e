"""Does only a task's own run touch its descriptors, its detector and its binding? (ARCHITECTURE.md, invariant 2)"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

from sandboxd.live.run import TaskRun

# The modules that a run is made of; `supervisor` makes it and hands everything over before it lives.
OF_A_RUN = {
    "run",
    "questions",
    "reader",
    "terminal",
    "binding",
    "draft",
    "enter",
    "receipt",
    "veil",
    "recorder",
    "notices",
    "capture",
    "verdict",
}
MAKER = "supervisor"
DESCRIPTORS = {"terminal_fd", "stdout_fd", "stderr_fd"}
PRIVATE = {"_process", "_detector", "_binding", "_questions"}
BEFORE_IT_LIVES = {"live"}  # awaited by its maker alone, once


def attributes(module: Path) -> Iterator[tuple[str, bool]]:
    """Every attribute that the module's code names, and whether it is one of `self`."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Attribute):
            yield node.attr, isinstance(node.value, ast.Name) and node.value.id == "self"


def modules(repository: Path) -> Iterator[Path]:
    yield from (path for path in (repository / "sandboxd").rglob("*.py") if path.parent.name != "runner")


def test_only_a_run_touches_its_descriptors(repository: Path) -> None:
    touching = {
        module.relative_to(repository).as_posix()
        for module in modules(repository)
        for name, _ in attributes(module)
        if name in DESCRIPTORS
    }

    assert touching == {"sandboxd/live/run.py", "sandboxd/live/questions.py", f"sandboxd/live/{MAKER}.py"}


def test_nobody_reaches_into_a_run(repository: Path) -> None:
    reaching = [
        f"{module.relative_to(repository)}: .{name}"
        for module in modules(repository)
        for name, is_own in attributes(module)
        if name in PRIVATE and not is_own
    ]

    assert reaching == []


def test_only_a_run_makes_a_binding_or_types(repository: Path) -> None:
    mine = {f"sandboxd.live.{name}" for name in ("binding", "terminal", "questions", "receipt", "veil")}
    importing = {
        module.stem
        for module in modules(repository)
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.ImportFrom)
        for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        if name in mine and not (name == "sandboxd.live.questions" and [alias.name for alias in node.names] == ["Accepted"])
    }

    assert importing <= OF_A_RUN


def test_what_others_may_call_of_a_run_returns_at_once() -> None:
    offered = {
        name: member
        for name, member in inspect.getmembers(TaskRun, inspect.isfunction)
        if not name.startswith("_") and name not in BEFORE_IT_LIVES
    }

    assert not [name for name, member in offered.items() if inspect.iscoroutinefunction(member)]
    assert not [name for name in offered if not name.endswith("_nowait")]
