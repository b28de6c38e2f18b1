"""Typed times, days and durations of Arrow that the engine has no room for: right values, or one row's own fault."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import carnac
from carnac import Store
from carnac.errors import Invalid

pytestmark = pytest.mark.usefixtures("shared_connection")

DAY_MS = 86_400_000
FAR = (1 << 62) // DAY_MS * DAY_MS


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with carnac.open(tmp_path / "store", create=True) as opened:
        yield opened


def of(kind: Any, *values: int) -> pa.Array:
    return pa.array(values, pa.int64()).view(kind)


def table(values: pa.Array) -> pa.Table:
    return pa.table({"t": ["2024-01-01T00:00:00Z"] * len(values), "v": values})


def kept(store: Store, values: pa.Array) -> tuple[list[object], int]:
    """Return the values that a column has after they were appended, and how many rows were rejected."""
    report = store.append("d", table(values), time="t").report
    assert report is not None
    found = store.sql("SELECT v FROM d ORDER BY ALL").arrow().to_pylist()
    return [row["v"] for row in found], report.rejected.count


LIST = pa.array([0, 1, 2], pa.int32())
TIMES = of(pa.timestamp("ms"), 0, FAR)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (pa.DictionaryArray.from_arrays([0, 1], TIMES), "1970-01-01T00:00:00.000Z"),
        (pa.RunEndEncodedArray.from_arrays([1, 2], TIMES), "1970-01-01T00:00:00.000Z"),
        (pa.ListViewArray.from_arrays([0, 1], [1, 1], TIMES), ["1970-01-01T00:00:00.000Z"]),
        (pa.FixedSizeListArray.from_arrays(TIMES, 1), ["1970-01-01T00:00:00.000Z"]),
        (pa.MapArray.from_arrays(LIST, ["k", "k"], TIMES), '{"k":"1970-01-01 00:00:00"}'),
        (pa.StructArray.from_arrays([TIMES], ["x"]), '{"x":"1970-01-01 00:00:00"}'),
        (of(pa.date64(), 0, FAR), "1970-01-01"),
        (pa.array([0, (1 << 31) - 1], pa.int32()).view(pa.date32()), "1970-01-01"),
        (pa.StructArray.from_arrays([of(pa.date64(), 0, -FAR)], ["x"]), '{"x":"1970-01-01"}'),
    ],
    ids=lambda one: str(one.type)[:20] if isinstance(one, pa.Array) else "",
)
def test_a_far_time_is_a_fault_of_its_row(store: Store, values: pa.Array, found: object) -> None:
    """Some ended the database of the engine, some were changed in silence."""
    assert kept(store, values) == ([found], 1)


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [
        ("s", (1 << 63) - 1, "2562047788015215:30:07"),
        ("s", -90_061, "-25:01:01"),
        ("ms", -(1 << 63), "-2562047788015:12:55.808"),
        ("us", 5_400_500_000, "01:30:00.5"),
        ("ns", 1, "00:00:00.000000001"),
    ],
)
def test_a_duration_is_its_text_to_the_last_digit(
    store: Store, unit: str, value: int, text: str
) -> None:
    values = of(pa.duration(unit), value)
    assert kept(store, values) == ([text], 0)
    store.append("e", table(pa.array([None, value], pa.duration(unit)).slice(1)), time="t")
    store.append("e", table(pa.ListArray.from_arrays([0, 1], values)), time="t", allow_missing=True,
                 allow_type_change=True)  # fmt: skip
    found = store.sql("SELECT v FROM e").arrow().to_pylist()
    assert [row["v"] for row in found] == [[text], [text]]


@pytest.mark.parametrize("kind", [pa.time64("us"), pa.time64("ns")])
def test_a_time_of_no_day_is_told(store: Store, kind: pa.DataType) -> None:
    with pytest.raises(Invalid, match="column 'v' holds a time of day before 00:00 or after 24:00"):
        store.append("d", table(of(kind, -1)), time="t")
    assert kept(store, of(kind, 0)) == (["00:00:00"], 0)


def test_days_far_apart_have_a_span(store: Store) -> None:
    """How long the rows of a load reach was an overflow of microseconds."""
    days = pa.array([0, 10, -719_162, 106_751_991], pa.int32()).view(pa.date32())
    report = store.append("d", pa.table({"t": days, "v": [1, 2, 3, 4]}), time="t").report
    assert report is not None
    assert dict(report.rejected.by_reason) == {"timestamp out of range": 1}


@pytest.mark.parametrize(
    "values",
    [
        TIMES,
        of(pa.timestamp("us"), 0, -(1 << 63)),
        pa.ListArray.from_arrays(LIST, of(pa.timestamp("ms", "UTC"), 0, -FAR)),
    ],
)
@pytest.mark.parametrize(
    "spec", [None, {"timestampSpec": {"column": "t"}, "dimensions": ["v", "n"]}]
)
def test_a_far_time_in_a_file_of_parquet_is_a_fault_of_its_row(
    store: Store, tmp_path: Path, values: pa.Array, spec: dict[str, object] | None
) -> None:
    """It was one of the whole file."""
    rows = table(values).append_column("n", pa.array([b"x", b"y"]))
    file = tmp_path / "far.parquet"
    pq.write_table(rows, file)
    how: Any = {"time": "t"} if spec is None else {"spec": {"dataSource": "d", **spec}}
    report = store.append("d", file, **how).report
    assert report is not None
    assert (report.rows_written, report.rejected.count) == (1, 1)
    assert store.sql("SELECT n FROM d").arrow()["n"].to_pylist() == ["eA=="]
    assert {path.name for path in tmp_path.iterdir()} == {"store", "far.parquet"}


def test_a_far_time_of_parquet_is_a_fault_of_its_row_where_it_is_the_time(
    store: Store, tmp_path: Path
) -> None:
    file = tmp_path / "far.parquet"
    pq.write_table(pa.table({"t": TIMES, "n": [1, 2]}), file)
    report = store.append("d", file, time="t").report
    assert report is not None
    assert dict(report.rejected.by_reason) == {"timestamp out of range": 1}
