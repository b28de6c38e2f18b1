"""A value that its column has no room for is taken, and told: never changed in silence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import carnac
from carnac import Store
from carnac.core.segments.segment import ColumnType
from carnac.rows.normalise.changes import Change, mark, sentences
from carnac.rows.normalise.shape import DimensionShape, RowShape
from carnac.rows.read.reading import load_rows_from_arrow
from carnac.specs.ingest.schema import TimestampSpec
from tests.unit.rows.loading import connection

AT = "2024-03-04T09:00:00Z"
BIG = 2**53 + 1
KINDS = ["json", "exact json", "csv", "text table", "text csv", "text json", "exact text json"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with carnac.open(tmp_path_factory.mktemp("changed") / "store", create=True) as opened:
        yield opened


def source(folder: Path, kind: str, rows: list[dict[str, Any]]) -> Any:
    """Rows in memory, or a file of them; `text`: each value as text; `exact`: not for the fast pass."""
    if "text" in kind:
        rows = [{k: v if v is None else f"{v}" for k, v in row.items()} for row in rows]
    if kind.startswith("exact"):
        rows = [{**row, "s": "["} for row in rows]
    path = folder / f"rows.{kind.rpartition(' ')[2]}"
    if kind.endswith("json"):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind.endswith("csv"):
        cells = [",".join("" if v is None else f"{v}" for v in row.values()) for row in rows]
        path.write_text("\n".join([",".join(rows[0]), *cells]) + "\n")
    else:
        return rows
    return path


def told(store: Store, rows: Any, kind: str, **more: Any) -> list[str]:
    """What is said of a load of column `n`, as that type, into a datasource of its own."""
    name = f"edits{store.head().revision}"
    block = {
        "dataSource": name,
        "timestampSpec": {"column": "t"},
        "dimensions": [{"name": "n", "type": kind}, "s"],
        "granularitySpec": {"segmentGranularity": "year"},
        "tuningConfig": {"allowMissing": True},
    }
    done = store.append(name, rows, spec={**block, **more})
    assert done.report is not None
    assert not done.report.rejected.count
    return [note for note in done.report.notes if "'s'" not in note and "in s:" not in note]


def said(change: Change, rows: int, field: str = "n") -> list[str]:
    return list(sentences({mark(change, field): rows}))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("wanted", "values", "change"),
    [
        ("long", [7.25, 7.0, -0.5, 8, None], Change.FRACTION),
        ("double", [BIG, -BIG, 2**53, 2**60, 0.1, None], Change.DIGITS),
        ("float", [2**24 + 1, -(2**24) - 1, 2**24, 0.1, None], Change.DIGITS),
        ("boolean", [2, 0.5, 1, 0, None], Change.NUMBER),
    ],
)
def test_a_number_that_is_changed_is_told(
    store: Store, tmp_path: Path, *, kind: str, wanted: str, values: list[Any], change: Change
) -> None:
    rows = [{"t": AT, "n": value} for value in values]
    found = told(store, source(tmp_path, kind, rows), wanted)
    assert found == said(change, 2)


@pytest.mark.parametrize("kind", ["json", "exact json", "table", "text json", "text table"])
@pytest.mark.parametrize(
    ("wanted", "values", "change"),
    [
        ("array<long>", [[1.0, 7.25], [-0.5], [2.0], [], None], Change.FRACTION),
        ("array<double>", [[0, BIG], [-BIG], [2**53, 2**60], [], None], Change.DIGITS),
    ],
)
def test_an_element_that_is_changed_is_told(
    store: Store, tmp_path: Path, *, kind: str, wanted: str, values: list[Any], change: Change
) -> None:
    if "text" in kind:
        values = [one if one is None else [f"{e}" for e in one] for one in values]
    rows = [{"t": AT, "n": value} for value in values]
    given_rows = source(tmp_path, kind.replace("text ", ""), rows)
    assert told(store, given_rows, wanted) == said(change, 2)


TYPED: list[tuple[str, pa.Array, Change, int]] = [
    ("long", pa.array([1.5, 2.0, None]), Change.FRACTION, 1),
    ("long", pa.array([Decimal("1.5"), Decimal("2.0"), None]), Change.FRACTION, 1),
    ("long", pa.array([1_500, 1_000, None], pa.timestamp("us")), Change.TIME, 1),
    ("string", pa.array([1_500, 1_000, None], pa.timestamp("us", "UTC")), Change.TIME, 1),
    ("string", pa.array([1_000_001, 1_000_000, None], pa.timestamp("ns")), Change.TIME, 1),
    ("long", pa.array([1_000_001, 1_000_000, None], pa.timestamp("ns", "UTC")), Change.TIME, 1),
    ("double", pa.array([BIG, 2**60, None]), Change.DIGITS, 1),
    ("double", pa.array([2**64 - 1, 2**63, None], pa.uint64()), Change.DIGITS, 1),
    ("double", pa.array([Decimal(10**30 + 1), Decimal(10**30), None]), Change.DIGITS, 1),
    ("float", pa.array([2**24 + 1, 2**24, None], pa.int32()), Change.DIGITS, 1),
    ("float", pa.array([2.0**24 + 1, 0.1, float("inf"), float("nan")]), Change.DIGITS, 1),
    ("boolean", pa.array([2, 1, 0, None]), Change.NUMBER, 1),
    ("boolean", pa.array([0.5, 1.0, 0.0, None]), Change.NUMBER, 1),
    ("array<long>", pa.array([[0.5], [1.0], None]), Change.FRACTION, 1),
    ("array<double>", pa.array([[BIG], [2**60, None], None]), Change.DIGITS, 1),
    ("array<long>", pa.array([1.5, 2.0, None]), Change.FRACTION, 1),
]


@pytest.mark.parametrize("is_file", [False, True])
@pytest.mark.parametrize(("wanted", "values", "change", "rows"), TYPED)
def test_a_typed_value_that_is_changed_is_told(
    store: Store,
    tmp_path: Path,
    *,
    is_file: bool,
    wanted: str,
    values: pa.Array,
    change: Change,
    rows: int,
) -> None:
    table: Any = pa.table({"t": [AT] * len(values), "n": values})
    if is_file:
        pq.write_table(table, tmp_path / "rows.parquet")
        table = tmp_path / "rows.parquet"
    assert told(store, table, wanted) == said(change, rows)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris"])
@pytest.mark.parametrize(
    ("time_format", "times"),
    [
        (
            "auto",
            ["2024-03-04T09:00:00.1234Z", "2024-03-04 09:00:00.123000+01:00", "1500000000000"],
        ),
        ("auto", ["1500000000000.5", "1500000000000.0", "2024-03-04T09:00:00.12Z"]),
        ("iso", ["2024-03-04T09:00:00,000001Z", " 2024-03-04T09:00:00.123Z", "2024"]),
        (
            "yyyy-MM-dd HH:mm:ss.SSSSSS",
            ["2024-03-04 09:00:00.000100", "2024-03-04 09:00:00.100000"],
        ),
        ("posix", ["1500000000.5", "1500000000.0", "1500000000"]),
        ("millis", [1_500_000_000_000.5, 1_500_000_000_000.0]),
        ("micro", [1_500_000_000_000_001, 1_500_000_000_000_000]),
        ("micro", ["1500000000000001", "1500000000000000"]),
        ("nano", [1_500_000_000_000_000_001, 1_500_000_000_000_000_000]),
        ("nano", ["1500000000000000001", "1500000000000000000"]),
        ("ruby", [1_500_000_000.0001, 1_500_000_000.001]),
        ("ruby", ["1500000000.0001", "1500000000.001"]),
    ],
)
def test_a_time_that_is_cut_is_told(
    store: Store, tmp_path: Path, time_format: str, times: list[Any], zone: str
) -> None:
    rows = [{"t": time, "n": 1} for time in times]
    time = {"column": "t", "format": time_format, "timeZone": zone}
    kinds = ["json", "table"] if isinstance(times[0], str) else ["json", "table", "text json"]
    for kind in kinds:
        found = told(store, source(tmp_path, kind, rows), "long", timestampSpec=time)
        assert found == said(Change.TIME, 1, "t"), kind


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("n", [1, "1"])
def test_a_typed_time_that_is_cut_is_told_with_and_without_an_engine(
    store: Store, zone: str | None, n: object
) -> None:
    times = pa.array([1_500_000_000_000_001, 1_500_000_000_000_000, -1], pa.timestamp("us", zone))
    table = pa.table({"t": times, "n": [n] * 3})
    assert told(store, table, "long") == said(Change.TIME, 2, "t")


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("n", [1, "1"])
def test_nanoseconds_are_cut_off_towards_the_past(
    store: Store, zone: str | None, n: object
) -> None:
    times = pd.to_datetime(["2024-03-04T09:00:00.999999999", "1969-12-31T23:59:59.999999999"])
    name = f"edits{store.head().revision}"
    told(store, pd.DataFrame({"t": times.tz_localize(zone), "n": n}), "long")
    found = store.sql(f"SELECT epoch_ms(__time) % 1000 AS ms FROM {name}").rows()
    assert [row["ms"] % 1000 for row in found] == [999, 999]


def test_transforms_and_texts_tell_it_too(store: Store, tmp_path: Path) -> None:
    rows = [{"t": "2024-03-04T09:00:00.0001Z", "n": n, "m": "a"} for n in (BIG, 1)]
    transforms = {"transforms": [{"name": "m", "expression": "upper(m)"}]}
    found = told(store, source(tmp_path, "json", rows), "double", transformSpec=transforms)
    assert found == [*said(Change.DIGITS, 1), *said(Change.TIME, 2, "t")]


@given(st.integers(-(10**25), 10**25) | st.floats().map(repr))
@example(BIG)
@example(2**60)
@example("123456789012345680000")
@example("1e+23")
@example("1e400")
@example("-Infinity")
@example("12345678901234567.25")
def test_a_double_is_told_when_it_is_neither_the_number_nor_written_as_it(
    value: int | str,
) -> None:
    near = float(value)
    shape = RowShape(
        dimensions=(DimensionShape(name="n", type=ColumnType.DOUBLE, multi_value="array"),)
    )
    with connection() as con:
        counts = load_rows_from_arrow(
            con,
            pa.table({"t": [AT], "n": [f"{value}"]}),
            shape,
            origin="rows",
            timestamp=TimestampSpec(column="t"),
        )
    written = Decimal(repr(near)) if abs(near) >= 2**53 else Decimal(value)
    is_same = Decimal(value) in {Decimal(near), written} or (near != near)  # noqa: PLR0124 - NaN
    assert (mark(Change.DIGITS, "n") in counts.changed) == (not is_same)
