"""Parquet, ORC and frames."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from carnac.core.time.intervals import Interval, interval_set
from carnac.errors import Invalid
from carnac.rows.read.inputs import InputFile
from carnac.rows.read.reading import load_rows_from_arrow
from carnac.rows.read.tables import arrow_table
from carnac.specs.ingest.inputs import FlattenSpec, OrcFormat, ParquetFormat
from tests.support.frames import polars
from tests.unit.rows.loading import STAMP, Loaded, connection, load_files, look, shape

TABLE = pa.table(
    {
        "t": pa.array([1, 2, None, 4], pa.int64()),
        "s": pa.array(["a", None, "c", "d"]),
        "n": pa.array(["1", "x", "3", "4"]),
        "tags": pa.array([["b", "a"], None, [], ["c"]], pa.list_(pa.string())),
        "at": pa.array(
            [{"zone": {"id": i}, "all": [{"v": i}, {"v": -i}]} for i in range(4)],
            pa.struct(
                [
                    ("zone", pa.struct([("id", pa.int64())])),
                    ("all", pa.list_(pa.struct([("v", pa.int32())]))),
                ]
            ),
        ),
    }
)
KINDS = {"s": "string", "n": "long", "tags": "array<string>", "at": "json", "absent": "double"}
FORMATS = {"parquet": ParquetFormat, "orc": OrcFormat}


def write(path: Path, table: pa.Table) -> InputFile:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=3)
    else:
        pyarrow.orc.write_table(table, path)
    return InputFile(url=str(path), size_bytes=path.stat().st_size)


def load(path: Path, table: pa.Table, kinds: dict[str, str], **options: Any) -> Loaded:
    file_format = FORMATS[path.suffix[1:]].model_validate(options)
    return load_files([write(path, table)], shape(kinds), file_format=file_format)


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_typed_rows_and_rejected_ones(tmp_path: Path, kind: str) -> None:
    found = load(tmp_path / f"a.{kind}", TABLE, KINDS)
    assert [(row["__time"], row["s"], row["n"], row["tags"]) for row in found.rows] == [
        (1, "a", 1, ["b", "a"]),
        (4, "d", 4, ["c"]),
    ]
    assert found.rows[0]["at"] == '{"zone":{"id":0},"all":[{"v":0},{"v":0}]}'
    assert found.column("absent") == [None, None]
    (bad, missing) = found.rejected
    assert (bad[0], bad[1], bad[3]) == (2, None, "not a long: n")
    assert '"n":"x"' in bad[2]
    assert (missing[0], missing[3]) == (3, "missing timestamp")


@pytest.mark.parametrize("name", ["file_row_number", "File_Row_Number"])
def test_rows_have_their_numbers_beside_a_column_with_the_engines_name_for_them(
    tmp_path: Path, name: str
) -> None:
    table = TABLE.append_column(name, pa.array([9, 9, 9, 9]))
    found = load(tmp_path / "a.parquet", table, {"n": "long", name: "long"})
    assert [(line, reason) for line, _, _, reason in found.rejected] == [
        (2, "not a long: n"),
        (3, "missing timestamp"),
    ]
    assert found.column(name) == [9, 9]


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_nested_columns_by_path(tmp_path: Path, kind: str) -> None:
    fields = [
        {"type": "path", "name": "id", "expr": "$.at.zone.id"},
        {"type": "path", "name": "second", "expr": "$.at.all[1].v"},
        {"type": "path", "name": "far", "expr": "$.at.all[9].v"},
        {"type": "path", "name": "no", "expr": "$.at.zone.no"},
        {"type": "path", "name": "tag", "expr": "$.tags[0]"},
    ]
    wanted = {"id": "long", "second": "long", "far": "long", "no": "string", "tag": "string"}
    found = load(
        tmp_path / f"a.{kind}",
        TABLE,
        {**wanted, "s": "string"},
        flattenSpec=FlattenSpec.model_validate({"fields": fields}),
    )
    assert found.rows[1] == {
        "__time": 2,
        "id": 1,
        "second": -1,
        "far": None,
        "no": None,
        "tag": None,
        "s": None,
    }
    assert found.column("tag") == ["b", None, "c"]


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_damaged_file_is_one_error_that_names_it(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    file = write(path, TABLE)
    for damaged in (path.read_bytes()[:-20], b"no such thing", path.read_bytes()[:4]):
        path.write_bytes(damaged)
        with pytest.raises(Invalid, match=rf"file .*a\.{kind} cannot be read: "):
            load_files([file], shape(KINDS), file_format=FORMATS[kind]())


def test_damage_inside_of_a_parquet_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"t": list(range(10_000)), "s": [f"text {at}" for at in range(10_000)]})
    file = write(path, table)
    data = bytearray(path.read_bytes())
    data[200:2000] = b"\xff" * 1800
    path.write_bytes(bytes(data))
    with pytest.raises(Invalid, match=r"input .*a\.parquet cannot be read: "):
        load_files([file], shape({"s": "string"}), file_format=ParquetFormat())


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_files_without_rows_or_bytes(tmp_path: Path, kind: str) -> None:
    assert load(tmp_path / f"a.{kind}", TABLE.slice(0, 0), KINDS).counts.rows_read == 0
    empty = InputFile(url=str(tmp_path / "none"), size_bytes=0)
    assert load_files([empty], shape(KINDS), file_format=FORMATS[kind]()).rows == []


def test_schemas_may_differ_from_file_to_file(tmp_path: Path) -> None:
    files = [
        write(tmp_path / "a.parquet", pa.table({"t": [1], "n": pa.array([5], pa.int32())})),
        write(tmp_path / "b.parquet", pa.table({"t": [2], "n": ["6"], "s": ["x"]})),
        write(tmp_path / "c.parquet", pa.table({"t": [3], "n": [7.9]})),
    ]
    found = load_files(files, shape({"n": "long", "s": "string"}), file_format=ParquetFormat())
    assert [(row["n"], row["s"]) for row in found.rows] == [(5, None), (6, "x"), (7, None)]


def test_bytes_are_text_only_if_the_spec_says_so(tmp_path: Path) -> None:
    table = pa.table({"t": [1], "s": pa.array([b"ab"], pa.binary())})
    path = tmp_path / "a.parquet"
    assert load(path, table, {"s": "string"}).column("s") == ["YWI="]
    assert load(path, table, {"s": "string"}, binaryAsString=True).column("s") == ["ab"]


def frame(data: object, within: Any = None, first_row: int = 1) -> Loaded:
    with connection() as con:
        counts = load_rows_from_arrow(
            con,
            arrow_table(data) if not isinstance(data, pa.RecordBatchReader) else data,
            shape({"s": "string", "n": "long"}),
            origin="frame",
            timestamp=STAMP,
            within=within,
            first_row=first_row,
        )
        return look(con, counts)


ROWS = {"t": [1, 2, 3], "s": ["a", None, "c"], "n": ["1", "x", "3"]}


@pytest.mark.parametrize(
    "make",
    [
        pa.table,
        lambda rows: pa.table(rows).to_reader(max_chunksize=1),
        pa.RecordBatch.from_pydict,
        pd.DataFrame,
        lambda rows: polars().DataFrame(rows),
    ],
    ids=["table", "reader", "batch", "pandas", "polars"],
)
def test_frames_of_every_kind(make: Any) -> None:
    found = frame(make(ROWS))
    assert found.rows == [
        {"__time": 1, "s": "a", "n": 1},
        {"__time": 3, "s": "c", "n": 3},
    ]
    assert [(line, reason) for line, _, _, reason in found.rejected] == [(2, "not a long: n")]


def test_frame_of_another_kind_is_refused() -> None:
    with pytest.raises(Invalid, match="rows of type dict cannot be read"):
        frame(ROWS)


def test_rows_of_frames_are_counted_from_where_the_caller_says() -> None:
    found = frame(pa.table(ROWS), first_row=100)
    assert [line for line, *_ in found.rejected] == [101]


def test_instants_and_intervals_of_frames() -> None:
    noon = dt.datetime(2013, 1, 31, 12, tzinfo=dt.UTC)
    days = [noon + dt.timedelta(days=at) for at in range(3)]
    found = frame(
        pd.DataFrame({"t": days, "n": [1, 2, 3]}),
        within=interval_set([Interval(1359676800000, 1359763200000)]),
    )
    assert [(row["__time"], row["n"]) for row in found.rows] == [(1359720000000, 2)]
    assert found.counts.rows_thrown_away == 2
