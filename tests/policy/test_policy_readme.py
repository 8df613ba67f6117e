"""Is the format that the README shows the one that is loaded?"""

from __future__ import annotations

import re
from pathlib import Path

from sandboxd.policy.load import check_examples, load_policy

README = Path(__file__).parents[2] / "policies" / "README.md"


def test_the_policy_in_the_readme_loads_and_its_examples_hold() -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", README.read_text(), re.DOTALL)

    assert check_examples(load_policy("README.toml", block, "sha256:0")) == ()
