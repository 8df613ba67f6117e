"""Are headers and times read as A2A says?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from sandboxd.a2a.extensions import ADAPTER_COMMAND, HITL_PROMPT, activated, echo
from sandboxd.a2a.wire import parse_rfc3339, rfc3339


def test_extensions_are_activated_by_exact_name_from_every_line() -> None:
    assert activated([f"{HITL_PROMPT} ,urn:unknown", ADAPTER_COMMAND]) == {HITL_PROMPT, ADAPTER_COMMAND}
    assert activated([HITL_PROMPT + "2", HITL_PROMPT.upper(), "", ","]) == frozenset()
    assert activated([]) == frozenset()


def test_the_echo_names_what_is_active() -> None:
    assert echo(frozenset({ADAPTER_COMMAND, HITL_PROMPT})) == f"{HITL_PROMPT}, {ADAPTER_COMMAND}"
    assert echo(frozenset()) == ""


def test_a_time_is_written_in_utc_with_milliseconds() -> None:
    east = timezone(timedelta(hours=5, minutes=30))

    assert rfc3339(datetime(2026, 11, 29, 12, 0, 0, 999_999, tzinfo=UTC)) == "2026-11-29T12:00:00.999Z"
    assert rfc3339(datetime(2026, 11, 29, 12, tzinfo=east)) == "2026-11-29T06:30:00.000Z"


@pytest.mark.parametrize(
    "text",
    ["2026-11-29T12:00:00Z", "2026-11-29T12:00:00.000Z", "2026-11-29T12:00:00.000000000Z", "2026-11-29T13:00:00+01:00"],
)
def test_a_time_is_read_with_any_fraction_and_offset(text: str) -> None:
    assert parse_rfc3339(text) == datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "now", "2026-11-29", "2026-11-29T12:00:00", "0001-01-01T00:00:00+01:00"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_rfc3339(text)
