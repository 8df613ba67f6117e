"""Does the schema that editors use agree with the loader?"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from sandboxd.errors import LoadError
from sandboxd.policy.load import load_policy

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "sandboxd/share/schemas/policy.schema.json").read_text())
README = re.findall(r"```toml\n(.*?)```", (ROOT / "policies/README.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("text", [*README, (ROOT / "policies/sandbox-agent-runner.toml").read_text()])
def test_a_policy_that_loads_fits_the_schema(text: str) -> None:
    load_policy("p.toml", text, "sha256:0")

    Draft202012Validator(SCHEMA).validate(tomllib.loads(text))


def test_schema_and_loader_know_the_same_keys() -> None:
    texts = {
        "": "zzz = 1",
        "command": "[command]\nzzz = 1",
        "limits": "[limits]\nzzz = 1",
        "limits.timeout": "[limits.timeout]\nzzz = 1",
        "isolation": "[isolation]\nzzz = 1",
        "prompts": "[prompts]\nzzz = 1",
    }
    for at, text in texts.items():
        schema: Any = SCHEMA
        for step in at.split(".") if at else []:
            schema = schema["properties"][step]
        with pytest.raises(LoadError) as caught:
            load_policy("p.toml", text, "sha256:0")
        (told,) = [problem.reason for problem in caught.value.problems if problem.field.endswith("zzz")]
        assert set(re.findall(r"`([a-z-]+)`", told)) == set(schema["properties"])
