"""PR-1: a segment that holds a satisfying row is never left out, and time bounds hold every satisfying row."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping

from hypothesis import example, given
from hypothesis import strategies as st

from carnac.core.pruning.predicates import (
    ANYTHING,
    NOTHING,
    All,
    AnyOf,
    Compare,
    IsNull,
    OneOf,
    Op,
    Predicate,
    StartsWith,
    all_of,
    allowed_values,
    any_of,
    time_bounds,
)
from carnac.core.pruning.pruning import Pruner
from carnac.core.segments.partitioning import HASH_FUNCTION, hash_bucket, holds_values, order_keys
from carnac.core.segments.segment import (
    TIME_COLUMN,
    Column,
    ColumnType,
    HashedPartition,
    Partition,
    RangePartition,
    Scalar,
    Segment,
)
from carnac.core.time.intervals import Interval

TYPES = {
    "s": ColumnType.STRING,
    "t": ColumnType.STRING,
    "n": ColumnType.LONG,
    "x": ColumnType.DOUBLE,
}
Row = dict[str, Scalar]

texts = st.sampled_from(["", "a", "ab", "abc", "b", "ba", "é", "\U0001f600"])
longs = st.one_of(st.integers(-3, 3), st.sampled_from([2**53, 2**53 + 1, -(2**63), 2**63 - 1]))
doubles = st.sampled_from([-1.5, -0.0, 0.0, 0.5, 1.0, 2.0**53, 1e300, math.inf])
numbers = st.one_of(longs, doubles)
times_us = st.sampled_from([-1_001, -1_000, -1, 0, 1, 999, 1_000, 1_001, 2_000])
"""Around whole milliseconds, where rounding goes wrong."""
VALUES = {"s": texts, "t": texts, "n": longs, "x": doubles}


def rows_of(columns: list[str]) -> st.SearchStrategy[list[Row]]:
    fields = {name: st.one_of(st.none(), VALUES[name]) for name in columns}
    row = st.fixed_dictionaries({**fields, TIME_COLUMN: times_us})
    return st.lists(row, min_size=1, max_size=6)


def leaves() -> st.SearchStrategy[Predicate]:
    ops = st.sampled_from(list(Op))
    return st.one_of(
        st.builds(Compare, st.sampled_from(["s", "t"]), ops, texts),
        st.builds(Compare, st.sampled_from(["n", "x"]), ops, numbers),
        st.builds(Compare, st.sampled_from(["n", "s"]), ops, st.sampled_from(["1", 1, 1.0])),
        st.builds(Compare, st.just(TIME_COLUMN), ops, times_us),
        st.builds(
            OneOf,
            st.sampled_from(["s", "t"]),
            st.frozensets(st.one_of(texts, st.none()), max_size=3),
        ),
        st.builds(OneOf, st.sampled_from(["n", "x"]), st.frozensets(numbers, max_size=3)),
        st.builds(OneOf, st.just(TIME_COLUMN), st.frozensets(times_us, max_size=3)),
        st.builds(IsNull, st.sampled_from(["s", "t", "n", "x", TIME_COLUMN]), st.booleans()),
        st.builds(StartsWith, st.sampled_from(["s", "t"]), texts),
        st.just(ANYTHING),
    )


predicates = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(all_of),
        st.lists(inner, max_size=3).map(any_of),
        st.lists(inner, max_size=3).map(lambda parts: All(tuple(parts))),
        st.lists(inner, max_size=3).map(lambda parts: AnyOf(tuple(parts))),
    ),
    max_leaves=8,
)

COMPARE: Mapping[Op, Callable[[float, float], bool]] = {
    Op.EQ: lambda a, b: a == b,
    Op.LT: lambda a, b: a < b,
    Op.LE: lambda a, b: a <= b,
    Op.GT: lambda a, b: a > b,
    Op.GE: lambda a, b: a >= b,
}


def compares(op: Op, value: Scalar, constant: Scalar) -> bool:
    """As SQL: null never; a text and a number as text or as numbers, whatever helps the row to be kept."""
    if value is None or constant is None:
        return False
    if isinstance(value, str) != isinstance(constant, str):
        return True
    if isinstance(value, str) or (isinstance(value, int) and isinstance(constant, int)):
        return COMPARE[op](value, constant)  # type: ignore[arg-type]
    return COMPARE[op](float(value), float(constant))


def satisfies(row: Row, predicate: Predicate) -> bool:
    match predicate:
        case All(parts):
            return all(satisfies(row, part) for part in parts)
        case AnyOf(parts):
            return any(satisfies(row, part) for part in parts)
        case Compare(column, op, constant):
            return compares(op, row.get(column), constant)
        case OneOf(column, values):
            value = row.get(column)
            return (value is None and None in values) or any(
                compares(Op.EQ, value, one) for one in values
            )
        case IsNull(column, wanted):
            return (row.get(column) is None) == wanted
        case StartsWith(column, prefix):
            value = row.get(column)
            return isinstance(value, str) and value.startswith(prefix)


def column_of(name: str, rows: list[Row], *, is_known: bool) -> Column:
    values = [row[name] for row in rows]
    known = [value for value in values if value is not None]
    if not is_known:
        return Column(name=name, type=TYPES[name])
    return Column(
        name=name,
        type=TYPES[name],
        null_count=len(values) - len(known),
        min_value=min(known, default=None),  # type: ignore[type-var]
        max_value=max(known, default=None),  # type: ignore[type-var]
    )


def segment_of(
    rows: list[Row], columns: list[str], *, is_known: bool, partition: Partition | None
) -> Segment:
    times = [int(row[TIME_COLUMN] or 0) // 1000 for row in rows]
    return Segment(
        segment_id="s1",
        datasource="d",
        chunk=Interval(-10, 10),
        path="p",
        size_bytes=1,
        rows=len(rows),
        input_rows=len(rows),
        min_time_ms=min(times),
        max_time_ms=max(times),
        columns=tuple(column_of(name, rows, is_known=is_known) for name in columns),
        partition=partition,
    )


@st.composite
def partitioned(draw: st.DrawFn) -> tuple[list[Row], Segment]:
    columns = draw(st.lists(st.sampled_from(list(TYPES)), unique=True, max_size=4))
    rows = draw(rows_of(columns))
    dimensions = tuple(name for name in columns if name in {"s", "t", "n"})
    kind = draw(st.sampled_from(["none", "hashed", "range"]))
    partition: Partition | None = None
    if kind == "hashed" and dimensions:
        buckets = draw(st.integers(1, 5))
        place = {id(row): hash_bucket([row[name] for name in dimensions], buckets) for row in rows}  # type: ignore[misc]
        bucket = place[id(rows[0])]
        rows = [row for row in rows if place[id(row)] == bucket]
        partition = HashedPartition(
            dimensions=dimensions, bucket=bucket, buckets=buckets, function=HASH_FUNCTION
        )
    elif kind == "range" and dimensions:
        keys = [tuple(row[name] for name in dimensions) for row in rows]
        start, end = min(keys, key=order_keys), max(keys, key=order_keys)
        rows = [row for row in rows if tuple(row[name] for name in dimensions) != end] or rows
        is_open = len(rows) == len(keys)
        partition = RangePartition(
            dimensions=dimensions,
            start=draw(st.sampled_from([start, None])),
            end=None if is_open else end,
        )
    return rows, segment_of(rows, columns, is_known=draw(st.booleans()), partition=partition)


@given(partitioned(), predicates)
@example(
    (
        [{"n": 2**53, TIME_COLUMN: 0}],
        segment_of([{"n": 2**53, TIME_COLUMN: 0}], ["n"], is_known=True, partition=None),
    ),
    Compare("n", Op.GE, 2.0**53),
)
def test_a_segment_that_holds_a_satisfying_row_is_never_left_out(
    data: tuple[list[Row], Segment], predicate: Predicate
) -> None:
    rows, segment = data
    if any(satisfies(row, predicate) for row in rows):
        assert Pruner(predicate, TYPES).may_match(segment)


@given(
    st.fixed_dictionaries({TIME_COLUMN: times_us, **{name: VALUES[name] for name in VALUES}}),
    predicates,
)
def test_time_bounds_hold_every_satisfying_row(row: Row, predicate: Predicate) -> None:
    if satisfies(row, predicate):
        assert time_bounds(predicate).holds(int(row[TIME_COLUMN] or 0) // 1000)


@given(st.fixed_dictionaries({TIME_COLUMN: times_us, **VALUES}), predicates)
def test_allowed_values_hold_the_value_of_every_satisfying_row(
    row: Row, predicate: Predicate
) -> None:
    if not satisfies(row, predicate):
        return
    for name in ("s", "n"):
        allowed = allowed_values(predicate, name)
        if allowed is not None and not any(
            isinstance(one, str) != isinstance(row[name], str) for one in allowed
        ):
            assert row[name] in allowed


@given(st.tuples(st.one_of(st.none(), texts), st.one_of(st.none(), longs)), st.data())
def test_a_range_holds_exactly_the_tuples_between_its_ends(
    values: tuple[str | None, int | None], data: st.DataObject
) -> None:
    end_of_range = st.one_of(
        st.none(), st.tuples(st.one_of(st.none(), texts), st.one_of(st.none(), longs))
    )
    start, end = data.draw(end_of_range), data.draw(end_of_range)
    partition = RangePartition(dimensions=("s", "n"), start=start, end=end)
    inside = (start is None or order_keys(start) <= order_keys(values)) and (
        end is None or order_keys(values) < order_keys(end)
    )
    assert holds_values(partition, values) == inside
    if inside:
        assert holds_values(partition, values[:1])


def test_nothing_and_anything_are_what_they_say() -> None:
    segment = segment_of([{"n": 1, TIME_COLUMN: 0}], ["n"], is_known=True, partition=None)
    assert Pruner(ANYTHING, TYPES).may_match(segment)
    assert not Pruner(NOTHING, TYPES).may_match(segment)
    assert all_of([ANYTHING, NOTHING]) == NOTHING
    assert any_of([ANYTHING, NOTHING]) == ANYTHING


TIMES_US = [-1_001, -1_000, -1, 0, 1, 999, 1_000, 1_001]


def test_every_time_comparison_is_bounded_rightly() -> None:
    for op, constant, time_us in itertools.product(Op, TIMES_US, TIMES_US):
        predicate = Compare(TIME_COLUMN, op, constant)
        if satisfies({TIME_COLUMN: time_us}, predicate):
            assert time_bounds(predicate).holds(time_us // 1000), (op, constant, time_us)
    assert not time_bounds(Compare(TIME_COLUMN, Op.LT, 2_000)).holds(2)
    assert not time_bounds(Compare(TIME_COLUMN, Op.GE, 2_000)).holds(1)


def test_every_number_comparison_keeps_the_segments_that_match() -> None:
    values = [-(2**53) - 1, -1, 0, 1, 2**53, 2**53 + 1, 2.0**53, 0.5, -0.0, 2**63 - 1]
    for op, constant, value in itertools.product(Op, values, values):
        name = "x" if isinstance(value, float) else "n"
        row: Row = {name: value, TIME_COLUMN: 0}
        segment = segment_of([row], [name], is_known=True, partition=None)
        if satisfies(row, Compare(name, op, constant)):
            assert Pruner(Compare(name, op, constant), TYPES).may_match(segment), (
                op,
                constant,
                value,
            )
            as_doubles = {name: ColumnType.DOUBLE}
            assert Pruner(Compare(name, op, constant), as_doubles).may_match(segment), (
                op,
                constant,
                value,
            )
