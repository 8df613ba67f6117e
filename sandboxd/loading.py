"""By which detector packs and policies does this host go?

Read at a start and at a reload, and checked against each other: what would only be missed when it is used fails here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sandboxd import packs
from sandboxd.config import Config
from sandboxd.detect.load import Pack, load_pack
from sandboxd.errors import LoadError, Problem
from sandboxd.policy.load import load_policy
from sandboxd.policy.model import Policy
from sandboxd.schemas.evaluate import misuse


def load_detectors() -> Mapping[str, Pack]:
    """Every detector pack of this host, by name; `LoadError`."""
    return {file.name: load_pack(str(file.path), file.text) for file in packs.search("detectors")}


def load_packs(config: Config) -> Mapping[str, Pack]:
    """The detector packs, once the config's policies are found to fit them; `LoadError`."""
    detectors = load_detectors()
    load_policies(config, detectors)
    return detectors


def load_policies(config: Config, detectors: Mapping[str, Pack]) -> Sequence[Policy]:
    """Every policy that the config names; `LoadError`, also for one with a pack that is not there, or a schema that is none."""
    policies = []
    for path in {path for instance in config.instances for path in instance.policies}:
        file = packs.read(path)
        policies.append(load_policy(str(path), file.text, file.digest))
        prompts = policies[-1].prompts
        if prompts.schema is not None and (why := misuse(prompts.schema)):
            raise LoadError(str(path), [Problem("prompts.schema", f"is no schema of draft 2020-12: {why}")])
        missing = [name for name in prompts.detectors if name not in detectors]
        if missing:
            known = ", ".join(f"`{name}`" for name in detectors)
            raise LoadError(
                str(path), [Problem("prompts.detectors", f"no pack is named `{name}`; there are {known}") for name in missing]
            )
    return policies
