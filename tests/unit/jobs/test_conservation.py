"""The proof of rolled-up rows: it is the same before and after they are merged, and another one if a value changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carnac.core.log.laws import conserves
from carnac.core.segments.segment import TIME_COLUMN
from carnac.jobs.compact.conservation import Side, prove
from carnac.rows.normalise.shape import ROWS_COLUMN, RowShape
from carnac.rows.segment_writer import ARROW_TYPE, TIME_TYPE
from tests.unit.rows.rows import dimensions, metric

HOUR_MS = 3_600_000
SHAPE = RowShape(
    dimensions=dimensions(d="string", n="long"),
    metrics=(
        metric("count", "count", "long"),
        metric("sum", "sum", "long"),
        metric("dsum", "sum", "double"),
        metric("fsum", "sum", "float"),
        metric("low", "min", "double"),
        metric("high", "max", "long"),
    ),
    query_granularity="HOUR",
    is_rollup=True,
)
Row = Mapping[str, Any]

doubles = st.floats(-1e12, 1e12) | st.floats(-1e-9, 1e-9)
floats = st.floats(-(2.0**40), 2.0**40, width=32) | st.floats(-(2.0**-20), 2.0**-20, width=32)
rows = st.fixed_dictionaries(
    {
        TIME_COLUMN: st.integers(0, 2).map(lambda hour: hour * HOUR_MS),
        "d": st.sampled_from([None, "", "a"]),
        "n": st.sampled_from([None, 0, 7]),
        "count": st.integers(0, 3),
        "sum": st.none() | st.integers(-(2**50), 2**50),
        "dsum": st.none() | doubles,
        "fsum": st.none() | floats,
        "low": st.none() | doubles,
        "high": st.none() | st.integers(-9, 9),
        ROWS_COLUMN: st.integers(1, 3),
    }
)


def side_of(some: Sequence[Row], *, counts_rows: bool = True) -> Side:
    """Return what is known of rows; without a column of theirs that counts, each stands for one."""
    types = dict(SHAPE.segment_columns)
    columns = {TIME_COLUMN: pa.array([row[TIME_COLUMN] * 1000 for row in some], TIME_TYPE)}
    for name, kind in types.items():
        columns[name] = pa.array([row[name] for row in some], ARROW_TYPE[kind])
    if counts_rows:
        columns[ROWS_COLUMN] = pa.array([row[ROWS_COLUMN] for row in some], pa.int64())
    side = Side()
    side.add_states(SHAPE, pa.table(columns))
    return side


def is_same(before: Side, after: Side) -> bool:
    return conserves(prove([before], [after]))


def merged(some: Sequence[Row]) -> list[dict[str, Any]]:
    """Merge the rows of each key, one at a time."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in some:
        groups.setdefault((row[TIME_COLUMN], row["d"], row["n"]), []).append(row)
    return [
        {
            **group[0],
            "count": sum(row["count"] for row in group),
            "sum": of_all(sum, group, "sum"),
            "dsum": of_all(sum, group, "dsum"),
            "fsum": of_all(lambda values: float(np.float32(sum(values))), group, "fsum"),
            "low": of_all(min, group, "low"),
            "high": of_all(max, group, "high"),
            ROWS_COLUMN: sum(row[ROWS_COLUMN] for row in group),
        }
        for group in groups.values()
    ]


def of_all(merge: Callable[[list[Any]], Any], group: Sequence[Row], name: str) -> Any:
    values = [row[name] for row in group if row[name] is not None]
    return merge(values) if values else None


@given(some=st.lists(rows, max_size=30), cuts=st.lists(st.integers(0, 30), max_size=3))
def test_merging_changes_nothing_in_whatever_parts_it_is_done(
    some: list[Row], cuts: list[int]
) -> None:
    places = [0, *sorted(cuts), 30]
    parts = [some[start:end] for start, end in pairwise(places)]
    at_once = side_of(some)
    in_parts = reduce(add, [side_of(part) for part in parts], Side())
    assert is_same(in_parts, at_once)
    assert is_same(at_once, side_of(merged(some)))
    again = merged([row for part in parts for row in merged(part)])
    assert is_same(in_parts, side_of(again))


def add(side: Side, other: Side) -> Side:
    side.add(other)
    return side


def changed(row: Row, name: str) -> dict[str, Any]:
    """Return a row with another value, by more than a merge may round."""
    if name == "d":
        return {**row, "d": "b"}
    if name == "low":
        return {**row, name: -1e13}
    more = 2.0**43 if name in {"dsum", "fsum"} else 1000
    return {**row, name: (row[name] or 0) + more}


@given(
    some=st.lists(rows, min_size=1, max_size=20),
    place=st.integers(0, 19),
    name=st.sampled_from(
        [TIME_COLUMN, "d", "n", "count", "sum", "dsum", "fsum", "low", "high", ROWS_COLUMN]
    ),
)
def test_every_change_is_seen(some: list[Row], place: int, name: str) -> None:
    after = merged(some)
    place %= len(after)
    one, others = after[place], [*after[:place], *after[place + 1 :]]
    before = side_of(some)
    assert not is_same(before, side_of([*others, changed(one, name)]))
    assert not is_same(before, side_of(others))
    assert not is_same(before, side_of([*after, one]))


ONE = {
    TIME_COLUMN: 0,
    "d": "a",
    "n": 7,
    "count": 1,
    "sum": 5,
    "dsum": 0.5,
    "fsum": 0.25,
    "low": 0.0,
    "high": 0,
    ROWS_COLUMN: 1,
}
OTHER = {**ONE, "d": "b", "sum": 6, "dsum": 1.5, "fsum": 4.0}


@pytest.mark.parametrize("name", ["d", "sum", "dsum", "fsum"])
def test_values_that_go_to_another_key_are_seen(name: str) -> None:
    swapped = [{**ONE, name: OTHER[name]}, {**OTHER, name: ONE[name], "n": 8}]
    right = [ONE, {**OTHER, "n": 8}]
    assert is_same(side_of(right), side_of(list(reversed(right))))
    assert not is_same(side_of(right), side_of(swapped))


@pytest.mark.parametrize("name", ["dsum", "fsum"])
@pytest.mark.parametrize("scale", [1e-30, 1e-9, 1.0, 1e9, 1e30])
def test_sums_are_compared_by_their_own_size(name: str, scale: float) -> None:
    """Values in nanometres are as safe as values in light years."""
    before = [{**ONE, name: value * scale} for value in (1.0, 2.0, -2.5)]
    (right,) = merged(before)
    rounded = {**right, name: 0.5 * scale * (1 + 1e-12)}
    assert is_same(side_of(before), side_of([rounded]))
    wrong = {**right, name: 0.5001 * scale}
    assert not is_same(side_of(before), side_of([wrong]))


@pytest.mark.parametrize("name", ["low", "high"])
def test_a_bound_that_is_gone_is_seen_though_it_was_zero(name: str) -> None:
    assert not is_same(side_of([ONE]), side_of([{**ONE, name: None}]))
    assert not is_same(side_of([{**ONE, name: None}]), side_of([ONE]))


def test_what_is_not_finite_is_left_to_the_hash_and_raises_no_alarm() -> None:
    for value in (math.inf, -math.inf, math.nan):
        odd = [{**ONE, "dsum": value, "fsum": value, "low": value}]
        assert is_same(side_of(odd), side_of(odd))


def test_without_counts_each_row_stands_for_one() -> None:
    plain = side_of([{**ONE, ROWS_COLUMN: 5}], counts_rows=False)
    assert plain.rows == 1
    assert is_same(plain, side_of([ONE]))


def moved(rows: int, row_hash: int) -> Side:
    """What rows that are only moved say."""
    side = Side()
    side.add_known(rows, row_hash)
    return side


def test_input_groups_are_proved_each_for_itself() -> None:
    low, high = side_of([{**ONE, "dsum": 1.0}]), side_of([{**ONE, "dsum": 3.0}])
    assert conserves(prove([low, high], [low, high]))
    assert not conserves(prove([low, high], [high, low]))
    one, other = moved(3, 5), moved(3, 8)
    assert not conserves(prove([one, other], [other, one]))
    with pytest.raises(ValueError, match="shorter"):
        prove([low], [low, high][:0])
