"""Errors of statements as Druid's clients read them."""

from __future__ import annotations

import pytest

from carnac.api.sql.errors import failure_of
from carnac.api.sql.requests import Unreadable
from carnac.errors import (
    Busy,
    Cancelled,
    CarnacError,
    Corrupt,
    Invalid,
    NotFound,
    TimedOut,
    Unavailable,
)


@pytest.mark.parametrize(
    ("error", "status", "word", "category"),
    [
        (Invalid("no", line=1), 400, "SQL parse failed", "INVALID_INPUT"),
        (Invalid("no"), 400, "Plan validation failed", "INVALID_INPUT"),
        (NotFound("no"), 400, "Plan validation failed", "INVALID_INPUT"),
        (Busy("no", retry_after_s=3), 429, "Query capacity exceeded", "CAPACITY_EXCEEDED"),
        (TimedOut("no"), 504, "Query timeout", "TIMEOUT"),
        (Cancelled("no"), 500, "Query cancelled", "CANCELED"),
        (Unavailable("no"), 503, "Query interrupted", "SERVICE_UNAVAILABLE"),
        (Corrupt("no"), 500, "Unknown exception", "RUNTIME_FAILURE"),
    ],
)
def test_each_kind_has_a_status_and_words_of_druid(
    error: CarnacError, status: int, word: str, category: str
) -> None:
    failure = failure_of(error)
    assert (failure.status, failure.body["error"], failure.body["category"]) == (
        status,
        word,
        category,
    )
    assert failure.body["errorMessage"] == "no"
    assert {"errorCode", "errorClass", "persona", "host", "context"} <= set(failure.body)
    retry_after_s = {429: "3", 503: "5"}.get(status)
    assert failure.headers == ({"Retry-After": retry_after_s} if retry_after_s else {})


def test_a_body_that_is_no_request_has_the_other_shape() -> None:
    body = failure_of(Unreadable("no")).body
    assert body == {
        "error": "Unknown exception",
        "errorMessage": "no",
        "errorClass": "invalid",
        "host": None,
    }
