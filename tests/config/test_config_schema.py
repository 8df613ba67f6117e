"""Does the schema that editors use agree with the config's loader?"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from sandboxd.config import config_text_init, parse_config, to_json, to_toml
from sandboxd.errors import LoadError

SCHEMA = json.loads((Path(__file__).parents[2] / "sandboxd/share/schemas/config.schema.json").read_text())


def test_the_first_config_and_what_is_shown_of_it_fit_the_schema() -> None:
    config = parse_config(Path("/etc/sandboxd/sandboxd.toml"), config_text_init())

    for table in (tomllib.loads(config_text_init()), tomllib.loads(to_toml(config)), to_json(config)):
        Draft202012Validator(SCHEMA).validate(table)


@pytest.mark.parametrize("at", ["", "listen", "auth", "instance", "limits", "retention", "push", "isolation", "tck"])
def test_schema_and_loader_know_the_same_keys(at: str) -> None:
    schema: Any = SCHEMA["properties"][at] if at else SCHEMA
    known = schema.get("items", schema)["properties"]
    header = {"": "", "instance": "[[instance]]"}.get(at, f"[{at}]")

    with pytest.raises(LoadError) as caught:
        parse_config(Path("x.toml"), f"{header}\nzzz = 1")

    (told,) = [problem.reason for problem in caught.value.problems if problem.field.endswith("zzz")]
    assert set(re.findall(r"`([a-z_]+)`", told)) == set(known)
