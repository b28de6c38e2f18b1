from __future__ import annotations

import pytest

from carnac.core.time.intervals import interval_text, parse_instant, parse_interval, time_text
from carnac.core.words import bytes_text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_999, "1000.0 kB"),
        (1_549_999, "1.5 MB"),
        (10**9, "1.0 GB"),
        (10**12, "1.0 TB"),
        (10**15, "1.0 PB"),
        (10**18, "1000.0 PB"),
    ],
)
def test_sizes(size_bytes: int, text: str) -> None:
    assert bytes_text(size_bytes) == text


@pytest.mark.parametrize(
    ("at", "text"),
    [
        ("2026-01-05", "2026-01-05"),
        ("2026-01-05T07:30:00Z", "2026-01-05T07:30Z"),
        ("2026-01-05T07:30:05Z", "2026-01-05T07:30:05Z"),
        ("2026-01-05T07:30:05.250Z", "2026-01-05T07:30:05.250Z"),
    ],
)
def test_times_without_their_zeros(at: str, text: str) -> None:
    assert time_text(parse_instant(at)) == text


def test_intervals() -> None:
    assert interval_text(parse_interval("2026-01-05/2026-01-05T07:00:00Z")) == (
        "2026-01-05/2026-01-05T07:00Z"
    )
