"""Pruning does leave segments out: examples of each kind of reason."""

from __future__ import annotations

import pytest

from carnac.core.pruning.predicates import Compare, IsNull, OneOf, Op, Predicate, StartsWith, all_of
from carnac.core.pruning.pruning import Pruner
from carnac.core.segments.partitioning import HASH_FUNCTION, hash_bucket
from carnac.core.segments.segment import (
    Column,
    ColumnType,
    HashedPartition,
    Partition,
    RangePartition,
    Segment,
)
from carnac.core.time.intervals import Interval

TYPES = {
    "s": ColumnType.STRING,
    "n": ColumnType.LONG,
    "x": ColumnType.DOUBLE,
    "gone": ColumnType.STRING,
}


def segment(partition: Partition | None = None) -> Segment:
    return Segment(
        segment_id="s1",
        datasource="d",
        chunk=Interval(0, 10),
        path="p",
        size_bytes=1,
        rows=4,
        input_rows=4,
        min_time_ms=0,
        max_time_ms=9,
        columns=(
            Column(
                name="s", type=ColumnType.STRING, null_count=0, min_value="carol", max_value="dave"
            ),
            Column(name="n", type=ColumnType.LONG, null_count=4),
            Column(name="x", type=ColumnType.DOUBLE, null_count=1, min_value=1.0, max_value=2.0),
        ),
        partition=partition,
    )


def name(predicate: Predicate) -> str:
    """Name a case. A set has no order, and several processes must give their cases the same names."""
    if isinstance(predicate, OneOf):
        return f"OneOf({predicate.column!r}, {sorted(map(repr, predicate.values))})"
    return repr(predicate)


@pytest.mark.parametrize(
    "predicate",
    [
        Compare("s", Op.EQ, "bob"),
        Compare("s", Op.GT, "dave"),
        Compare("s", Op.LT, "carol"),
        Compare("s", Op.LE, "carla"),
        Compare("x", Op.GE, 3),
        OneOf("s", frozenset({"alice", "eve"})),
        StartsWith("s", "b"),
        StartsWith("s", "dx"),
        IsNull("s"),
        IsNull("n", wanted=False),
        Compare("n", Op.EQ, 1),
        IsNull("gone", wanted=False),
        Compare("gone", Op.EQ, "x"),
    ],
    ids=name,
)
def test_statistics_leave_a_segment_out(predicate: Predicate) -> None:
    assert not Pruner(predicate, TYPES).may_match(segment())


@pytest.mark.parametrize(
    "predicate",
    [
        Compare("s", Op.EQ, "cecil"),
        Compare("s", Op.LE, "carol"),
        Compare("x", Op.EQ, 1),
        Compare("x", Op.EQ, "9"),
        StartsWith("s", "c"),
        StartsWith("s", ""),
        IsNull("x"),
        IsNull("n"),
        IsNull("gone"),
        OneOf("s", frozenset({"zoe", "carol"})),
        Compare("unknown", Op.EQ, 1),
    ],
    ids=name,
)
def test_what_may_match_stays(predicate: Predicate) -> None:
    assert Pruner(predicate, TYPES).may_match(segment())


def test_one_bucket_of_eight_is_left_when_all_hashed_dimensions_are_named() -> None:
    parts = [
        HashedPartition(dimensions=("s",), bucket=bucket, buckets=8, function=HASH_FUNCTION)
        for bucket in range(8)
    ]
    pruner = Pruner(Compare("s", Op.EQ, "carol"), TYPES)
    left = [part.bucket for part in parts if pruner.may_match(segment(part))]
    assert left == [hash_bucket(["carol"], 8)]
    other = HashedPartition(
        dimensions=("s",), bucket=(left[0] + 1) % 8, buckets=8, function="another"
    )
    assert pruner.may_match(segment(other))


def test_ranges_leave_out_what_lies_beyond_their_ends() -> None:
    part = RangePartition(dimensions=("s", "x"), start=("carol", 1.0), end=("dave", None))
    assert not Pruner(Compare("s", Op.EQ, "carl"), {"s": ColumnType.STRING}).may_match(
        segment(part)
    )
    wide = RangePartition(dimensions=("s",), start=("cat",), end=None)
    pruner = Pruner(all_of([Compare("s", Op.EQ, "carol")]), TYPES)
    assert pruner.may_match(segment(part))
    assert not pruner.may_match(segment(wide))


def test_the_writers_hash_is_the_readers() -> None:
    duckdb = pytest.importorskip("duckdb")
    from carnac.rows import cutting
    from carnac.rows.normalise.shape import DimensionShape, RowShape

    connection = duckdb.connect()
    rows = [("a", 1), ("é|x", -(2**63)), ("", 0), (None, None), ("12:", 7)]
    connection.execute("CREATE TABLE t (s VARCHAR, n BIGINT)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", rows)

    dimensions = (
        DimensionShape(name="s", type=ColumnType.STRING),
        DimensionShape(name="n", type=ColumnType.LONG),
    )
    shape = RowShape(dimensions=dimensions, absent=("gone",))
    for names in (("s", "n"), ("n", "gone", "s")):
        sql = cutting.bucket_sql(shape, names, 97)
        for s, n, bucket in connection.execute(f"SELECT s, n, {sql} FROM t").fetchall():
            values = {"s": s, "n": n, "gone": None}
            assert bucket == hash_bucket([values[name] for name in names], 97)
