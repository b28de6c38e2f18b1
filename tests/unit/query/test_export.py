"""Rows to files: what DuckDB makes of them is what Python would make; types and limits hold in every form."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from carnac.errors import Invalid, Unavailable
from carnac.query import QueryEngine
from carnac.query.export import writing
from tests.support.segments import MemoryCatalog

VALUES = {
    "doubles": "0.1::DOUBLE, 1e16::DOUBLE, -0.0::DOUBLE, 'nan'::DOUBLE, '-inf'::DOUBLE, 1.5::FLOAT, 0.1::FLOAT",
    "numbers": "true, 5::TINYINT, -5::BIGINT, 12345678901234567890123::HUGEINT, 1.50::DECIMAL(9, 2)",
    "texts": """'', 'a,b', 'say "x"', 'two' || chr(10) || 'lines', chr(13), ' ', 'é' || chr(1)""",
    "times": (
        "TIMESTAMPTZ '2013-01-01 05:15Z', TIMESTAMP '2013-01-01 05:15:00.000001', "
        "DATE '0001-01-01', DATE '9999-12-31'"
    ),
    "bytes": "'ab'::BLOB, ''::BLOB",
    "nulls": "NULL::DOUBLE, NULL::BIGINT, NULL::VARCHAR, NULL::TIMESTAMPTZ, NULL::DATE, NULL::BLOB",
    "alone": "NULL::VARCHAR",
    "one text": "''",
    "repeated": '1 AS a, 2 AS "a", 3 AS "it\'s"',
    "nested": "[1, 2], {'a': DATE '2013-01-01'}, INTERVAL 1 DAY, TIME '01:02:03'",
}


def exported(
    engine: QueryEngine,
    catalog: MemoryCatalog,
    sql: str,
    form: str,
    rows_max: int | None = None,
) -> tuple[bytes, int, bool]:
    target = io.BytesIO()
    done = engine.export_query(sql, catalog, target, form=form, rows_max=rows_max)
    return target.getvalue(), done.rows, done.is_cut


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_lines_by_duckdb_say_what_lines_by_python_say(
    engine: QueryEngine,
    catalog: MemoryCatalog,
    kind: str,
    form: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sql = f"SELECT {VALUES[kind]} FROM flights LIMIT 2"
    fast, rows, _ = exported(engine, catalog, sql, form)
    monkeypatch.setattr(
        writing, f"{'csv' if form == 'csv' else 'json'}_expression", lambda *_: None
    )
    slow, _, _ = exported(engine, catalog, sql, form)
    assert rows == 2
    if form == "csv":
        assert fast == slow
    else:
        assert [json.loads(line) for line in fast.splitlines()] == [
            json.loads(line) for line in slow.splitlines()
        ]


@pytest.mark.parametrize("time", ["DATE '-0001-01-01'", "TIMESTAMPTZ '12013-01-01 00:00Z'"])
def test_a_time_beyond_the_years_of_iso_8601_is_one_sentence(
    engine: QueryEngine, catalog: MemoryCatalog, time: str
) -> None:
    with pytest.raises(Invalid, match="outside of the years 1 to 9999; select it as text"):
        exported(engine, catalog, f"SELECT {time} AS t FROM flights", "csv")


def test_types_are_kept_in_parquet_and_arrow(engine: QueryEngine, catalog: MemoryCatalog) -> None:
    sql = "SELECT __time, carrier, delay, sum(delay) OVER () AS s, 1 AS s FROM flights ORDER BY 1"
    parquet = pq.read_table(io.BytesIO(exported(engine, catalog, sql, "parquet")[0]))
    arrow = pa.ipc.open_file(io.BytesIO(exported(engine, catalog, sql, "arrow")[0])).read_all()
    assert parquet.equals(arrow)
    assert arrow.column_names == ["__time", "carrier", "delay", "s", "s_1"]
    assert arrow.schema.field("s").type == pa.int64()
    assert arrow.num_rows == 240
    with pytest.raises(Invalid, match="column 'h' holds whole numbers beyond 64 bits"):
        exported(
            engine,
            catalog,
            "SELECT 12345678901234567890123::HUGEINT AS h",
            "arrow",
        )


@pytest.mark.parametrize("value", ["max(__time) - min(__time)", "[INTERVAL 1 MONTH]"])
def test_a_type_that_parquet_has_not_is_one_sentence(
    engine: QueryEngine, catalog: MemoryCatalog, value: str
) -> None:
    sql = f"SELECT count(*) AS n, {value} AS v FROM flights"
    with pytest.raises(Invalid, match="column 'v' has a type that Parquet has not; select it as"):
        exported(engine, catalog, sql, "parquet")
    assert exported(engine, catalog, sql, "jsonl")[0].startswith(b'{"n":240,"v":')


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize(
    ("rows_max", "rows"), [(None, 240), (0, 0), (7, 7), (240, 240), (999, 240)]
)
def test_a_limit_of_rows_holds_in_every_form(
    engine: QueryEngine, catalog: MemoryCatalog, form: str, rows_max: int | None, rows: int
) -> None:
    data, written, is_cut = exported(engine, catalog, "SELECT * FROM flights", form, rows_max)
    assert (written, is_cut) == (rows, rows < 240)
    if form == "csv":
        found = len(list(csv.reader(io.StringIO(data.decode())))) - 1
    elif form == "jsonl":
        found = len(data.splitlines())
    elif form == "parquet":
        found = pq.read_table(io.BytesIO(data)).num_rows
    else:
        found = pa.ipc.open_file(io.BytesIO(data)).read_all().num_rows
    assert found == rows


def test_a_result_larger_than_the_memory_of_queries_is_written(
    engine: QueryEngine, catalog: MemoryCatalog, tmp_path: Path
) -> None:
    small = QueryEngine(engine._files.storage, threads=1, memory_limit_bytes=64 << 20)
    sql = "SELECT repeat('x', 100) AS s, a.delay FROM flights a, flights b, range(10) c"
    with pytest.raises(Unavailable, match="memory"):
        small.run_query(sql, catalog)
    with (tmp_path / "rows.csv").open("wb") as target:
        done = small.export_query(sql, catalog, target, form="csv")
    small.close()
    assert done.rows == 240 * 240 * 10
    assert (tmp_path / "rows.csv").stat().st_size > 57_000_000


def test_a_plan_can_be_written(engine: QueryEngine, catalog: MemoryCatalog) -> None:
    assert (
        b"PARQUET" in exported(engine, catalog, "EXPLAIN SELECT * FROM flights", "csv")[0].upper()
    )
