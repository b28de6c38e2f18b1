"""A store with all that makes merging hard, and how answers over it are compared."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

import carnac
from tests.support.statements import Asked, Statements

START_MS = 1_356_998_400_000
"""2013-01-01."""
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
LONG, DOUBLE = {"name": "n", "type": "long"}, {"name": "x", "type": "double"}


def spec(
    segments: str, dimensions: list[object], *, times: str = "none", name: str = "events"
) -> dict[str, object]:
    granularity = {"segmentGranularity": segments, "queryGranularity": times}
    return {
        "dataSource": name,
        "timestampSpec": {"column": "t", "format": "millis"},
        "dimensions": dimensions,
        "granularitySpec": granularity,
    }


def rows(rng: random.Random, start: float, days: float, count: int, columns: str) -> list[Any]:
    """Return rows between two days, with nulls, big longs, empty texts and lists, and fractions that add up exactly."""
    makers = {
        "s": lambda: rng.choice([None, None, "", "a", "ab", "b", "ü"]),
        "k": lambda: rng.choice([None, "k1", "k2", "k2", "k3", "k4"]),
        "n": lambda: rng.choice([None, rng.randrange(-9, 9), 7, 2**62 + rng.randrange(9)]),
        "x": lambda: rng.choice([None, rng.randrange(-40, 40) / 4, 0.0, -0.5]),
        "w": lambda: rng.choice([None, rng.randrange(5)]),
        "f": lambda: rng.choice([None, rng.randrange(-9, 9) / 2]),
        "b": lambda: rng.choice([None, True, False]),
        "tags": lambda: rng.choice([None, ["p"], ["p", "q"], ["q", None]]),
    }
    at = [START_MS + int((start + days * rng.random()) * DAY_MS) for _ in range(count)]
    return [{"t": t} | {name: makers[name]() for name in columns.split()} for t in at]


def fill(store: carnac.Store) -> None:
    """Append and delete: three granularities of chunks, four schemas, clips in the middle of segments, a rollup."""
    rng = random.Random(18)
    flag, tags = {"name": "b", "type": "boolean"}, {"name": "tags", "type": "array<string>"}
    part, wide = {"name": "f", "type": "float"}, {"name": "w", "type": "long"}
    days = spec("day", ["s", "k", LONG, DOUBLE, flag, wide])
    store.append("events", rows(rng, 0, 3, 60, "s k n x b w"), spec=days)
    hours = spec("hour", ["s", "k", LONG, tags])
    store.append("events", rows(rng, 5, 0.25, 40, "s k n tags"), spec=hours)
    months = spec("month", ["s", "k", DOUBLE, part, tags])
    store.append("events", rows(rng, 30, 28, 50, "s k x f tags"), spec=months)
    minutes = spec("day", ["k", LONG, part], times="hour")
    store.append("events", rows(rng, 0, 6, 30, "k n f"), spec=minutes)
    store.append("events", rows(rng, 40, 1, 9, "s"), spec=spec("day", ["s"]))
    for interval in (
        "2013-01-02T03:04:05.678Z/2013-01-02T13:04:05.679Z",
        "2013-01-01T09:00:00Z/2013-01-01T10:00:00Z",
        "2013-01-06T01:10:00Z/2013-01-06T03:00:00Z",
        "2013-02-08T00:00:00Z/2013-02-13T00:00:00.001Z",
    ):
        store.delete("events", interval=interval)
    metrics = [
        {"name": "hits", "type": "count"},
        {"name": "total", "type": "longSum", "fieldName": "w"},
        {"name": "users", "type": "HLLSketchBuild", "fieldName": "s"},
    ]
    rolled = spec("day", ["k"], times="hour", name="hits") | {"metricsSpec": metrics}
    for day in (0, 2):
        store.append("hits", rows(rng, day, 1, 40, "k w s"), spec=rolled)
    store.set_lookup("names", {"k1": "one", "k2": "two", "k3": "", "k9": "nobody"})


def is_same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-9)
    return type(one) is type(other) and one == other


def rank(row: Sequence[object]) -> str:
    return repr([f"{value:.7g}" if isinstance(value, float) else value for value in row])


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    columns = [column.to_pylist() for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else []


def check_same(found: pa.Table, wanted: pa.Table, asked: Asked) -> None:
    assert found.schema == wanted.schema
    left, right = rows_of(found), rows_of(wanted)
    if not asked.is_ordered:
        left, right = sorted(left, key=rank), sorted(right, key=rank)
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        assert all(map(is_same, one, other)), (one, other)


def asked(number: int) -> Asked:
    return Statements(random.Random(number)).make()
