"""Rows that no spec describes: what is found in them, and what is asked."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import carnac
from carnac import Store
from carnac.errors import Invalid
from carnac.rows.infer.columns import NULL_WORDS
from carnac.specs.ingest.inference import Ambiguous
from tests.support.frames import polars

pytestmark = pytest.mark.usefixtures("shared_connection")

AT = "2024-03-04T09:00:00Z"
PAGE = "Carnac é" * 50


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with carnac.open(tmp_path / "store", create=True) as opened:
        yield opened


def types(store: Store, name: str = "t") -> dict[str, str]:
    rows = store.sql(f"DESCRIBE {name}").arrow().to_pylist()
    return {row["column_name"]: row["column_type"] for row in rows}


def rows(store: Store, what: str = "*", name: str = "t") -> list[tuple[object, ...]]:
    found = store.sql(f"SELECT {what} FROM {name} ORDER BY ALL").arrow().to_pylist()
    return [tuple(row.values()) for row in found]


ROWS = [
    {"time": AT, "page": "Menhir", "n": 1, "x": 1.5, "ok": True},
    {"time": "2024-03-05T09:00:00Z", "page": "Dolmen", "n": 2, "x": None, "ok": None},
]


@pytest.mark.parametrize(
    "make",
    [list, pa.Table.from_pylist, pd.DataFrame, lambda rows: polars().DataFrame(rows)],
    ids=["dicts", "arrow", "pandas", "polars"],
)
def test_tables_of_every_kind_show_their_types(store: Store, make: Callable[..., Any]) -> None:
    done = store.append("t", make(ROWS))
    assert done.segments_added == 2, "a time chunk for each day"
    expected = {"page": "VARCHAR", "n": "BIGINT", "x": "DOUBLE"}
    assert expected.items() <= types(store).items()
    if make is not pd.DataFrame:  # a column of True and None is one of objects there
        assert types(store)["ok"] == "BOOLEAN"
        assert rows(store, "count(*) FILTER (WHERE ok), count(ok)") == [(1, 1)]


def test_rows_that_were_read_say_how_they_are_written_back(store: Store) -> None:
    store.append("t", ROWS)
    read = store.sql("SELECT * FROM t").arrow()
    with pytest.raises(
        Invalid, match=r"has no column 'time', .*; rename __time to time, or give a spec"
    ):
        store.append("t", read)
    store.append("t", read.rename_columns(["time", *read.column_names[1:]]))
    assert rows(store, "count(*), count(DISTINCT n)") == [(4, 2)]


@pytest.mark.parametrize(
    "make",
    [list, pa.Table.from_pylist, pd.DataFrame, lambda rows: polars().DataFrame(rows)],
    ids=["dicts", "arrow", "pandas", "polars"],
)
def test_lists_without_elements_make_no_column_until_one_has_some(
    store: Store, make: Callable[..., Any]
) -> None:
    for tags in ([], [None], [1, 2]):
        store.append("t", make([{"time": AT, "tags": tags}]))
        assert ("tags" in types(store)) == (1 in tags)
    assert types(store)["tags"] == "BIGINT[]"


def test_csv_shows_types_dialect_and_what_stands_for_null(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "\ufeffzip;when;n;x;ok;id\n00501;2024-03-04 09:00:00;1;1.5;TRUE;12345678901234567890\n"
        "10001;2024-03-05 09:00:00;NA;-2e3;false;1\n"
    )
    store.append("t", path)
    assert types(store) == {
        "__time": "TIMESTAMP WITH TIME ZONE",
        "zip": "VARCHAR",
        "n": "BIGINT",
        "x": "DOUBLE",
        "ok": "BOOLEAN",
        "id": "VARCHAR",
    }
    assert rows(store, "zip, n, x, ok, id") == [
        ("00501", 1, 1.5, True, "12345678901234567890"),
        ("10001", None, -2000.0, False, "1"),
    ]
    store.append("t", path)  # by the declaration, delimiter included
    assert rows(store, "count(*), count(n)") == [(4, 2)]


def test_what_programs_write_for_null_is_null_among_numbers_and_kept_among_texts(
    store: Store, tmp_path: Path
) -> None:
    count, path = len(NULL_WORDS), tmp_path / "t.csv"
    names = [f"c{place}" for place in range(count)]
    for datasource, known in (("t", "22.59"), ("u", "low")):
        lines = (
            ("time", *names),
            ("2024-03-04 09:00:00", *[known] * count),
            ("2024-03-04 09:05:00", *NULL_WORDS),
        )
        path.write_text("".join(f"{','.join(line)}\n" for line in lines))
        store.append(datasource, path)
    assert {types(store)[name] for name in names} == {"DOUBLE"}
    assert rows(store, ", ".join(names)) == [(22.59,) * count, (None,) * count]
    found = store.sql(f"SELECT {', '.join(names)} FROM u ORDER BY __time").rows()
    assert [tuple(row.values()) for row in found] == [("low",) * count, tuple(NULL_WORDS)]


def test_an_array_of_json_is_rows_with_their_places(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(f' [\n {{"time": "{AT}", "n": [1]}},\n {{"time": "x", "n": []}}\n]\n')
    done = store.append("t", path, time={"column": "time", "format": "iso"})
    assert done.report is not None
    assert (done.report.rows_read, done.report.rejected.count) == (2, 1)
    assert done.report.rejected.examples[0]["line"] == "3"
    assert types(store)["n"] == "BIGINT[]"


def test_arrays_one_after_the_other_are_rows_with_their_places(
    store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "pages.json"
    path.write_text(
        f'[{{"time": "{AT}", "n": 1}}]\n[] [\n{{"time": "{AT}", "n": 2}},\n{{"n": 3}}]\n'
    )
    done = store.append("t", path, time={"column": "time", "format": "iso"})
    assert rows(store, "n") == [(1,), (2,)]
    assert done.report is not None
    (bad,) = done.report.rejected.examples
    assert (bad["line"], bad["reason"]) == ("4", "missing timestamp")


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 11_000])
@pytest.mark.parametrize(
    ("end", "place"),
    [
        ('{"n": 1,}]', (1, 8)),
        ('{"n": 1} {"n": 2}]', (1, 9)),
        ('{"n": 1', (1, 7)),
        ('{"n": 1},\n]', (2, 10)),
        ('{"n": 1}]\n, [{"n": 1}]', (2, 10)),
        ('{"n": 1}]\n{"n": 1}', (2, 10)),
        ('{"n": 1}] [{"n":', (1, 16)),
        (f'{{"n": {"[" * 100_000}', (1, 0)),
    ],
)
def test_a_mistake_in_an_array_is_named_and_nothing_is_published(
    store: Store, tmp_path: Path, end: str, place: tuple[int, int], count: int
) -> None:
    path = tmp_path / "t.json"
    start = "[" + f'{{"time": "{AT}", "page": "{PAGE}"}},\n' * count
    path.write_text(start + end)
    line, byte = count + place[0], len(start.encode()) + place[1]
    with pytest.raises(Invalid, match=f"t.json cannot be read: .* line {line}, at byte {byte} "):
        store.append("t", path)
    assert not store.datasources()


def test_a_decimal_keeps_its_digits_or_says_what_becomes_of_them(store: Store) -> None:
    seen: dict[str, tuple[str, str | None]] = {}

    def look(plan: object) -> None:
        seen.update({one.name: (one.type, one.becomes) for one in plan.inferred.columns})  # type: ignore[attr-defined]

    table = pa.table(
        {
            "time": [dt.datetime(2024, 3, 4, tzinfo=dt.UTC)],
            "short": pa.array([Decimal("1.25")], pa.decimal128(9, 2)),
            "whole": pa.array([Decimal(7)], pa.decimal128(18, 0)),
            "long": pa.array([Decimal("1.25")], pa.decimal128(38, 10)),
        }
    )
    store.append("t", table, on_plan=look)
    assert seen["short"] == ("double", None)
    assert seen["whole"] == ("long", None)
    assert seen["long"] == ("double", "DECIMAL(38,10) kept as double, about 16 digits")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["2024-03-04 10:00", "2024-03-05 11:00"], "iso"),
        ([1709546400, 1709632800], "posix"),
        ([1709546400000, 1709632800000], "millis"),
        ([1709546400.25, 1709632800.5], "ruby"),
        (["25/12/2024", "01/02/2024"], "d/M/yyyy"),
        (["12/25/2024", "01/02/2024"], "M/d/yyyy"),
        (["Jan 1 2000", "Feb 1 2000"], "MMM d yyyy"),
        (["04/Mar/2024:10:00:00 +0100"], "dd/MMM/yyyy:HH:mm:ss Z"),
        ([20240304, 20240305], "yyyyMMdd"),
        (["1565", "1820"], "yyyy"),
        (["1950.0", "1951.0"], "yyyy"),
        ([1950.0, 1951.0], "yyyy"),
        (["1709546400", "1709632800"], "posix"),
    ],
)
def test_formats_of_times_are_found(store: Store, values: list[object], expected: str) -> None:
    chosen: list[str] = []
    store.append(
        "t",
        [{"time": value, "n": 1} for value in values],
        on_plan=lambda plan: chosen.append(plan.spec.timestamp.format),
    )
    assert chosen == [expected]
    assert rows(store, "count(*)") == [(len(values),)]


@pytest.mark.parametrize(
    ("row", "question", "choices"),
    [
        ({"pickup_at": AT, "dropoff_at": AT}, "which column", ("pickup_at", "dropoff_at")),
        ({"name": "a", "n": 5}, "no column", ("name", "n")),
        ({"time": "01/02/2024"}, "'01/02/2024' in column 'time'", ("M/d/yyyy", "d/M/yyyy")),
        ({"time": 1.7e8}, "'170000000.0' in column", ("posix", "millis", "micro", "nano")),
        ({"time": 0.71, "n": 5}, "no column of the rows is plainly the time", ("time", "n")),
        ({"year": "1920-21"}, "no column of the rows is plainly the time", ("year",)),
    ],
    ids=["two columns", "none", "day or month", "unit", "duration", "span of years"],
)
def test_what_is_not_plain_is_asked_and_nothing_is_published(
    store: Store, row: dict[str, object], question: str, choices: tuple[str, ...]
) -> None:
    with pytest.raises(Ambiguous, match=question) as caught:
        store.append("t", [row])
    assert caught.value.choices == choices
    assert store.head().revision == 0
    answer = {caught.value.option: choices[0]}
    if "no column" in question:
        answer = {"missingValue": "2024-01-01"}
    store.append("t", [row], time=answer)
    assert rows(store, "count(*)") == [(1,)]


@pytest.mark.parametrize(
    "stray", ["n/a", "0999-12-31", "3000-01-01"], ids=["no time", "early", "late"]
)
def test_a_column_with_too_few_times_is_told_by_a_value_that_is_none(
    store: Store, stray: str
) -> None:
    days = [{"time": f"2024-01-{day:02}"} for day in range(1, 20)]
    strays = [{"time": f"{stray}T00:00:0{number}"} for number in range(4)]
    told = f"'{stray}T00:00:0[0-3]' in column 'time' is no time of the years 1000 to 2999 in a format that is known"
    with pytest.raises(Ambiguous, match=told):
        store.append("t", days + strays, time="time")
    store.append("t", days + strays, time={"column": "time", "format": "iso"})
    assert rows(store, "count(*)") == [(19 if stray == "n/a" else 23,)]


@pytest.mark.parametrize(
    ("time", "message"),
    [
        ({"format": "7"}, "wrong time: pattern '7' has no letters"),
        ({"missingValue": "31/12/2024"}, "wrong time: missingValue: "),
        ({"timeZone": "Mars"}, "wrong time: timeZone: "),
    ],
)
def test_a_wrong_time_is_named(store: Store, time: dict[str, str], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        store.append("t", [{"time": "01/02/2024"}], time=time)


def test_what_the_datasource_decided_holds_and_new_columns_come_in(store: Store) -> None:
    store.append("t", [{"at": AT, "time": AT, "n": 1.5}], time="at")
    store.append("t", [{"at": AT, "n": 2, "new": True}])
    store.append("t", [{"at": AT, "n": 3}], time="at")  # as a loop says it each time
    assert types(store)["n"] == "DOUBLE"
    assert rows(store, "count(*), count(new)") == [(3, 1)]
    with pytest.raises(Invalid, match="has its time decided: column at, format "):
        store.append("t", [{"at": AT, "n": 2}], time="time")


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("t.csv", b"", "has no rows"),
        ("t.csv", b"time,n\n", "has no rows"),
        ("t.dat", b"\x00\x01\x02", "is not text"),
        ("t.csv", b"t,n\n2024-01-01,1\n\x00\n", "line 3 has a zero byte"),
        ("t.csv", "time,n\n2024,1\n".encode("utf-16"), "is UTF-16"),
        ("t.json", b'"just a text"\n', "neither lines of JSON"),
        ("t.json", b'{\n "time": 1\n}\n', "neither lines of JSON"),
        ("t.json", b"[" + b"1," * 10, "neither lines of JSON"),
        ("t.data", b"\x1f\x8b\x08\x00", "is compressed"),
        ("t.parquet", b"PAR1 and no more", "t.parquet"),
        ("t.csv", b"a" * (17 << 20), "first line"),
    ],
)
def test_what_is_no_rows_is_refused_by_a_sentence(
    store: Store, tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(Invalid, match=message):
        store.append("t", path)
    assert store.head().revision == 0


def test_tabs_are_found_beside_quotes_that_are_none(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"'time'\t'n'\n{AT}\t7\n{AT}\t8\n")
    store.append("t", path, time="'time'")
    assert types(store)["'n'"] == "BIGINT"


@pytest.mark.slow
def test_headers_that_repeat_and_files_without_one_are_read(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"time,a,a\n{AT},1,2\n")
    store.append("t", path)
    assert rows(store, "a, a_1") == [(1, 2)]
    path.write_text(f"time,P95,p95\n{AT},1,2\n")
    store.append("cases", path)
    assert rows(store, "P95, p95_1", "cases") == [(1, 2)]
    bare = tmp_path / "u.csv"
    bare.write_text(f"{AT},1\n{AT},2\n")
    store.append("u", bare)
    assert types(store, "u").keys() == {"__time", "column_2"}


@pytest.mark.parametrize("second", ["time,Price,price", "time,price,x", "time,price,price"])
def test_a_header_that_repeats_holds_for_files_with_that_header_only(
    store: Store, tmp_path: Path, second: str
) -> None:
    first, other = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_text(f"time,price,Price\n{AT},1,2\n")
    other.write_text(f"{second}\n{AT},2,1\n")
    wanted = f"header of .*b.csv is {second.replace(',', ', ')}, and .* by time, price, Price;"
    with pytest.raises(Invalid, match=wanted):
        store.append("both", [first, other])
    store.append("t", first)
    with pytest.raises(Invalid, match=wanted):
        store.append("t", other)
    store.append("t", first)
    assert rows(store, "price, price_1") == [(1, 2), (1, 2)]


@pytest.mark.slow
@pytest.mark.parametrize("text", ["NA,x", "NA,NA", "a b,x"])
def test_a_first_row_with_a_time_for_a_name_is_a_row(
    store: Store, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"2024-01-01,{text}\n2024-01-02,3,y\n2024-01-03,4,z\n")
    store.append("t", path)
    assert rows(store, "count(*), min(day(__time))") == [(3, 1)]
    path.write_text("day,2024-01-02,2024-01-03\n2024-01-02,4,5\n")
    store.append("wide", path)
    assert types(store, "wide").keys() == {"__time", "2024-01-02", "2024-01-03"}


def test_a_column_that_the_engine_cannot_take_is_refused_by_a_sentence(
    store: Store, tmp_path: Path
) -> None:
    repeated = pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64()))
    pq.write_table(pa.table({"time": [AT], "a": repeated}), tmp_path / "t.parquet")
    with pytest.raises(Invalid, match=r"t\.parquet cannot be read: .* duplicate key"):
        store.append("t", tmp_path / "t.parquet")
    path = tmp_path / "t.csv"
    path.write_text(f"time,{'x' * 200_000}\n{AT},1\n")
    with pytest.raises(Invalid, match=r"header of .*t\.csv cannot be read: field larger"):
        store.append("t", path)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([b"2024-01-01"]),
        pa.array([True]),
        pa.array([[dt.datetime(2024, 1, 1, tzinfo=dt.UTC)]]),
        pa.array([{"at": 1}]),
        pa.nulls(1),
    ],
    ids=lambda one: str(one.type),
)
def test_a_column_of_a_type_without_times_is_told(store: Store, values: pa.Array) -> None:
    """It was said to hold '', and an option that changes nothing."""
    with pytest.raises(Invalid, match=r"^column 'v' shows no text or number that could be a time"):
        store.append("t", pa.table({"v": values}), time="v")


def test_lists_of_times_are_no_time_of_their_row(store: Store) -> None:
    seen = pa.array(
        [[dt.datetime(2024, 1, 2, tzinfo=dt.UTC), dt.datetime(2024, 1, 3, tzinfo=dt.UTC)]]
    )
    store.append("t", pa.table({"seen": seen, "begun": [dt.datetime(2024, 1, 1, tzinfo=dt.UTC)]}))
    assert types(store, "t")["seen"] == "VARCHAR[]"


def test_fields_with_one_space_between_them_are_read(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text(
        'time host agent bytes\n2024-03-04T09:00:00Z web1 "Mozilla 5" 120\n2024-03-05T10:00:00Z web2 curl 7\n'
    )
    store.append("access", path)
    found = store.sql("SELECT host, agent, bytes FROM access ORDER BY bytes").rows()
    assert found == [
        {"host": "web2", "agent": "curl", "bytes": 7},
        {"host": "web1", "agent": "Mozilla 5", "bytes": 120},
    ]


def test_fields_without_a_header_and_one_space_between_them_are_read(
    store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "access.txt"
    path.write_text("2024-03-04T09:00:00Z web1 120\n2024-03-05T10:00:00Z web2 7\n")
    store.append("access", path)
    assert store.sql("SELECT sum(column_3) AS n FROM access").rows() == [{"n": 127}]


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        (
            "time                  page name  n\n2024-03-04T09:00:00Z  Main page  3\n2024-03-04T09:00:00Z  Other  33\n",
            " {2,}",
        ),
        (
            "time                 page   n\n2024-03-04T09:00:00Z Main   3\n2024-03-04T09:00:00Z Other 33\n",
            " +",
        ),
    ],
)
def test_fields_that_stand_under_one_another_are_refused_with_what_to_do(
    store: Store, tmp_path: Path, text: str, pattern: str
) -> None:
    path = tmp_path / "table.txt"
    path.write_text(text)
    with pytest.raises(Invalid, match="several spaces between them") as caught:
        store.append("t", path)
    assert f"sed -E 's/{pattern}/\\t/g'" in caught.value.message
    path = tmp_path / "table.tsv"
    path.write_text(re.sub(pattern, "\t", text))
    assert store.append("t", path).revision == 1


def test_lines_of_words_are_no_fields(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "app.txt"
    path.write_text("started worker\nslow disk found on sda\nok\n")
    with pytest.raises(Invalid, match=r"no character separates .* make JSON lines or CSV of it"):
        store.append("app", path)
    store.append("app", path, time={"missingValue": "2024-01-01"})
    assert store.sql("SELECT count(*) AS n FROM app").rows() == [{"n": 2}]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a\0b", "the name of a column of the rows holds a control character"),
        ("", "a column of the rows has no name; name it, or leave it out"),
    ],
)
def test_a_column_that_cannot_be_called_so_is_told_as_one_of_the_rows(
    store: carnac.Store, name: str, said: str
) -> None:
    with pytest.raises(Invalid) as caught:
        store.append("odd", [{"time": "2024-01-01", name: 1, "b": 2}])
    assert caught.value.message.startswith(said)


def test_a_boolean_that_comes_later_is_one_as_well(store: Store) -> None:
    store.append("t", [{"time": AT, "ok": True, "n": 1}])
    store.append(
        "t", [{"time": AT, "ok": False, "n": 1, "late": True, "mixed": True, "none": None}]
    )
    store.append("t", [{"time": AT, "mixed": 2, "flags": [True]}])
    assert {name: kind for name, kind in types(store).items() if name != "__time"} == {
        "ok": "BOOLEAN",
        "n": "BIGINT",
        "late": "BOOLEAN",
        "mixed": "BIGINT",
        "flags": "BIGINT[]",
    }
    assert rows(store, "late") == [(True,), (None,), (None,)]
