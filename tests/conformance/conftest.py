"""What do clients of the public SDK talk to, and how?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.daemon import Daemon
from tests.support.sdk import BINDINGS, VERSIONS


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Daemon]]:
    """A daemon in a profile of the public kit, made when it is first asked for."""
    made: dict[str, Daemon] = {}

    def make(profile: str) -> Daemon:
        if profile not in made:
            folder = tmp_path_factory.mktemp(profile)
            made[profile] = Daemon(folder, "/usr/bin/true", extra=f'[tck]\nprofile = "{profile}"')
            made[profile].start()
        return made[profile]

    yield make
    for daemon in made.values():
        daemon.end()


@pytest.fixture(params=[(binding, version) for binding in BINDINGS for version in VERSIONS], ids="-".join)
def wire(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.param
