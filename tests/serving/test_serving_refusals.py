"""Is an error told alike at both doors, and does a refusal say in its head what a client needs?"""

from __future__ import annotations

import pytest
from werkzeug.exceptions import MethodNotAllowed, NotFound, RequestTimeout

from sandboxd import errors
from sandboxd.cockpit.web import answers as of_cockpit
from sandboxd.db.connection import DatabaseUnavailable
from sandboxd.http import answers as of_host
from sandboxd.serving.refusals import headers_of, refusal_of
from sandboxd.store.base import StoreUnavailable

HOUSES = pytest.mark.parametrize("house", [of_host.HOUSE, of_cockpit.HOUSE], ids=["host", "cockpit"])


@HOUSES
@pytest.mark.parametrize("refusal", [errors.TooBusy("cannot now"), errors.NotReady("cannot yet")], ids=["busy", "not ready"])
def test_a_503_says_when_to_ask_again(house, refusal):
    assert headers_of(refusal, house) == {"Retry-After": "1"}


@HOUSES
def test_other_refusals_say_what_belongs_to_them(house):
    assert headers_of(errors.RateLimited("cannot", facts={"retry_after_s": 3}), house) == {"Retry-After": "3"}
    assert headers_of(errors.Unauthenticated("cannot"), house)["WWW-Authenticate"].startswith("Bearer realm=")
    assert headers_of(errors.Forbidden("cannot"), house) == {}


@HOUSES
@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        (NotFound(), errors.MethodNotFound, 404),
        (MethodNotAllowed(), errors.MethodNotFound, 405),
        (RequestTimeout(), errors.InvalidRequest, 408),
        (ExceptionGroup("a nursery's", [errors.Forbidden("cannot")]), errors.Forbidden, None),
        (KeyError("a secret"), errors.Internal, None),
    ],
)
def test_an_error_becomes_the_same_refusal_at_both_doors(house, error, kind, status):
    refusal, its_status = refusal_of(error, house)

    assert (type(refusal), its_status) == (kind, status)
    assert "secret" not in refusal.message


@pytest.mark.parametrize(
    ("house", "error"),
    [(of_host.HOUSE, StoreUnavailable("full")), (of_cockpit.HOUSE, DatabaseUnavailable("full"))],
    ids=["host", "cockpit"],
)
def test_a_record_that_cannot_be_used_is_no_fault_of_the_request(house, error):
    refusal, _ = refusal_of(error, house)

    assert isinstance(refusal, errors.NotReady)
    assert "full" not in refusal.message
