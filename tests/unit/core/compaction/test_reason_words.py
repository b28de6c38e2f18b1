"""How reasons name granularities and time chunks."""

from __future__ import annotations

import pytest

from carnac.core.time.granularity import parse_granularity
from carnac.core.time.intervals import ETERNITY, parse_interval
from carnac.core.words import chunk_text, granularity_text


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("day", "DAY"),
        ("PT2H", "PT2H"),
        ({"type": "period", "period": "P1D", "timeZone": "Europe/Paris"}, "P1D in Europe/Paris"),
        (
            {"type": "period", "period": "P1W", "origin": "2020-01-01T00:00:00Z"},
            "P7D from 1970-01-07",
        ),
    ],
)
def test_a_granularity_in_words(given: str | dict[str, str], text: str) -> None:
    assert granularity_text(str(parse_granularity(given))) == text


def test_what_is_not_asked_for_has_no_words() -> None:
    assert granularity_text(None) == ""


def test_a_chunk_in_words() -> None:
    assert chunk_text(ETERNITY) == "of all times"
    assert chunk_text(parse_interval("2026-01-05/P1D")) == "2026-01-05/2026-01-06"
