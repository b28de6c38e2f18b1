"""Rows as bytes: heads, separators, what ends them, and values of every type."""

from __future__ import annotations

import csv
import io
import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carnac.api.sql.formats import ResultFormat, Shape, render, render_arrow

ROWS = pa.table({"a": ["x", None], "n": pa.array([1, 2], pa.int64())})
NONE = ROWS.slice(0, 0)


def text_of(table: pa.Table, names: list[str] | None = None, **shape: object) -> str:
    """The body of a table that comes in batches of one row."""
    how = Shape(**shape)  # type: ignore[arg-type]
    batches = table.to_batches(max_chunksize=1)
    return b"".join(render(how, names or table.column_names, table.schema, batches)).decode()


@pytest.mark.parametrize(
    ("form", "rows", "nothing"),
    [
        ("object", '[{"a":"x","n":1},{"a":null,"n":2}]\n', "[]\n"),
        ("array", '[["x",1],[null,2]]\n', "[]\n"),
        ("objectLines", '{"a":"x","n":1}\n{"a":null,"n":2}\n\n', "\n\n"),
        ("arrayLines", '["x",1]\n[null,2]\n\n', "\n\n"),
        ("csv", "x,1\n,2\n\n", "\n"),
    ],
)
def test_each_format_has_its_separators_and_its_end(form: str, rows: str, nothing: str) -> None:
    assert text_of(ROWS, form=ResultFormat(form)) == rows
    assert text_of(NONE, form=ResultFormat(form)) == nothing


@pytest.mark.parametrize(
    ("form", "names", "both"),
    [
        ("object", '[{"a":null,"n":null}]\n', '[{"a":%s,"n":%s}]\n'),
        ("array", '[["a","n"]]\n', '[["a","n"],["STRING","LONG"],["VARCHAR","BIGINT"]]\n'),
        ("objectLines", '{"a":null,"n":null}\n\n', '{"a":%s,"n":%s}\n\n'),
        ("arrayLines", '["a","n"]\n\n', '["a","n"]\n["STRING","LONG"]\n["VARCHAR","BIGINT"]\n\n'),
        ("csv", "a,n\n\n", "a,n\nSTRING,LONG\nVARCHAR,BIGINT\n\n"),
    ],
)
def test_headers_come_first_also_where_no_row_follows(form: str, names: str, both: str) -> None:
    of_type = ('{"type":"STRING","sqlType":"VARCHAR"}', '{"type":"LONG","sqlType":"BIGINT"}')
    shape = {"form": ResultFormat(form), "has_header": True}
    assert text_of(NONE, **shape) == names
    expected = both % of_type if "%" in both else both
    assert text_of(NONE, **shape, has_types=True, has_sql_types=True) == expected


MOMENT = datetime(2015, 9, 12, 0, 46, 58, 771_999, UTC)


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (MOMENT, pa.timestamp("us", "UTC"), '"2015-09-12T00:46:58.771Z"'),
        (MOMENT.replace(tzinfo=None), pa.timestamp("ns"), '"2015-09-12T00:46:58.771Z"'),
        (
            datetime(1969, 12, 31, 23, 59, 59, 999_900, UTC),
            pa.timestamp("us", "UTC"),
            '"1969-12-31T23:59:59.999Z"',
        ),
        (datetime(1, 1, 1, tzinfo=UTC), pa.timestamp("us", "UTC"), '"0001-01-01T00:00:00.000Z"'),
        (253_402_300_800_000, pa.timestamp("ms"), '"10000-01-01T00:00:00.000Z"'),
        (MOMENT, pa.timestamp("s", "UTC"), '"2015-09-12T00:46:58.000Z"'),
        (date(2020, 2, 3), pa.date32(), '"2020-02-03T00:00:00.000Z"'),
        (2**63 - 1, pa.int64(), "9223372036854775807"),
        (Decimal(2**70), pa.decimal128(38, 0), str(2**70)),
        (Decimal("1.50"), pa.decimal128(5, 2), "1.50"),
        (True, pa.bool_(), "true"),
        (0.1, pa.float32(), "0.1"),
        (1e300, pa.float64(), "1e+300"),
        (float("nan"), pa.float64(), '"NaN"'),
        (float("-inf"), pa.float32(), '"-Infinity"'),
        ([1, None], pa.list_(pa.int64()), '"[1,null]"'),
        ({"k": "v"}, pa.struct({"k": pa.string()}), '"{\\"k\\":\\"v\\"}"'),
        (b"\x01\x02", pa.binary(), '"AQI="'),
        (timedelta(seconds=1), pa.duration("ms"), '"1.000 s"'),
        ('a\\b"c\n', pa.string(), '"a\\u005cb\\"c\\n"'),
        (None, pa.null(), "null"),
    ],
)
def test_values_are_written_as_druid_writes_them(
    value: object, kind: pa.DataType, expected: str
) -> None:
    table = pa.table({"v": pa.array([value, None], kind)})
    assert text_of(table, form=ResultFormat.ARRAY) == f"[[{expected}],[null]]\n"


def test_in_a_zone_instants_have_its_offset() -> None:
    table = pa.table({"t": pa.array([MOMENT], pa.timestamp("ms", "UTC"))})
    shape = {"form": ResultFormat.CSV}
    assert (
        text_of(table, **shape, zone=ZoneInfo("Asia/Kolkata"))
        == "2015-09-12T06:16:58.771+05:30\n\n"
    )
    assert text_of(table, **shape, zone=ZoneInfo("Europe/London")).startswith(
        "2015-09-12T01:46:58.771+01:00"
    )


def test_lists_are_json_where_a_client_wants_them_so() -> None:
    table = pa.table({"l": [["x\\y", None]], "s": [{"a": [1]}]})
    shape = {"form": ResultFormat.ARRAY, "stringifies": False}
    assert text_of(table, **shape) == '[[["x\\u005cy",null],"{\\"a\\":[1]}"]]\n'


def test_names_that_repeat_are_kept_where_they_can_be() -> None:
    table = pa.table({"a": [1], "b": [2]})
    assert text_of(table, ["a", "a"]) == '[{"a":1,"a0":2}]\n'
    assert text_of(table, ["a", "a"], form=ResultFormat.CSV, has_header=True) == "a,a\n1,2\n\n"


def test_a_field_that_is_alone_and_empty_is_quoted() -> None:
    assert text_of(pa.table({"a": [None, ""]}), form=ResultFormat.CSV) == '""\n""\n\n'


TEXTS = st.lists(st.tuples(st.none() | st.text(), st.none() | st.text()), max_size=5)


@given(TEXTS)
def test_what_was_written_can_be_read(rows: list[tuple[str | None, str | None]]) -> None:
    columns = [pa.array([row[place] for row in rows], pa.string()) for place in range(2)]
    table = pa.table(columns, names=["a", "b"])
    assert json.loads(text_of(table, form=ResultFormat.ARRAY)) == [list(row) for row in rows]
    lines = text_of(table, form=ResultFormat.ARRAY_LINES).split("\n")
    assert [json.loads(line) for line in lines if line] == [list(row) for row in rows]


SAFE = st.text(st.characters(exclude_characters="\r\x00", exclude_categories=["Cs"]))


@given(st.lists(st.tuples(SAFE, SAFE), max_size=5))
def test_csv_can_be_read(rows: list[tuple[str, str]]) -> None:
    columns = [pa.array([row[place] for row in rows], pa.string()) for place in range(2)]
    body = text_of(pa.table(columns, names=["a", "b"]), form=ResultFormat.CSV)
    found = list(csv.reader(io.StringIO(body, newline="")))
    assert [tuple(row) for row in found if row] == rows


def test_arrow_keeps_types_and_takes_the_names() -> None:
    pieces = list(render_arrow(["x", "y"], ROWS.schema, ROWS.to_batches(max_chunksize=1)))
    read = pa.ipc.open_stream(b"".join(pieces)).read_all()
    assert read.column_names == ["x", "y"]
    assert read.schema.types == ROWS.schema.types
    assert read.to_pydict() == {"x": ["x", None], "y": [1, 2]}


@given(st.lists(st.floats(width=64) | st.none(), min_size=1, max_size=5))
def test_doubles_are_written_as_python_writes_them(values: list[float | None]) -> None:
    told = [repr(one) for one in values if one is not None and math.isfinite(one)]
    text = text_of(pa.table({"x": pa.array(values, pa.float64())}), form=ResultFormat.ARRAY_LINES)
    rows = [line[1:-1] for line in text.split()]
    assert [row for row in rows if row != "null" and not row.startswith('"')] == told
    assert len(rows) == len(values)
