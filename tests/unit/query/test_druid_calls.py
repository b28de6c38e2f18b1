"""Druid's functions that are here give what Druid's documentation says, and what the form of DuckDB gives."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import carnac
from carnac import Store
from carnac.errors import Invalid
from carnac.specs.druid.sql_functions import FORMS

ROWS = [
    {"t": "2024-03-04T09:10:11.500Z", "page": "Menhir", "added": 3, "text": "12"},
    {"t": "2024-03-05T23:59:59Z", "page": "Dolmen", "added": 5, "text": "x"},
    {"t": "2024-08-11T00:00:00Z", "page": "Menhir", "added": 7, "text": "-1"},
]
SPEC: dict[str, Any] = {
    "dataSource": "edits",
    "timestampSpec": {"column": "t"},
    "dimensions": ["page", {"name": "added", "type": "long"}, "text"],
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    place: Path = tmp_path_factory.mktemp("store")
    with carnac.open(place, create=True) as opened:
        opened.append("edits", ROWS, spec=SPEC)
        opened.set_lookup("pages", {"Menhir": "a stone"})
        yield opened


def values(store: Store, what: str, rest: str = "FROM edits ORDER BY __time") -> list[Any]:
    [name] = store.sql(f"SELECT {what} AS v {rest}").arrow().column_names
    return [row[name] for row in store.sql(f"SELECT {what} AS v {rest}").rows()]


def texts(store: Store, what: str) -> list[str]:
    found: list[str] = values(store, f"strftime({what}, '%Y-%m-%dT%H:%M:%S')")
    return found


@pytest.mark.parametrize(
    ("period", "starts"),
    [
        ("PT1S", ["2024-03-04T09:10:11", "2024-03-05T23:59:59", "2024-08-11T00:00:00"]),
        ("PT5M", ["2024-03-04T09:10:00", "2024-03-05T23:55:00", "2024-08-11T00:00:00"]),
        ("PT6H", ["2024-03-04T06:00:00", "2024-03-05T18:00:00", "2024-08-11T00:00:00"]),
        ("P1D", ["2024-03-04T00:00:00", "2024-03-05T00:00:00", "2024-08-11T00:00:00"]),
        ("P1W", ["2024-03-04T00:00:00", "2024-03-04T00:00:00", "2024-08-05T00:00:00"]),
        ("P1M", ["2024-03-01T00:00:00", "2024-03-01T00:00:00", "2024-08-01T00:00:00"]),
        ("P3M", ["2024-01-01T00:00:00", "2024-01-01T00:00:00", "2024-07-01T00:00:00"]),
        ("P6M", ["2024-01-01T00:00:00", "2024-01-01T00:00:00", "2024-07-01T00:00:00"]),
        ("P1Y", ["2024-01-01T00:00:00"] * 3),
    ],
)
def test_times_are_floored(store: Store, period: str, starts: list[str]) -> None:
    assert texts(store, f"TIME_FLOOR(__time, '{period}')") == starts
    assert texts(store, f"time_floor(CAST(__time AS TIMESTAMP), '{period}')") == starts


def test_days_of_another_zone_begin_at_its_midnight(store: Store) -> None:
    starts = ["2024-03-03T23:00:00", "2024-03-05T23:00:00", "2024-08-10T22:00:00"]
    assert texts(store, "TIME_FLOOR(__time, 'P1D', NULL, 'Europe/Paris')") == starts
    utc = ["2024-03-04T00:00:00", "2024-03-05T00:00:00", "2024-08-11T00:00:00"]
    assert texts(store, "TIME_FLOOR(__time, 'P1D', NULL, 'Etc/UTC')") == utc


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        # what Druid 33 answers
        ("TIME_CEIL(TIMESTAMP '2024-03-10 07:30:00', 'P1D', NULL, {zone})", "2024-03-11T04:00:00"),
        ("TIME_CEIL(TIMESTAMP '2024-03-10 05:00:00', 'P1D', NULL, {zone})", "2024-03-10T05:00:00"),
        ("TIME_CEIL(TIMESTAMP '2024-11-03 05:34:00', 'PT1H', NULL, {zone})", "2024-11-03T06:00:00"),
        ("TIME_SHIFT(TIMESTAMP '2024-03-10 07:30:00', 'P1D', -1, {zone})", "2024-03-09T08:30:00"),
        ("TIME_SHIFT(TIMESTAMP '2024-03-10 07:30:00', 'PT24H', -1, {zone})", "2024-03-09T07:30:00"),
        (
            "TIME_SHIFT(TIMESTAMP '2024-03-10 07:30:00', 'P1DT12H', -1, {zone})",
            "2024-03-08T20:30:00",
        ),
        ("TIME_SHIFT(TIMESTAMP '2024-03-10 07:30:00', 'P1DT12H', 1)", "2024-03-11T19:30:00"),
        (
            "TIME_SHIFT(TIMESTAMP '2024-11-03 06:34:00', 'P2M3DT4H', 3, {zone})",
            "2025-05-12T17:34:00",
        ),
        ("TIME_SHIFT(TIMESTAMP '2024-02-29 13:14:15', 'P1Y2M', 1)", "2025-04-28T13:14:15"),
        ("TIME_SHIFT(TIMESTAMP '2024-02-29 13:14:15', 'P1M1D', 1)", "2024-03-30T13:14:15"),
        ("TIME_PARSE('03/02/2024 04', 'dd/MM/yyyy HH', {zone})", "2024-02-03T09:00:00"),
        ("TIME_PARSE('3 Feb 2024', 'd MMM yyyy')", "2024-02-03T00:00:00"),
        (
            "TIME_PARSE('2024-02-03 04:00+02:00', 'yyyy-MM-dd HH:mmZZ', {zone})",
            "2024-02-03T02:00:00",
        ),
        ("TIME_PARSE('2024-02', NULL, {zone})", "2024-02-01T05:00:00"),
        ("TIME_PARSE('2024-02-29 10:11:12', NULL, {zone})", "2024-02-29T15:11:12"),
        ("TIME_PARSE('2024-02-29T10:11:12+02:00', NULL, {zone})", "2024-02-29T08:11:12"),
        ("TIME_PARSE('2024-02-30', NULL, {zone})", None),
        ("TIME_PARSE('2024-W05-2')", "2024-01-30T00:00:00"),
        ("TIME_PARSE('2024-W05')", "2024-01-29T00:00:00"),
        ("TIME_PARSE('2020-W53-7T23')", "2021-01-03T23:00:00"),
        ("TIME_PARSE('2020-W53-7 23:10Z', NULL, {zone})", "2021-01-03T23:10:00"),
        ("TIME_PARSE('2024-W05-2T10+02:00', NULL, {zone})", "2024-01-30T08:00:00"),
        ("TIME_PARSE('2024-W05-2', NULL, {zone})", "2024-01-30T05:00:00"),
        ("TIME_PARSE('2024-366')", "2024-12-31T00:00:00"),
        ("TIME_PARSE('2024-033T10:11:12.5')", "2024-02-02T10:11:12"),
        ("TIME_PARSE('2023-366')", None),
        ("TIME_PARSE('2024-000')", None),
        ("TIME_PARSE('2024-W53-1')", None),
        ("TIME_PARSE('2024-W00-1')", None),
        ("TIME_PARSE('2024-W05-8')", None),
        ("TIME_PARSE('2024-0105')", None),
        ("TIME_PARSE('30/02/2024', 'dd/MM/yyyy')", None),
    ],
)
def test_times_of_another_zone(store: Store, call: str, wanted: str | None) -> None:
    assert texts(store, call.format(zone="'America/New_York'")) == [wanted] * 3


def test_a_zone_that_nobody_knows_is_named(store: Store) -> None:
    with pytest.raises(Invalid) as caught:
        store.sql("SELECT TIME_CEIL(__time, 'P1D', NULL, 'Nowhere/X') FROM edits")
    assert caught.value.message == "unknown TimeZone 'Nowhere/X'"


def meanings() -> list[list[str]]:
    page = (Path(__file__).parents[3] / "docs" / "concepts" / "druid.md").read_text()
    _, _, table = page.partition("<!-- meanings: begin -->")
    table, _, _ = table.partition("<!-- meanings: end -->")
    cells = [re.split(r" (?<!\\)\| ", line.strip("| ")) for line in table.strip().splitlines()[2:]]
    return [[cell.strip("`").replace("\\|", "|") for cell in row] for row in cells]


@pytest.mark.parametrize(("sql", "ours", "druids", "instead"), meanings())
def test_what_means_something_else_to_druid(
    store: Store, sql: str, ours: str, druids: str, instead: str
) -> None:
    """The page says what it is here, and how to write what Druid has; Druid's values are Druid 33's."""
    for what, wanted in ((sql, ours), (instead, druids)):
        [value] = values(store, what, "FROM edits LIMIT 1")
        if isinstance(value, datetime):
            value = value.strftime("%Y-%m-%dT%H:%M:%S.000Z")
        told = json.dumps(value, separators=(",", ":"), ensure_ascii=False).strip('"')
        assert (told or "an empty text") == wanted


def test_an_hour_that_clocks_show_twice_is_two_hours(store: Store) -> None:
    """Both were the later one, which begins after the times of the earlier."""
    floor = "TIME_FLOOR(TIMESTAMPTZ '2024-11-03 {}Z', '{}', NULL, 'America/New_York')"
    for at, period, start in (
        ("05:34", "PT1H", "05:00"),
        ("06:34", "PT1H", "06:00"),
        ("05:34", "PT15M", "05:30"),
        ("06:34", "P1D", "04:00"),
    ):
        assert texts(store, floor.format(at, period))[0] == f"2024-11-03T{start}:00"
    half = "TIME_FLOOR(TIMESTAMPTZ '2024-11-03 05:40Z', 'PT1H', NULL, 'Asia/Kolkata')"
    assert texts(store, half)[0] == "2024-11-03T05:30:00"


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("2024", "2024-01-01T00:00:00"),
        ("2024-03", "2024-03-01T00:00:00"),
        ("2024-03-04", "2024-03-04T00:00:00"),
        ("2024-03-04T05", "2024-03-04T05:00:00"),
        ("2024-03-04T05Z", "2024-03-04T05:00:00"),
        ("2024-03-04T05+02:00", "2024-03-04T03:00:00"),
        ("2024-03-04T05:06:07.8Z", "2024-03-04T05:06:07"),
        ("abcd", None),
    ],
)
def test_times_are_parsed_as_joda_does(store: Store, text: str, start: str | None) -> None:
    for what in (f"'{text}'", f"concat('{text}', left(page, 0))"):
        assert texts(store, f"TIME_PARSE({what})")[0] == start


def test_what_superset_asks_of_a_week_that_ends_on_saturday(store: Store) -> None:
    inner = "TIME_FLOOR(TIME_SHIFT(CAST(__time AS TIMESTAMP), 'P1D', 1), 'P1W')"
    ends = texts(store, f"TIME_SHIFT({inner}, 'P1D', 5)")
    assert ends == ["2024-03-09T00:00:00", "2024-03-09T00:00:00", "2024-08-17T00:00:00"]


def test_a_series_is_grouped_by_what_it_shows(store: Store) -> None:
    rows = store.sql(
        "SELECT TIME_FLOOR(__time, 'P1M') AS m, sum(added) AS s FROM edits "
        "WHERE __time >= TIME_PARSE('2024-01-01T00:00:00') AND TIME_IN_INTERVAL(__time, '2024-03-01/2025-01-01') "
        "GROUP BY TIME_FLOOR(__time, 'P1M') ORDER BY 1"
    ).rows()
    assert [row["s"] for row in rows] == [8, 7]


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("TIME_EXTRACT(__time, 'DOW')", [1, 2, 7]),
        ("TIME_EXTRACT(__time, 'hour')", [9, 23, 0]),
        ("TIME_EXTRACT(__time, 'EPOCH')", [1_709_543_411, 1_709_683_199, 1_723_334_400]),
        ("TIMESTAMP_TO_MILLIS(__time)", [1_709_543_411_500, 1_709_683_199_000, 1_723_334_400_000]),
        ("MILLIS_TO_TIMESTAMP(1709543411500) = __time", [True, False, False]),
        ("TIME_PARSE('never')", [None, None, None]),
        ("TIME_FORMAT(TIME_CEIL(__time, 'PT15M'), 'H:mm')", ["9:15", "0:00", "0:00"]),
        (
            "TIME_FORMAT(CEIL(__time TO MONTH))",
            [
                "2024-04-01T00:00:00.000+00:00",
                "2024-04-01T00:00:00.000+00:00",
                "2024-09-01T00:00:00.000+00:00",
            ],
        ),
        ("TIME_FORMAT(__time, 'w', 'UTC')", ["10", "10", "32"]),
        ("TIME_FORMAT(__time, 'E d.M.yy', 'UTC')", ["Mon 4.3.24", "Tue 5.3.24", "Sun 11.8.24"]),
        ("TIMESTAMPDIFF(HOUR, TIMESTAMP '2024-03-04 10:00:00', __time)", [0, 37, 3830]),
        ("TIMESTAMPDIFF(MONTH, __time, TIMESTAMP '2024-09-05 00:00:00')", [6, 5, 0]),
        (
            "TIME_FORMAT(TIMESTAMPADD(SQL_TSI_QUARTER, added, __time), 'yyyy-MM')",
            ["2024-12", "2025-06", "2026-05"],
        ),
        ("MV_TO_STRING(page, '-')", ["Menhir", "Dolmen", "Menhir"]),
        ("MV_LENGTH(page)", [1, 1, 1]),
        ("MV_LENGTH([page, text])", [2, 2, 2]),
        ("MV_TO_STRING(MV_TO_ARRAY([page, text]), '-')", ["Menhir-12", "Dolmen-x", "Menhir--1"]),
        ("STR_POSITION(page, 'en')", [2, 5, 2]),
        ("TO_JSON_STRING(page)", ['"Menhir"', '"Dolmen"', '"Menhir"']),
        ("TIME_IN_INTERVAL(__time, '2024-03-04/P1D')", [True, False, False]),
        ("PARSE_LONG(text)", [12, None, -1]),
        ("PARSE_LONG(text || '.6')", [None, None, None]),
        ("PARSE_LONG('0x1' || added)", [None, None, None]),
        ("BITWISE_SHIFT_LEFT(1, 38 + CAST(added AS INTEGER))", [1 << 41, 1 << 43, 1 << 45]),
        ("PARSE_LONG(text, 3)", [5, None, -1]),
        ("PARSE_LONG(left(page, 2), 36)", [806, 492, 806]),
        ("PARSE_LONG('7fffffffffffffff', 16)", [(1 << 63) - 1] * 3),
        ("PARSE_LONG('8000000000000000', 16)", [None] * 3),
        ("CAST(__time AS BIGINT)", [1_709_543_411_500, 1_709_683_199_000, 1_723_334_400_000]),
        (
            "CAST(FLOOR(__time TO DAY) AS BIGINT)",
            [1_709_510_400_000, 1_709_596_800_000, 1_723_334_400_000],
        ),
        ("LPAD(page, 8)", ["  Menhir", "  Dolmen", "  Menhir"]),
        ("RPAD(page, 7) || RPAD(text, 4, 'ab')", ["Menhir 12ab", "Dolmen xaba", "Menhir -1ab"]),
        ("OCTET_LENGTH(page || 'é') + OCTET_LENGTH(encode(text))", [10, 9, 10]),
        (
            "STRING_FORMAT('%s: %03d%%', page, added)",
            ["Menhir: 003%", "Dolmen: 005%", "Menhir: 007%"],
        ),
        ("STRING_FORMAT('[%s]', NULLIF(page, 'Menhir'))", ["[null]", "[Dolmen]", "[null]"]),
        ("STRING_FORMAT('%06d%%', NULLIF(added, 5))", ["000003%", "  null%", "000007%"]),
        ("STRING_FORMAT('%.2f', NULLIF(added, 5) / 2)", ["1.50", "nu", "3.50"]),
        ("HUMAN_READABLE_BINARY_BYTE_FORMAT(added * 384)", ["1.13 KiB", "1.88 KiB", "2.63 KiB"]),
        ("HUMAN_READABLE_BINARY_BYTE_FORMAT(-added, 0)", ["-3 B", "-5 B", "-7 B"]),
        ("HUMAN_READABLE_DECIMAL_BYTE_FORMAT(-added * 1000, 0)", ["-3 KB", "-5 KB", "-7 KB"]),
        (
            "HUMAN_READABLE_DECIMAL_FORMAT(CAST(pow(10, added) AS BIGINT) - 1)",
            ["999", "100.00 K", "10.00 M"],
        ),
        ("HUMAN_READABLE_BINARY_BYTE_FORMAT(NULLIF(added, 3), 3)", [None, "5 B", "7 B"]),
        ("BITWISE_SHIFT_LEFT(-added, 1)", [-6, -10, -14]),
        ("ARRAY_CONTAINS([3, 5], ARRAY[added, 5])", [True, True, False]),
        ("ARRAY_CONTAINS([3, 5], added)", [True, True, False]),
        ("MV_FILTER_ONLY([page, text], ['Menhir', 'x'])", [["Menhir"], ["x"], ["Menhir"]]),
        ("MV_FILTER_NONE(page, ['Menhir', 'x'])", [[], ["Dolmen"], []]),
        ("MV_FILTER_REGEX([page, text], 'e.*r|x')", [["Menhir"], ["x"], ["Menhir"]]),
        ("MV_FILTER_PREFIX([page, text], 'D')", [[], ["Dolmen"], []]),
        ("MV_SLICE([page, text], 1, 3)", [["12", None], ["x", None], ["-1", None]]),
        ("MV_SLICE(page, 2, 3)", [None, None, None]),
        (
            "JSON_OBJECT('a': added, 'b': page)",
            ['{"a":3,"b":"Menhir"}', '{"a":5,"b":"Dolmen"}', '{"a":7,"b":"Menhir"}'],
        ),
        (
            "JSON_OBJECT(KEY 'a' VALUE JSON_OBJECT('b': added))",
            ['{"a":{"b":3}}', '{"a":{"b":5}}', '{"a":{"b":7}}'],
        ),
        ("JSON_VALUE(JSON_OBJECT('a': added / 2), '$.a' RETURNING BIGINT)", [1, 2, 3]),
        ("JSON_VALUE(JSON_OBJECT('a': added), '$.a' RETURNING DOUBLE)", [3.0, 5.0, 7.0]),
        ("JSON_VALUE(JSON_OBJECT('a': page), '$.a' RETURNING BIGINT)", [None] * 3),
        ("JSON_VALUE('{\"a\": 9007199254740993}', '$.a' RETURNING BIGINT)", [9007199254740993] * 3),
        ("JSON_VALUE(JSON_OBJECT('a': added), '$.a' RETURNING VARCHAR)", ["3", "5", "7"]),
        (
            "JSON_QUERY_ARRAY(JSON_OBJECT('a': [added, 1]), '$.a')",
            [["3", "1"], ["5", "1"], ["7", "1"]],
        ),
        ("JSON_QUERY_ARRAY(JSON_OBJECT('a': added), '$.a')", [["3"], ["5"], ["7"]]),
        ("JSON_QUERY_ARRAY(JSON_OBJECT('a': added), '$.b')", [None] * 3),
        ("DIV(added, 2)", [1, 2, 3]),
        ("SAFE_DIVIDE(added, added - 3)", [None, 2.5, 1.75]),
        ("BITWISE_AND(added, 1) + BITWISE_SHIFT_LEFT(added, 1)", [7, 11, 15]),
        ("DIV(added * 0.5, 1)", [1, 2, 3]),
        ("BITWISE_SHIFT_LEFT(added * 0.5, 1)", [2, 4, 6]),
        ("TRUNCATE(added / 8, 1)", [0.3, 0.6, 0.8]),
        ("TRUNCATE(added * 7, -1)", [20, 30, 40]),
        (
            "BITWISE_CONVERT_LONG_BITS_TO_DOUBLE(BITWISE_CONVERT_DOUBLE_TO_LONG_BITS(added))",
            [3.0, 5.0, 7.0],
        ),
        ("NVL(NULLIF(page, 'Menhir'), text)", ["12", "Dolmen", "-1"]),
        ("ARRAY_OFFSET([3, 5], added - 3)", [3, None, None]),
        ("ARRAY_OFFSET([3, 5], 2 - added)", [None, None, None]),
        ("ARRAY_ORDINAL([3, 5], added - 3)", [None, 5, None]),
        ("ARRAY_OFFSET_OF([3, 5], added)", [0, 1, None]),
        ("ARRAY_ORDINAL_OF([3, 5], added)", [1, 2, None]),
        ("ARRAY_OVERLAP([3, 5], [added])", [True, True, False]),
        ("SCALAR_IN_ARRAY(added, [3, 5])", [True, True, False]),
        ("MV_OFFSET(page, 0)", ["Menhir", "Dolmen", "Menhir"]),
        ("MV_ORDINAL(STRING_TO_MV(page, '[mh]'), 2)", ["ir", "en", "ir"]),
        ("MV_OFFSET_OF(page, 'Dolmen')", [None, 0, None]),
        ("MV_ORDINAL_OF([added, 5], 5)", [2, 1, 2]),
        ("MV_CONTAINS(['Menhir', text], page)", [True, False, True]),
        ("MV_OVERLAP([added], [3, 5])", [True, True, False]),
        ("MV_CONTAINS(NULLIF([text], ['x']), 'x')", [False, False, False]),
        ("NOT MV_OVERLAP(NULLIF([text], ['x']), ['12'])", [False, True, True]),
        ("MV_TO_STRING([text, NULL], '|')", ["12|null", "x|null", "-1|null"]),
        ("MV_APPEND(NULLIF([text], ['x']), 'a')", [["12", "a"], None, ["-1", "a"]]),
        ("MV_PREPEND('a', NULLIF([text], ['x']))", [["a", "12"], None, ["a", "-1"]]),
        ("TIME_EXTRACT(__time, 'MILLENNIUM')", [3, 3, 3]),
        ("MV_APPEND(page, text)", [["Menhir", "12"], ["Dolmen", "x"], ["Menhir", "-1"]]),
        ("MV_PREPEND(text, ['a'])", [["12", "a"], ["x", "a"], ["-1", "a"]]),
        ("MV_CONCAT(page, text)", [["Menhir", "12"], ["Dolmen", "x"], ["Menhir", "-1"]]),
        ("IPV4_PARSE('192.168.0.' || text)", [3232235532, None, None]),
        ("IPV4_PARSE(3232235520 + added)", [3232235523, 3232235525, 3232235527]),
        ("IPV4_STRINGIFY(3232235520 + added)", ["192.168.0.3", "192.168.0.5", "192.168.0.7"]),
        ("IPV4_STRINGIFY('1.2.3.' || text)", ["1.2.3.12", None, None]),
        ("IPV4_MATCH('10.1.2.' || text, '10.1.0.0/16')", [True, False, False]),
        ("IPV4_MATCH('10.2.2.' || text, '10.1.0.0/16')", [False, False, False]),
        ("JSON_VALUE('{\"a\": \"' || page || '\"}', '$.a')", ["Menhir", "Dolmen", "Menhir"]),
        ("JSON_VALUE('{\"a\": [1]}', '$.a')", [None, None, None]),
        ("JSON_VALUE(page, '$.a')", [None, None, None]),
        ("JSON_QUERY('{\"a\": [1]}', '$.a')", ["[1]", "[1]", "[1]"]),
        ("TIME_EXTRACT(__time, 'HOUR', 'Asia/Kolkata')", [14, 5, 5]),
        ("TIME_EXTRACT(__time, 'MILLISECOND')", [500, 0, 0]),
        (
            "TIME_FORMAT(__time, 'HH:mm EEE', 'Asia/Kolkata')",
            ["14:40 Mon", "05:29 Wed", "05:30 Sun"],
        ),
        ("ICONTAINS_STRING(page, 'HIR')", [True, False, True]),
        ("REGEXP_LIKE(page, '^D')", [False, True, False]),
        ("TEXTCAT(BTRIM(page, 'M'), '!')", ["enhir!", "Dolmen!", "enhir!"]),
        ("LOOKUP(page, 'pages')", ["a stone", None, "a stone"]),
        ("LOOKUP(page, 'pages', 'none')", ["a stone", "none", "a stone"]),
    ],
)
def test_values(store: Store, call: str, wanted: list[Any]) -> None:
    assert values(store, call) == wanted


@pytest.mark.parametrize(
    "shown",
    [
        "LOOKUP(page, 'pages')",
        "UPPER(LOOKUP(page, 'pages', 'none'))",
        "CASE WHEN LOOKUP(page, 'pages') IS NULL THEN page ELSE LOOKUP(page, 'pages') END",
        "page IN (SELECT k FROM lookup.pages)",
        "(SELECT max(TABLE_NAME) FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_NAME <> page)",
        "MV_TO_STRING(STRING_TO_MV(page, 'e'), '+')",
        "IPV4_STRINGIFY(3232235520 + length(page))",
    ],
)
def test_what_is_shown_can_be_grouped_by(store: Store, shown: str) -> None:
    """As charts do, over a calculated column."""
    found = store.sql(
        f"SELECT {shown} AS v, count(*) AS n FROM edits GROUP BY {shown} ORDER BY {shown}"
    ).rows()
    assert {row["v"]: row["n"] for row in found} == Counter(values(store, shown))


def test_a_list_is_not_compared_with_a_text(store: Store) -> None:
    for condition in ("{} = 'a'", "{} IN ('a', 'b')", "{} LIKE '%a%'"):
        with pytest.raises(Invalid, match=r"; write MV_CONTAINS\(tags, 'a'\)"):
            store.sql(f"SELECT * FROM edits WHERE {condition.format('STRING_TO_MV(page, text)')}")


def test_aggregates_keep_their_filter(store: Store) -> None:
    assert store.sql(
        "SELECT STRING_AGG(DISTINCT page, '+', 100) FILTER (WHERE added > 3) AS s FROM edits"
    ).rows() in (
        [{"s": "Dolmen+Menhir"}],
        [{"s": "Menhir+Dolmen"}],
    )
    row = store.sql(
        "SELECT LATEST(page) AS l, EARLIEST(page, 100) AS e, LATEST_BY(added, added) "
        "FILTER (WHERE page = 'Dolmen') AS b "
        "FROM edits"
    ).rows()
    assert row == [{"l": "Menhir", "e": "Menhir", "b": 5}]


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("VAR_POP(added)", "VARIANCE_POP(added)"),
        ("length(STRING_AGG(text, '-', 1000))", "length(GROUP_CONCAT(text, '-', 1000))"),
        (
            "BOOL_AND(added > 3) FILTER (WHERE text <> '12')",
            "LOGICAL_AND(added > 3) FILTER (WHERE text <> '12')",
        ),
        ("BOOL_OR(added > 6)", "LOGICAL_OR(added > 6)"),
        ("COUNT(DISTINCT page)", "APPROX_DISTINCT(page)"),
        ("max(DAYOFMONTH(__time))", "max(DAY_OF_MONTH(__time))"),
        ("max(DAYOFWEEK(__time))", "max(DAY_OF_WEEK(__time))"),
        ("max(DAYOFYEAR(__time))", "max(DAY_OF_YEAR(__time))"),
        ("max(ISODOW(__time))", "max(DAYOFWEEK_ISO(__time))"),
        ("max(WEEKOFYEAR(__time))", "max(WEEK_OF_YEAR(__time))"),
        ("max(ISNAN(added / 2))", "max(IS_NAN(added / 2))"),
        ("max(ISINF(added / 0))", "max(IS_INF(added / 0))"),
        ("max(SHA1(page))", "max(SHA(page))"),
        (
            "max(JSON_EXTRACT_STRING('{\"a\": 1}', '$.a'))",
            "max(JSON_EXTRACT_SCALAR('{\"a\": 1}', '$.a'))",
        ),
        ("max(RANDOM()) < 1", "max(RAND()) < 1"),
    ],
)
def test_what_superset_sends_in_place_of_what_was_written(
    store: Store, written: str, sent: str
) -> None:
    assert values(store, sent, "FROM edits") == values(store, written, "FROM edits")


def test_a_column_without_a_name_has_that_of_the_call(store: Store) -> None:
    names = (
        store.sql("SELECT TIME_FLOOR(__time, 'P1D'), 1 + DIV(added, 2) FROM edits")
        .arrow()
        .column_names
    )
    assert names == ["time_floor(__time, 'P1D')", "(1 + div(added, 2))"]


@pytest.mark.parametrize(
    "call",
    [
        "TIME_FLOOR(__time, 'P1DT2H', NULL, 'Europe/Paris')",
        "TIME_CEIL(__time, 'P1M1D')",
        "TIME_FLOOR(__time, 'P1M', '2000-01-15', 'Europe/Paris')",
        "TIME_FLOOR(__time, 'P1D', NULL, 'no zone''s name')",
        "TIME_FLOOR(__time, page)",
        "TIME_FLOOR(__time, 'sometimes')",
        "TIME_PARSE(text, 'HH:mm')",
        "TIME_PARSE(text, page)",
        "TIME_CEIL(__time, 'P1D', NULL, page)",
        "TIME_SHIFT(__time, 'P1DT1H', 1, page)",
        "TIME_FORMAT(__time, 'yyyy Z', 'Europe/Paris')",
        "IPV4_MATCH(text, '10.0.0.0/99')",
        "IPV6_MATCH(text, '2001:db8::')",
        "IPV6_MATCH(text, '10.0.0.0/8')",
        "IPV6_MATCH(text, page)",
        "TIME_IN_INTERVAL(__time, 'then/now')",
        "TIME_EXTRACT(__time, 'FORTNIGHT')",
    ],
)
def test_other_arguments_are_refused_by_the_form_that_does_it(store: Store, call: str) -> None:
    name = call.partition("(")[0]
    with pytest.raises(Invalid) as caught:
        store.sql(f"SELECT {call} FROM edits")
    said = f"function {name} of Druid's SQL is not here with these arguments; write {FORMS[name.lower()]}"
    assert caught.value.message == said


def test_several_quantiles_of_one_sketch(store: Store) -> None:
    [row] = store.sql(
        "SELECT DS_GET_QUANTILES(DS_QUANTILES_SKETCH(added), 0, 0.5, 1) AS q FROM edits"
    ).rows()
    assert row == {"q": [3.0, 5.0, 7.0]}


@pytest.mark.parametrize(
    "call",
    [
        "JSON_VALUE(page, '$.a' RETURNING BIGINT ARRAY)",
        "STRING_FORMAT(page, added)",
        "STRING_FORMAT('%s %s', page)",
        "STRING_FORMAT('%tY', __time)",
        "MV_SLICE(page, 1)",
        "PARSE_LONG(text, 16, 2)",
    ],
)
def test_other_arguments_are_refused(store: Store, call: str) -> None:
    with pytest.raises(Invalid):
        store.sql(f"SELECT {call} FROM edits")


def test_a_type_that_json_value_does_not_return_is_told_what_does(store: Store) -> None:
    with pytest.raises(Invalid, match=r"; write JSON_VALUE\(.*JSON_QUERY_ARRAY"):
        store.sql("SELECT JSON_VALUE(page, '$.a' RETURNING BIGINT ARRAY) FROM edits")


def test_a_time_as_a_number_filters_and_groups(store: Store) -> None:
    rows = store.sql(
        "SELECT CAST(FLOOR(__time TO MONTH) AS BIGINT) AS m, sum(added) AS s FROM edits "
        "WHERE CAST(__time AS BIGINT) < 1723334400000 GROUP BY CAST(FLOOR(__time TO MONTH) AS BIGINT)"
    ).rows()
    assert rows == [{"m": 1_709_251_200_000, "s": 8}]
