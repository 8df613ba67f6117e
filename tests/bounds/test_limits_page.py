"""Do the page of limits, the config and the metrics tell the same?"""

from __future__ import annotations

import re
from pathlib import Path

from sandboxd import metrics
from sandboxd.cockpit.config import load_config
from sandboxd.config_limits import HostLimits, limits_json
from sandboxd.policy.load import load_policy
from sandboxd.policy.model import Limits, PromptRules
from sandboxd.policy.table import parse_size

PAGE = (Path(__file__).parents[2] / "docs/limits.md").read_text()


def rows(heading: str) -> list[list[str]]:
    text = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def bounds() -> set[str]:
    (family,) = metrics.BOUNDS.collect()
    return {sample.labels["bound"] for sample in family.samples if sample.name.endswith("_total")}


def test_every_key_of_the_config_stands_on_the_page_with_its_default():
    told = {key.strip("`"): default for _, key, default, *_ in rows("Of the config")}
    known = limits_json(HostLimits())
    shares = dict.fromkeys(("max_tasks_per_instance", "max_tasks_per_principal"), "as `max_tasks`")

    assert told == {key: shares.get(key, str(value)) for key, value in known.items()}


def test_a_cockpits_defaults_are_those_of_the_page(tmp_path):
    (tmp_path / "cockpit.toml").write_text('state-dir = "state"\n[[host]]\nname = "lab"\nurl = "http://127.0.0.1:1"\n')
    usual = load_config(tmp_path / "cockpit.toml")
    told = {key.strip("`"): int(default) for _, key, default, *_ in rows("Of a cockpit's config")}

    assert told == {
        "max-questions": usual.questions_max,
        "max-open-per-host": usual.open_per_host_max,
        "max-open": usual.open_max,
        "mission-tries": usual.mission_tries,
    }


def test_every_bound_that_is_counted_stands_on_the_page_and_the_other_way_round():
    headings = ("Of the config", "Of a cockpit's config", "Of the policy", "Fixed")
    told = {row[-1].strip("`") for name in headings for row in rows(name)}
    others = {name for name in told if name.startswith("sandboxd_")}

    assert told - others - {""} == bounds()
    exposed = metrics.exposition().decode()
    assert all(re.sub(r"\{.*", "", name) in exposed for name in others)


def test_the_policys_defaults_are_those_of_the_page():
    told = {what: default for what, _, default, *_ in rows("Of the policy")}

    assert parse_size(told["kept output of each artifact"]) == Limits().output_bytes
    assert told["questions of one task"] == str(PromptRules().max_prompts)
    assert told["answers to one prompt that do not fit"] == str(PromptRules().max_invalid)
    assert told["time of a run"] == f"{Limits().timeout_s // 60}m"
    shipped = Path(__file__).parents[2] / "policies/sandbox-agent-runner.toml"
    assert load_policy(str(shipped), shipped.read_text(), "").limits.output_bytes == Limits().output_bytes
