"""Typed rows without an engine: what `direct_rows` gives is what DuckDB gives, or it gives nothing."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from carnac.core.segments.segment import ColumnType, Metric, MetricKind
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.rows.normalise.changes import Change, mark
from carnac.rows.normalise.shape import DimensionShape, RowShape
from carnac.rows.read.direct import direct_rows
from carnac.rows.read.reading import load_rows_from_arrow
from carnac.rows.rollup import part_sql
from carnac.specs.ingest.schema import TimestampSpec
from tests.unit.rows.loading import connection

MIN_MS, MAX_MS = -62_135_596_800_000, 253_402_300_800_000
WORDS = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
WHOLE = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
FLOATS = st.floats() | st.integers(-5, 5).map(float) | st.sampled_from([2.0**53, 2.0**63, -0.0])
SMALL = {pa.int8(): 7, pa.int16(): 15, pa.int32(): 31}
UNSIGNED = {pa.uint8(): 8, pa.uint16(): 16, pa.uint32(): 32, pa.uint64(): 64}
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): WORDS,
    pa.large_string(): WORDS,
    pa.string_view(): WORDS,
    pa.dictionary(pa.int8(), pa.string()): WORDS,
    pa.int64(): WHOLE,
    **{kind: st.integers(-(1 << bits), (1 << bits) - 1) for kind, bits in SMALL.items()},
    **{kind: st.integers(0, (1 << bits) - 1) for kind, bits in UNSIGNED.items()},
    pa.float64(): FLOATS,
    pa.float32(): st.floats(width=32) | st.integers(-5, 5).map(float),
    pa.bool_(): st.booleans(),
    pa.null(): st.none(),
    pa.decimal128(20, 3): st.integers(-(10**9), 10**9).map(lambda one: Decimal(one).scaleb(-3)),
    pa.binary(): st.binary(max_size=4),
    pa.date32(): st.dates(),
    pa.timestamp("us", "Asia/Tokyo"): st.integers(0, 10**15),
    pa.list_(pa.string()): st.lists(st.none() | WORDS, max_size=3),
    pa.list_(pa.int64()): st.lists(st.none() | WHOLE, max_size=3),
    pa.list_(pa.float64()): st.lists(st.none() | FLOATS, max_size=3),
    pa.list_(pa.list_(pa.int64())): st.lists(st.lists(WHOLE, max_size=2), max_size=2),
    pa.struct([("a", pa.int64())]): st.fixed_dictionaries({"a": WHOLE}),
}
UNITS = {"s": 1_000, "ms": 1, "us": 1, "ns": 1}
TYPES = [
    ColumnType.STRING,
    ColumnType.LONG,
    ColumnType.DOUBLE,
    ColumnType.FLOAT,
    ColumnType.BOOLEAN,
    ColumnType.JSON,
    ColumnType.STRING_ARRAY,
    ColumnType.LONG_ARRAY,
    ColumnType.DOUBLE_ARRAY,
]
FORMATS = ["auto", "iso", "posix", "millis", "micro", "nano", "ruby", "yyyy"]
NEAR = st.integers(-(10**6), 10**6) | st.integers(0, 1_700_000_000_000_000)
FAR = st.integers(-(2**63), 2**63 - 1) | st.sampled_from(
    [
        bound * unit // 1000 + by
        for bound in (MIN_MS, MAX_MS)
        for unit in (1, 1000, 10**6)
        for by in (-1, 0, 1)
    ]
)


@st.composite
def times(draw: st.DrawFn, rows: int) -> pa.Array:
    """A column of times: typed or whole numbers, some out of range, some null."""
    kind = draw(
        st.sampled_from(
            [
                *(
                    pa.timestamp(unit, zone)
                    for unit in UNITS
                    for zone in (None, "UTC", "Asia/Tokyo")
                ),
                *(pa.int64(), pa.int64(), pa.int32(), pa.uint64()),
            ]
        )
    )
    values = NEAR if draw(st.integers(0, 3)) else FAR | NEAR
    if draw(st.integers(0, 7)) == 0:
        values |= st.none()
    least, most = (0, 2**63 - 1) if kind == pa.uint64() else (-(2**63), 2**63 - 1)
    if kind == pa.int32():
        least, most = -(2**31), 2**31 - 1
    found = draw(st.lists(values, min_size=rows, max_size=rows))
    return pa.array(
        [None if one is None else max(least, min(one, most)) for one in found],
        pa.int64() if pa.types.is_timestamp(kind) else kind,
    ).cast(kind)


@st.composite
def inputs(draw: st.DrawFn) -> tuple[pa.Table, RowShape, TimestampSpec, IntervalSet | None]:
    rows = draw(st.integers(0, 5))
    columns = {"t": draw(times(rows))}
    dimensions: list[DimensionShape] = []
    metrics: list[Metric] = []
    for index in range(draw(st.integers(0, 4))):
        name = f"c{index}"
        wanted = draw(st.sampled_from(TYPES))
        if draw(st.integers(0, 9)):
            kind = draw(st.sampled_from(list(VALUES)))
            values = st.none() | VALUES[kind]
            found = draw(st.lists(values, min_size=rows, max_size=rows))
            columns[name] = pa.array(found, kind)
        if draw(st.integers(0, 4)):
            handling = draw(st.sampled_from(["array", "array", "sorted_array", "sorted_set"]))
            dimensions.append(DimensionShape(name=name, type=wanted, multi_value=handling))
        elif wanted in {ColumnType.LONG, ColumnType.DOUBLE, ColumnType.FLOAT, ColumnType.STRING}:
            kind_of = draw(st.sampled_from([MetricKind.SUM, MetricKind.MAX, MetricKind.FIRST]))
            metrics.append(Metric(name=f"m{index}", kind=kind_of, type=wanted, input=name))
    if draw(st.booleans()):
        metrics.append(Metric(name="n", kind=MetricKind.COUNT, type=ColumnType.LONG, input=None))
    shape = RowShape(dimensions=tuple(dimensions), metrics=tuple(metrics))
    zone = draw(st.sampled_from(["UTC", "UTC", "UTC", "Europe/Paris", "+02:00"]))
    timestamp = TimestampSpec(column="t", format=draw(st.sampled_from(FORMATS)), time_zone=zone)
    within = IntervalSet((Interval(0, 1_000), Interval(2_000, 10**12)))
    return pa.table(columns), shape, timestamp, draw(st.sampled_from([None, None, within]))


def by_value(table: pa.Table) -> list[str]:
    """Rows in an order of their own; times by their number."""
    plain = [
        (name, column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column)
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return sorted(map(repr, pa.table(dict(plain)).to_pylist()))


@given(inputs())
@example(
    (
        pa.table({"t": pa.array([1_500_000, 1_999_999, -1], pa.timestamp("ns", "UTC"))}),
        RowShape(dimensions=()),
        TimestampSpec(column="t"),
        None,
    )
)
def test_rows_are_those_of_the_engine_or_none(
    given_: tuple[pa.Table, RowShape, TimestampSpec, IntervalSet | None],
) -> None:
    table, shape, timestamp, within = given_
    direct = direct_rows(table, shape, timestamp, within)
    if direct is None:
        return
    found = direct.rows
    with connection() as con:
        counts = load_rows_from_arrow(
            con, table, shape, origin="o", timestamp=timestamp, within=within
        )
        exact = con.sql(part_sql(shape, "rows")).to_arrow_table()
    assert counts.rows_rejected == 0
    finer = {mark(Change.TIME, "t"): direct.finer} if direct.finer else {}
    assert counts.changed == finer
    assert counts.rows_parsed == found.num_rows
    assert counts.rows_thrown_away == table.num_rows - found.num_rows
    assert found.schema.names == exact.schema.names
    kinds = [one.type for one in found.schema if not pa.types.is_timestamp(one.type)]
    assert kinds == [one.type for one in exact.schema if not pa.types.is_timestamp(one.type)]
    assert by_value(pa.Table.from_batches([found])) == by_value(exact)


AT = pa.array([0, 1], pa.timestamp("ms"))
TAKEN: list[tuple[pa.Array, ColumnType]] = [
    (pa.array(["a", None]), ColumnType.STRING),
    (pa.array(["a", "b"], pa.large_string()), ColumnType.STRING),
    (pa.array(["a", "b"]).dictionary_encode(), ColumnType.STRING),
    (pa.array([1, None]), ColumnType.STRING),
    (pa.array([1, None]), ColumnType.LONG),
    (pa.array([1.0, None]), ColumnType.LONG),
    (pa.array([1, 2], pa.uint32()), ColumnType.LONG),
    (pa.array([0.5, float("nan")]), ColumnType.DOUBLE),
    (pa.array([True, False]), ColumnType.BOOLEAN),
    (pa.nulls(2), ColumnType.JSON),
    (pa.array([["a", None], None]), ColumnType.STRING_ARRAY),
]
LEFT: list[tuple[pa.Array, ColumnType]] = [
    (pa.array([1.5, None]), ColumnType.LONG),
    (pa.array([float("nan"), 1.0]), ColumnType.LONG),
    (pa.array([2**63, 1], pa.uint64()), ColumnType.LONG),
    (pa.array([2**53 + 1, 1]), ColumnType.DOUBLE),
    (pa.array(["1", "2"]), ColumnType.LONG),
    (pa.array([0.5, 1.0]), ColumnType.STRING),
    (pa.array([["a"], ["b", "c"]]), ColumnType.STRING),
    (pa.array(["{}", "[]"]), ColumnType.JSON),
]


@pytest.mark.parametrize(("column", "wanted"), TAKEN)
def test_what_needs_no_engine_gets_none(column: pa.Array, wanted: ColumnType) -> None:
    assert _direct(column, wanted) is not None


@pytest.mark.parametrize(("column", "wanted"), LEFT)
def test_what_the_engine_must_judge_is_left_to_it(column: pa.Array, wanted: ColumnType) -> None:
    assert _direct(column, wanted) is None


def test_text_that_is_no_utf8_is_left_to_the_engine() -> None:
    offsets, data = pa.array([0, 1, 3], pa.int32()), b"a\xff\xfe"
    text = pa.Array.from_buffers(pa.string(), 2, [None, offsets.buffers()[1], pa.py_buffer(data)])
    assert _direct(text, ColumnType.STRING) is None


def _direct(column: pa.Array, wanted: ColumnType) -> pa.RecordBatch | None:
    shape = RowShape(dimensions=(DimensionShape(name="c", type=wanted, multi_value="array"),))
    table = pa.table({"t": AT, "c": column})
    found = direct_rows(table, shape, TimestampSpec(column="t"), None)
    return None if found is None else found.rows
