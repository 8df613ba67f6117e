"""Does the spawner read the operator's files itself, and take nothing else for them?"""

from __future__ import annotations

import hashlib
from pathlib import Path

import attrs
import pytest

from sandboxd.config import load_config
from sandboxd.errors import LoadError
from sandboxd.policy.model import Allowed, Denied
from sandboxd.runner.client import open_spawner
from sandboxd.runner.protocol import SpawnerSetup
from sandboxd.runner.setup import setup_of
from tests.runner.workshop import Workshop

CONFIG = """
[programs]
bash = "/bin/bash"
python = "/usr/bin/python3"
node = "/usr/bin/node"

[[instance]]
id = "shop"
root = "{root}"
policies = ["{policies}/bash.toml"]
"""


@pytest.fixture
def config(shop: Workshop, tmp_path: Path) -> Path:
    shop.setup()  # writes the policies
    file = tmp_path / "sandboxd.toml"
    file.write_text(CONFIG.format(root=shop.root, policies=shop.policies))
    file.chmod(0o644)
    return file


def setup(config: Path, shop: Workshop) -> SpawnerSetup:
    return attrs.evolve(setup_of(load_config(config)), cgroup=shop.setup().cgroup)


def digest(config: Path) -> str:
    return f"sha256:{hashlib.sha256(config.read_bytes()).hexdigest()}"


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def permit(file: Path, mode: int) -> None:
    file.chmod(mode)


async def test_what_was_prepared_counts_from_its_adoption_on(config: Path, shop: Workshop) -> None:
    async with open_spawner(setup(config, shop)) as spawner:
        change(shop.policies / "bash.toml", '"--request", "{request}"', '"--other", "{request}"')

        adapters = await spawner.prepare_reload(digest(config))
        before = await spawner.preview(shop.request("bash"))
        await spawner.adopt(is_wanted=True)

        assert adapters == {"shop": (("bash", ("plan", "assess")),)}
        assert isinstance(before, Allowed)
        assert isinstance(await spawner.preview(shop.request("bash")), Denied)


async def test_what_nobody_wants_is_forgotten(config: Path, shop: Workshop) -> None:
    async with open_spawner(setup(config, shop)) as spawner:
        change(shop.policies / "bash.toml", '"--request", "{request}"', '"--other", "{request}"')
        await spawner.prepare_reload(digest(config))

        await spawner.adopt(is_wanted=False)
        await spawner.adopt(is_wanted=True)

        assert isinstance(await spawner.preview(shop.request("bash")), Allowed)


async def test_a_config_that_is_not_the_one_that_was_meant_is_refused(config: Path, shop: Workshop) -> None:
    async with open_spawner(setup(config, shop)) as spawner:
        with pytest.raises(LoadError, match="changed while it was read"):
            await spawner.prepare_reload("sha256:" + "0" * 64)


@pytest.mark.parametrize(
    ("old", "new"),
    [('root = "', 'root = "/srv/'), ('id = "shop"', 'id = "other"'), ("[[instance]]", '[[instance]]\nshown = "/elsewhere"')],
)
async def test_instances_and_roots_take_a_restart(config: Path, shop: Workshop, old: str, new: str) -> None:
    async with open_spawner(setup(config, shop)) as spawner:
        change(config, old, new)

        with pytest.raises(LoadError, match="take a restart"):
            await spawner.prepare_reload(digest(config))


async def test_a_file_that_others_may_write_is_refused(config: Path, shop: Workshop) -> None:
    async with open_spawner(setup(config, shop)) as spawner:
        permit(config, 0o666)
        with pytest.raises(LoadError, match="others may write it"):
            await spawner.prepare_reload(digest(config))
        permit(config, 0o644)
        permit(shop.policies / "bash.toml", 0o666)
        with pytest.raises(LoadError, match="others may write it"):
            await spawner.prepare_reload(digest(config))


async def test_without_a_config_there_is_nothing_to_read_again(shop: Workshop) -> None:
    async with open_spawner(shop.setup()) as spawner:
        with pytest.raises(LoadError, match="no config"):
            await spawner.prepare_reload("sha256:")
