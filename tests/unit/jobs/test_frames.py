"""From rows that a caller hands over to an Arrow table that the engine reads."""

from __future__ import annotations

import datetime as dt
import decimal
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from carnac.errors import Invalid
from carnac.jobs.ingest.readers import stage_rows
from carnac.rows.read.tables import arrow_table
from tests.support.frames import polars

HALVES = np.array([1.5, -2.0], dtype=np.float16)
UNION = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1]), pa.array(["x"])])


def test_halves_of_floats_are_floats() -> None:
    for rows in (pa.table({"h": pa.array(HALVES)}), pd.DataFrame({"h": HALVES})):
        table = arrow_table(rows)
        assert table.schema.field("h").type == pa.float32()
        assert table.column("h").to_pylist() == [1.5, -2.0]


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["a"]).dictionary_encode(),
        pa.RunEndEncodedArray.from_arrays([1], ["a"]),
        pa.array([[("k", [1])]], pa.map_(pa.string(), pa.list_(pa.int64()))),
        pa.array([{"a": {"b": [1]}}]),
        pa.array([[1, 2]], pa.list_(pa.int64(), 2)),
        pa.array([uuid.UUID(int=1).bytes], pa.uuid()),
        pa.array([1], pa.duration("ns")),
        pa.array([pa.MonthDayNano([1, 2, 3])]),
        pa.nulls(1),
    ],
)
def test_every_other_type_is_left_as_it_is_and_read(array: pa.Array) -> None:
    table = arrow_table(pa.table({"c": array}))
    assert table.schema.field("c").type == array.type
    with duckdb.connect() as con:
        con.register("t", table)
        assert len(con.sql("SELECT c FROM t").fetchall()) == 1


def test_dicts_may_hold_what_pandas_writes_for_null() -> None:
    """A DataFrame as dicts has NaN among texts, and NaT among times; among numbers, NaN is a number."""
    frame = pd.DataFrame({"t": ["2024-01-01", None], "s": ["a", np.nan], "n": [1.5, np.nan]})
    frame["t"] = pd.to_datetime(frame["t"])
    found = arrow_table(frame.to_dict("records"))
    assert found["s"].to_pylist() == ["a", None]
    assert found["t"].null_count == 1
    assert found["n"].null_count == 0


def test_a_named_index_of_pandas_is_a_column_and_another_one_is_not() -> None:
    frame = pd.DataFrame({"t": [1, 2], "d": ["a", "b"]})
    assert arrow_table(frame.set_index("t")).to_pydict() == {"t": [1, 2], "d": ["a", "b"]}
    assert arrow_table(frame.set_index(["t", "d"])).column_names == ["t", "d"]
    assert arrow_table(frame).column_names == ["t", "d"]
    assert arrow_table(frame.set_index("t", drop=False)).column_names == ["t", "d"]


@pytest.mark.parametrize("zone", [None, "Europe/Paris"])
def test_an_index_of_times_without_a_name_is_not_left_out_in_silence(zone: str | None) -> None:
    frame = pd.DataFrame({"v": [1, 2]}, index=pd.date_range("2024-01-01", periods=2, tz=zone))
    with pytest.raises(
        Invalid, match=r"index .* has no name; rename_axis\('time'\) makes a column"
    ):
        arrow_table(frame)
    assert arrow_table(frame.rename_axis("time")).column_names == ["time", "v"]
    assert arrow_table(frame.reset_index(drop=True)).column_names == ["v"]


def test_what_arrow_says_in_two_parts_is_one_sentence() -> None:
    with pytest.raises(Invalid) as caught:
        arrow_table(pd.DataFrame({"t": [1, 2], "m": ["a", 5]}))
    assert caught.value.message == (
        "the rows cannot be read as a table: Conversion failed for column m with type object: Expected bytes, "
        "got a 'int' object; give each column one name and one type"
    )


DAY = dt.date(2024, 1, 1)
ALOFT = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
NOON = ALOFT.replace(tzinfo=None)


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ([DAY, NOON], "holds dates and times"),
        ([NOON, ALOFT], "holds times with and without a time zone"),
        ([ALOFT, None, NOON], "holds times with and without a time zone"),
        ([NOON, 5], "holds numbers and times"),
        ([DAY, 5], "holds dates and numbers"),
        ([dt.timedelta(1), 5], "holds durations and numbers"),
        (["x", b"y"], "holds bytes and texts"),
        ([[DAY], [NOON]], "holds dates and times"),
    ],
)
def test_values_that_would_become_others_are_told_by_their_column(
    values: list[object], what: str
) -> None:
    """Arrow takes the hour from a time that stands behind a date, and shifts one with a zone behind one without."""
    for rows in (
        [{"v": one} for one in values],
        pd.DataFrame({"v": pd.Series(values, dtype="object")}),
    ):
        with pytest.raises(Invalid, match=f"column 'v' {what}"):
            arrow_table(rows)
    with pytest.raises(Invalid, match=r"column 'v(\.part)?'"):
        arrow_table([{"v": {"part": one}} for one in values])


def test_a_column_of_dicts_that_mixes_types_is_told() -> None:
    with pytest.raises(
        Invalid, match="column 'n': it holds int beside str; give each column one name"
    ):
        arrow_table([{"n": 1}, {"n": "x"}])


def test_nulls_of_pandas_go_with_all_times() -> None:
    for values in ([ALOFT, pd.NaT, None, float("nan")], [pd.NaT, NOON], [DAY, pd.NaT, pd.NA]):
        found = arrow_table([{"v": one} for one in values])["v"]
        assert found.null_count == sum(bool(pd.isna(one)) for one in values)


@pytest.mark.parametrize("kind", [pa.string(), pa.list_(pa.string())])
def test_pieces_of_a_table_may_have_dictionaries_of_their_own(
    tmp_path: Path, kind: pa.DataType
) -> None:
    pieces = [pa.array([["a", "b"]]), pa.array([["b", "c"]])]
    if kind == pa.string():
        chunks = [piece.flatten().dictionary_encode() for piece in pieces]
    else:
        chunks = [
            pa.ListArray.from_arrays(piece.offsets, piece.values.dictionary_encode())
            for piece in pieces
        ]
    table = pa.table({"d": pa.chunked_array(chunks)})
    path = tmp_path / "rows.arrow"
    stage_rows(table, path.as_uri())
    with pa.memory_map(str(path)) as file:
        assert pa.ipc.open_file(file).read_all().to_pydict() == table.to_pydict()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pa.table([[1], [2]], names=["v", "v"]), "have the column v more than once"),
        (lambda: pd.DataFrame([[1, 2]], columns=["a", "a"]), "Duplicate column names found"),
        (lambda: pd.DataFrame({"s": pd.arrays.SparseArray([0, 1])}), "Sparse pandas data"),
        (lambda: pd.DataFrame({"o": [1, "x"]}), "give each column one name and one type"),
        (lambda: pd.DataFrame({"o": [object()]}), "did not recognize Python value type"),
        (pd.DataFrame, "show no columns"),
        (lambda: polars().DataFrame(), "show no columns"),
        (
            lambda: polars().DataFrame({"o": polars().Series([object()], dtype=polars().Object)}),
            "column o holds Python objects",
        ),
        (
            lambda: polars().DataFrame({"i": polars().Series([1], dtype=polars().Int128)}),
            "column i holds numbers of 128 bits",
        ),
        (
            lambda: pd.DataFrame({"p": pd.period_range("2024-01", periods=2, freq="M")}),
            "column 'p' holds periods of pandas, of which dt.to_timestamp\\(\\) makes times",
        ),
        (
            lambda: pa.table({"d": pa.array([decimal.Decimal(1)], pa.decimal256(50, 2))}),
            r"column 'd' of type decimal256\(50, 2\) cannot be read",
        ),
        (
            lambda: pa.table({"u": UNION}),
            "column 'u' of type sparse_union<0: int64=0, 1: string=1> cannot be read",
        ),
        (lambda: [{"t": "x"}, {"t": "y", 1: 2}], "row 2 has a column named by 1, which is no text"),
        (lambda: [{None: 2}], "row 1 has a column named by None, which is no text"),
        (lambda: [{("a", "b"): 2}], "row 1 has a column named by .'a', 'b'., which is no text"),
        (lambda: [{"n": 2**70}], "a number of more than 64 bits"),
        (lambda: pd.DataFrame({"n": [2**70]}), "a number of more than 64 bits"),
        (lambda: pd.Series([1]), "rows of type Series cannot be read; give a Spark, pandas"),
        (lambda: polars().Series([1]), "rows of type Series cannot be read; give a Spark, pandas"),
        (lambda: [{"t": 1}, 2], "row 2 is of type int, not a dict of column and value"),
    ],
)
def test_rows_that_are_no_table_are_one_clear_error(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(Invalid) as caught:
        arrow_table(make())
    assert re.search(message, caught.value.message)
    assert "\n" not in caught.value.message
