"""Values that no client of ours would send: each is refused by name, none is a fault of ours."""

import base64
import json

import pytest

from tests.support.daemon import Daemon


@pytest.mark.parametrize(
    "place",
    [["2026-01-01T00:00:00+00:00", "\ud800"], {"2026-01-01T00:00:00+00:00": 1, "b": 2}, ["x", "y"], [1, 2], 7, None, "ab"],
)
def test_a_page_token_that_nobody_gave_out_is_no_fault_of_ours(shared: Daemon, place):
    token = base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")

    with shared.client() as client:
        answer = client.get("/tasks", params={"pageToken": token})

    assert answer.status_code in (200, 400), answer.text


def test_what_a_task_id_may_not_be_is_not_found_or_named(shared: Daemon):
    with shared.client() as client:
        found = {
            path: client.get(f"/tasks/{path}").status_code
            for path in ("a" * 10_000, "a%2fb", "a%00b", "%ff%fe", "%ed%a0%80", "%E2%80%AE", "a:b:c")
        }

    assert set(found.values()) <= {400, 404}, found
