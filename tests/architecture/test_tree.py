"""Does the tree hold anything that only makes sense on one machine, and are its pins complete?"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[2]
# Spelled in pieces, so that this file does not find itself.
ELSEWHERE = re.compile(
    r"/work" + r"/|/home/(runner|builder)/"  # where somebody's checkout lay
    r"|pypi\." + r"org/simple|python" + r"hosted\.org|registry\.npm" + r"js|--(extra-)?index" + r"-url|--find" + r"-links"
)


def test_no_file_names_a_machine_or_a_registry(source_files: tuple[Path, ...]) -> None:
    found = []
    for path in source_files:
        text = (REPOSITORY / path).read_text(errors="replace")
        found += [f"{path}: {match.group()}" for match in ELSEWHERE.finditer(text)]

    assert found == []


def test_no_file_is_a_symlink(source_files: tuple[Path, ...]) -> None:
    assert [path for path in source_files if (REPOSITORY / path).is_symlink()] == []


def pins() -> dict[str, str]:
    lines = (REPOSITORY / "constraints.txt").read_text().split()
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines), "a pin is `name==version` and nothing else"
    return {str(canonicalize_name(name)): version for name, version in (line.split("==") for line in lines)}


def project() -> list[Requirement]:
    stated = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    return [Requirement(line) for line in stated["dependencies"] + stated["optional-dependencies"]["dev"]]


def test_every_stated_dependency_is_pinned_within_its_range() -> None:
    pinned = pins()

    for requirement in project():
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), str(requirement)


def test_what_the_dependencies_depend_on_is_pinned_too() -> None:
    pinned, waiting, seen = pins(), project(), set()
    while waiting:
        wanted = waiting.pop()
        seen.add(canonicalize_name(wanted.name))
        try:
            stated = distribution(wanted.name).requires or []
        except PackageNotFoundError:
            continue  # an extra of an extra that is not installed here
        for line in stated:
            requirement = Requirement(line)
            extras = wanted.extras or {""}
            applies = requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras)
            if applies and canonicalize_name(requirement.name) not in seen:
                waiting.append(requirement)

    assert sorted(seen - pinned.keys()) == []
