from __future__ import annotations

import csv
import io
import json
import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from carnac.cli.answers import table_columns
from carnac.errors import Invalid
from carnac.query.export.values import (
    csv_line,
    iterate_rows,
    to_json_value,
    to_text,
)

MOMENT = datetime(2013, 1, 1, 5, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "text", "in_csv", "in_json"),
    [
        (None, "null", '""', None),
        ("", "", '""', ""),
        ('a"b', 'a"b', '"a""b"', 'a"b'),
        (True, "true", "true", True),
        (12, "12", "12", 12),
        (0.1, "0.1", "0.1", 0.1),
        (math.nan, "NaN", "NaN", "NaN"),
        (-math.inf, "-Infinity", "-Infinity", "-Infinity"),
        ("é", "é", "é", "é"),
        (b"\x01\xff", "0x01ff (2 bytes)", "Af8=", "Af8="),
        (
            MOMENT,
            "2013-01-01T05:15:00.000Z",
            "2013-01-01T05:15:00.000Z",
            "2013-01-01T05:15:00.000Z",
        ),
        (date(2013, 1, 1), "2013-01-01", "2013-01-01", "2013-01-01"),
        (Decimal("1.50"), "1.50", "1.50", "1.50"),
        ([1, None, "a"], '[1, null, "a"]', '"[1, null, ""a""]"', [1, None, "a"]),
        (pa.MonthDayNano([1, -2, 0]), "P1M-2D", None, "P1M-2D"),
        (pa.MonthDayNano([0, 0, -1_500_000_000]), "PT-1.5S", None, "PT-1.5S"),
        (pa.MonthDayNano([0, 1, 3_600_000_000_000]), "P1DT3600S", None, "P1DT3600S"),
        (pa.MonthDayNano([0, 0, 0]), "PT0S", None, "PT0S"),
        (
            {"a": MOMENT},
            '{"a": "2013-01-01T05:15:00.000Z"}',
            '"{""a"": ""2013-01-01T05:15:00.000Z""}"',
            {"a": "2013-01-01T05:15:00.000Z"},
        ),
    ],
)
def test_values_in_every_form(
    value: object, text: str, in_csv: str | None, in_json: object
) -> None:
    assert to_text(value) == text
    assert csv_line([value]) == (text if in_csv is None else in_csv)
    assert to_json_value(value) == in_json
    json.dumps(to_json_value(value), allow_nan=False)


def test_times_are_shown_in_utc_with_the_digits_they_have() -> None:
    in_paris = datetime(2013, 7, 1, 2, 0, 0, 1_500, tzinfo=timezone(timedelta(hours=2)))
    assert to_text(in_paris) == "2013-07-01T00:00:00.001500Z"
    assert to_text(MOMENT.replace(tzinfo=None)) == "2013-01-01T05:15:00.000"


def test_long_bytes_are_cut_in_tables_and_whole_in_json() -> None:
    assert to_text(bytes(40)) == f"0x{'00' * 12}… (40 bytes)"
    assert len(str(to_json_value(bytes(40)))) == 56


def test_rows_of_a_table_come_batch_by_batch_with_nanoseconds_cut() -> None:
    times = pa.array([1_357_017_300_000_000_001], pa.timestamp("ns", "UTC"))
    table = pa.table({"t": times, "n": pa.array([7], pa.int64()), "s": ["x"]})
    assert list(iterate_rows(table)) == [(MOMENT, 7, "x")]
    assert [column.is_number for column in table_columns(table)] == [False, True, False]
    assert list(iterate_rows(table.slice(0, 0))) == []


def test_csv_tells_null_from_empty_text() -> None:
    rows = [[None, "", "a,b", 'say "x"', "two\nlines", "r\r", " ", 1.5], [None], [""]]
    lines = [csv_line(row) for row in rows]
    assert lines == [',"","a,b","say ""x""","two\nlines","r\r", ,1.5', '""', '""']
    assert next(csv.reader(io.StringIO(lines[0], newline=""))) == [
        "" if value is None else str(value) for value in rows[0]
    ]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([-1_000_000], pa.date32()),
        pa.array([2**62], pa.timestamp("us")),
        pa.array([[2**62]], pa.list_(pa.timestamp("us", "UTC"))),
    ],
)
def test_a_time_that_python_has_not_is_one_sentence(values: pa.Array) -> None:
    with pytest.raises(Invalid, match="column 't' holds a time outside of the years 1 to 9999"):
        list(iterate_rows(pa.table({"t": values})))
