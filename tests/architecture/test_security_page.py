"""Are the tests that SECURITY.md names there, and are all attacks on their page?"""

from __future__ import annotations

import re
from pathlib import Path

from tests.hostile.attacks.craft import ATTACKS
from tests.hostile.attacks.runner import ROOMS


def test_every_test_that_the_page_names_is_there(repository: Path) -> None:
    page = (repository / "SECURITY.md").read_text()
    named = [f"tests/hostile/{name}" for name in re.findall(r"`((?:attacks/)?[a-z_]+\.py)`", page)]
    named += re.findall(r"`((?:tests|docs)/[A-Za-z0-9_/.]+)`", page)

    assert len(named) > 20
    assert [name for name in named if not (repository / name).exists()] == []


def test_every_attack_stands_on_its_page(repository: Path) -> None:
    page = (repository / "docs/attacks.md").read_text()

    assert ROOMS
    assert set(re.findall(r"^\| ([a-z0-9_]+) \|", page, re.MULTILINE)) >= set(ATTACKS)
