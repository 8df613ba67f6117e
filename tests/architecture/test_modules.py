"""Does every module say which question it answers, and is none too long to hold in mind?"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
MODULES = sorted(path.relative_to(REPOSITORY) for path in (REPOSITORY / "sandboxd").rglob("*.py"))
LINES_MAX = 400


def docstring(module: Path) -> str:
    return ast.get_docstring(ast.parse((REPOSITORY / module).read_text())) or ""


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_module_begins_with_the_question_it_answers(module: Path) -> None:
    assert "?" in docstring(module).split("\n\n")[0]


@pytest.mark.parametrize(
    "module", [module for module in MODULES if module.name == "__init__.py" and module.parent.name != "sandboxd"], ids=str
)
def test_a_room_holds_its_docstring_and_nothing_else(module: Path) -> None:
    assert docstring(module)
    assert len(ast.parse((REPOSITORY / module).read_text()).body) == 1


@pytest.mark.parametrize("module", sorted((REPOSITORY / "tests").rglob("*.py")), ids=lambda path: path.name)
def test_a_test_module_says_what_it_asks(module: Path) -> None:
    assert docstring(module)


def test_no_file_is_longer_than_can_be_held_in_mind(source_files: tuple[Path, ...]) -> None:
    lengths = {path: len(text.splitlines()) for path in source_files if (text := text_of(path)) is not None}

    assert {str(path): count for path, count in lengths.items() if count > LINES_MAX} == {}


def test_every_value_is_made_by_the_function_that_is_for_it() -> None:
    asking_attrs = [module for module in MODULES if "@attrs.frozen\n" in (REPOSITORY / module).read_text()]

    assert asking_attrs == []


def text_of(path: Path) -> str | None:
    """The text of a file, or None for one that is no text."""
    try:
        return (REPOSITORY / path).read_text()
    except UnicodeDecodeError:
        return None
