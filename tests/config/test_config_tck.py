"""Is the public kit's profile off unless it is asked for, and open to this machine alone?"""

from __future__ import annotations

from pathlib import Path

import pytest

from sandboxd.config import TCK_PROFILES, Config, parse_config, to_toml
from sandboxd.errors import LoadError

LOOPBACK = 'tcp = "127.0.0.1:8765"'


def parsed(tck: str, *, top: str = "", listen: str = LOOPBACK) -> Config:
    text = f'{top}\n[listen]\n{listen}\n[[instance]]\nid = "a"\nroot = "w"\npolicies = []\n{tck}'
    return parse_config(Path("/etc/sandboxd/sandboxd.toml"), text)


def refused(*args: str, **more: str) -> list[str]:
    with pytest.raises(LoadError) as caught:
        parsed(*args, **more)
    return [problem.field for problem in caught.value.problems]


@pytest.mark.parametrize("tck", ["", "[tck]", '[tck]\nprofile = "off"'])
def test_without_a_profile_nothing_is_open(tck: str) -> None:
    config = parsed(tck)

    assert (config.tck, config.listen.unauthenticated, config.card) == (None, False, "merged")


@pytest.mark.parametrize("profile", TCK_PROFILES)
def test_a_profile_opens_the_port_and_makes_the_card_strict(profile: str) -> None:
    config = parsed(f'[tck]\nprofile = "{profile}"')

    assert (config.tck, config.listen.unauthenticated, config.card) == (profile, True, "strict")
    assert parse_config(Path("/etc/sandboxd/sandboxd.toml"), to_toml(config)) == config


def test_a_card_that_is_written_down_stays(tmp_path: Path) -> None:
    assert parsed('[tck]\nprofile = "full"', top='card = "merged"').card == "merged"


def test_an_unknown_profile_is_named() -> None:
    assert refused('[tck]\nprofile = "on"') == ["tck.profile"]


def test_a_profile_needs_a_loopback_port() -> None:
    assert refused('[tck]\nprofile = "full"', listen='unix = "/run/x.sock"') == ["tck.profile"]
    assert "tck.profile" in refused('[tck]\nprofile = "full"', listen='tcp = "0.0.0.0:8765"')


def test_a_profile_is_not_published() -> None:
    assert refused('[tck]\nprofile = "full"', top='public_url = "https://example.com"') == ["tck.profile"]
