"""Which version does a request get?"""

from __future__ import annotations

import pytest

from sandboxd.a2a.versions import negotiate
from sandboxd.errors import VersionNotSupported


@pytest.mark.parametrize(
    ("header", "query", "version"),
    [
        (["1.0"], [], "1.0"),
        ([" 1.0 "], [], "1.0"),
        (["1.0.3"], [], "1.0"),
        (["0.3"], [], "0.3"),
        (["0.3.0"], [], "0.3"),
        ([], [], "0.3"),
        ([""], [], "0.3"),
        ([], ["1.0"], "1.0"),
        ([""], ["1.0"], "1.0"),
        (["1.0"], ["0.3"], "1.0"),
        (["1.0"], ["9.9"], "1.0"),
    ],
)
def test_a_version_that_is_served_is_spoken(header: list[str], query: list[str], version: str) -> None:
    assert negotiate(header, query) == version


@pytest.mark.parametrize(
    "header",
    [["1.7"], ["99.0"], ["2.0"], ["1"], ["v1.0"], ["garbage"], ["1.0, 0.3"], ["1.0", "1.0"], ["01.0"], ["1.0."], ["1.0-rc1"]],
)
def test_a_version_that_is_not_served_is_refused_with_those_that_are(header: list[str]) -> None:
    with pytest.raises(VersionNotSupported) as caught:
        negotiate(header)

    assert caught.value.facts == {"supported_versions": ["1.0", "0.3"]}


def test_no_version_means_03_even_where_03_is_not_served() -> None:
    with pytest.raises(VersionNotSupported, match=r"no `A2A-Version` header means 0\.3"):
        negotiate([], served=("1.0",))
    with pytest.raises(VersionNotSupported, match=r"served here: 1\.0$"):
        negotiate(["0.3"], served=("1.0",))


def test_an_absurd_version_is_not_repeated_whole() -> None:
    with pytest.raises(VersionNotSupported) as caught:
        negotiate(["9" * 5000])

    assert len(caught.value.message) < 200
