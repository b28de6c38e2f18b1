"""Buckets of SQL are those of granularities: of ingestion, of native queries and of Druid."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pytest

import carnac
from carnac import Store
from carnac.core.time.granularity import parse_granularity

ZONES = ("UTC", "Europe/Paris", "America/New_York", "Asia/Kathmandu")
PERIODS = (
    *("PT1S", "PT25S", "PT1M", "PT15M", "PT45M", "PT50M", "PT90M"),
    *("PT1H", "PT6H", "PT7H", "PT12H", "PT24H", "PT36H"),
    *("P1W2D", "PT1H30M"),
    *("P1D", "P2D", "P10D", "P1W", "P3W", "P1M", "P3M", "P5M", "P1Y", "P3Y"),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    rng = random.Random(4)
    times = [rng.randrange(-(10**9), 4 * 10**9) for _ in range(200)]
    times += [int(datetime(2024, 11, 3, hour, 30, tzinfo=UTC).timestamp()) for hour in range(10)]
    rows = [{"t": datetime.fromtimestamp(at, UTC).isoformat()} for at in times]
    place: Path = tmp_path_factory.mktemp("store")
    spec = {
        "dataSource": "times",
        "timestampSpec": {"column": "t"},
        "granularitySpec": {"segmentGranularity": "all"},
    }
    with carnac.open(place, create=True) as opened:
        opened.append("times", rows, spec=spec)
        yield opened


OF_UTC = ("P1DT12H", "P1WT6H", "P2DT30M")
"""Of two units, one of which is hours: outside of UTC, Druid has no rule for them that is an expression."""


@pytest.mark.parametrize(
    ("period", "zone"), [*product(PERIODS, ZONES), *((one, "UTC") for one in OF_UTC)]
)
def test_floor_and_ceil_are_the_bounds_of_a_granularity(
    store: Store, period: str, zone: str
) -> None:
    buckets = parse_granularity({"type": "period", "period": period, "timeZone": zone})
    more = f"'{period}', NULL, '{zone}'"
    found = store.sql(
        f"SELECT epoch_ms(__time) AS at, epoch_ms(TIME_FLOOR(__time, {more})) AS floor,"
        f" epoch_ms(TIME_CEIL(__time, {more})) AS ceil FROM times"
    ).rows()
    assert len(found) == 210
    for row in found:
        bucket = buckets.bucket(row["at"])
        ceil_ms = bucket.start_ms if bucket.start_ms == row["at"] else bucket.end_ms
        assert (row["floor"], row["ceil"]) == (bucket.start_ms, ceil_ms), row
