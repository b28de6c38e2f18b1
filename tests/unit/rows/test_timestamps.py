"""Druid's timestampSpec: what is a time, and which."""

from __future__ import annotations

import datetime as dt
import functools
import json
from collections.abc import Iterable
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carnac.errors import Invalid
from carnac.rows.normalise.timestamps import (
    REASON_GAP,
    REASON_MISSING,
    REASON_RANGE,
    REASON_UNPARSEABLE,
)
from carnac.rows.read.reading import load_rows_from_arrow
from carnac.specs.ingest.schema import TimestampSpec
from tests.unit.rows.loading import connection, load_bytes, look, shape

pytestmark = pytest.mark.usefixtures("shared_connection")


def time_of(cell: Any, **spec: Any) -> int | str:
    """Return milliseconds, or the reason why there is no time."""
    stamp = TimestampSpec(column="t", **spec)
    found = load_bytes(json.dumps({"t": cell}), {}, timestamp=stamp)
    return int(found.rows[0]["__time"]) if found.rows else found.reasons[0]


@functools.cache
def times_of(cells: tuple[str, ...], **spec: Any) -> dict[str, int | str]:
    """Return what `time_of` does for each of many cells, given as JSON and read from one file."""
    stamp = TimestampSpec(column="t", **spec)
    lines = [f'{{"t":{cell},"n":{at}}}' for at, cell in enumerate(cells)]
    found = load_bytes("\n".join(lines), {"n": "long"}, timestamp=stamp)
    times: dict[str, int | str] = {cells[row["n"]]: int(row["__time"]) for row in found.rows}
    times |= {cells[line - 1]: reason for line, _, _, reason in found.rejected if line is not None}
    assert len(times) == len(cells)
    return times


def as_json(cells: Iterable[Any]) -> tuple[str, ...]:
    """Return the cells as JSON, each once."""
    return tuple(dict.fromkeys(map(json.dumps, cells)))


def typed_time_of(cell: Any, kind: pa.DataType, **spec: Any) -> int | str:
    table = pa.table({"t": pa.array([cell], kind)})
    stamp = TimestampSpec(column="t", **spec)
    with connection() as con:
        counts = load_rows_from_arrow(con, table, shape({}), origin="a", timestamp=stamp)
        found = look(con, counts)
    return int(found.rows[0]["__time"]) if found.rows else found.reasons[0]


WIKI = 1442018818771
ISO = [
    ("2015-09-12T00:46:58.771Z", WIKI),
    ("2015-09-12T02:46:58.771+02:00", WIKI),
    ("2015-09-12T02:46:58.771+0200", WIKI),
    ("2015-09-12T02:46:58 +02:00", WIKI - 771),
    ("2015-09-12T00:46:58.771999999Z", WIKI),
    ("2015-09-12T00:46:58,771Z", WIKI),
    ("2015-09-12t00:46:58.771z", WIKI),
    (" 2015-09-12 00:46:58.771 ", WIKI),
    ("2015-09-12 02:46:58 Europe/Paris", WIKI - 771),
    ("2015-09-12T00:46Z", 1442018760000),
    ("2015-09-12T00Z", 1442016000000),
    ("2015-09-12T00", 1442016000000),
    ("2015-09-12", 1442016000000),
    ("2015-09", 1441065600000),
    ("2015-W37-6", 1442016000000),
    ("2015-255", 1442016000000),
    ("2016-366", 1483142400000),
    ("2015-366", REASON_UNPARSEABLE),
    ("2015-W53-7", 1451779200000),
    ("2016-W53-1", REASON_UNPARSEABLE),
    ("2016-1", 1451606400000),
    ("2015-09-12T24:00:00Z", 1442102400000),
    ("2015-09-12T23:46:58.771+23:00", WIKI),
    ("2015-09-11T23:45:58.771-01:01", WIKI),
    ("2015-09-12T06:17:43.771+05:30:45", WIKI),
    ("2015-09-12T00:46:58+24:00", REASON_UNPARSEABLE),
    ("2015-09-12T00:46:58+25:00", REASON_UNPARSEABLE),
    ("2015-09-12T00:46:58-2500", REASON_UNPARSEABLE),
    ("2015-09-12 00:46:58 +99", REASON_UNPARSEABLE),
    ("2015-09-12T00:46:58-01:60", REASON_UNPARSEABLE),
    ("2015-09-12T00-25:00", REASON_UNPARSEABLE),
    ("2015-09-12T00:46:58+01:00:75", REASON_UNPARSEABLE),
    ("1969-12-31T23:59:59.9999999Z", -1),
    ("0001-01-01", -62135596800000),
    ("9999-12-31T23:59:59.999Z", 253402300799999),
    ("10000-01-01", REASON_RANGE),
    ("12015-01-01", REASON_RANGE),
    ("0000-01-01", REASON_RANGE),
    ("-0001-01-01", REASON_RANGE),
    ("2015-02-30", REASON_UNPARSEABLE),
    ("2015-13-01", REASON_UNPARSEABLE),
    ("epoch", REASON_UNPARSEABLE),
    ("infinity", REASON_UNPARSEABLE),
    ("now", REASON_UNPARSEABLE),
    ("abc", REASON_UNPARSEABLE),
    ("", REASON_UNPARSEABLE),
    (None, REASON_MISSING),
    ([1], REASON_UNPARSEABLE),
    ({"a": 1}, REASON_UNPARSEABLE),
    (True, REASON_UNPARSEABLE),
]


@pytest.mark.parametrize("kind", ["auto", "iso"])
@pytest.mark.parametrize(("cell", "time"), ISO)
def test_iso(cell: Any, time: int | str, kind: str) -> None:
    times = times_of(as_json(one for one, _ in ISO), format=kind)
    assert times[json.dumps(cell)] == time


NUMBERS = [
    (WIKI, "auto", WIKI),
    (str(WIKI), "auto", WIKI),
    ("2015", "auto", 2015),
    ("2015", "iso", 1420070400000),
    ("20150912", "auto", 20150912),
    (WIKI, "iso", REASON_UNPARSEABLE),
    (WIKI + 0.9, "auto", WIKI),
    (-1, "millis", -1),
    ("-1", "millis", -1),
    ("1.442018818771e12", "millis", WIKI),
    (1e30, "millis", REASON_UNPARSEABLE),
    ("99999999999999999", "millis", REASON_RANGE),
    (1442018818, "posix", WIKI - 771),
    ("1442018818", "posix", WIKI - 771),
    (1442018818.9, "posix", WIKI - 771),
    ("9999999999999", "posix", REASON_RANGE),
    ("9223372036854775807", "posix", REASON_RANGE),
    (1442018818771999, "micro", WIKI),
    (-1, "micro", -1),
    (1442018818771999999, "nano", WIKI),
    (-1, "nano", -1),
    (-1_000_001, "nano", -2),
    (-(2**63), "nano", -9223372036855),
    ("-9223372036854775808", "nano", -9223372036855),
    ("1e37", "posix", REASON_UNPARSEABLE),
    (1442018818.7719, "ruby", WIKI),
    ("1442018818.7719", "ruby", WIKI),
    (-0.0005, "ruby", -1),
    (1e300, "ruby", REASON_RANGE),
    ("NaN", "ruby", REASON_UNPARSEABLE),
    ("x", "posix", REASON_UNPARSEABLE),
    (None, "posix", REASON_MISSING),
]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_offsets_are_those_of_joda_whatever_the_zone(zone: str) -> None:
    cells = {
        json.dumps(cell): time for cell, time in ISO if "+" in str(cell) or ":58-" in str(cell)
    }
    found = times_of(tuple(cells), format="auto", time_zone=zone)
    assert found == cells


@pytest.mark.parametrize("pattern", ["yyyy-MM-dd HH:mm:ssZZ", "yyyyMMdd Z"])
def test_offsets_of_patterns_are_those_of_joda(pattern: str) -> None:
    head = "2015-09-12 00:46:58" if ":" in pattern else "20150912 "
    offsets = {"+0200": True, "-2359": True, "+2400": False, "-0160": False, "+9900": False}
    found = times_of(as_json(head + one for one in offsets), format=pattern)
    assert {one: isinstance(found[json.dumps(head + one)], int) for one in offsets} == offsets


@pytest.mark.parametrize(("cell", "kind", "time"), NUMBERS)
def test_numbers(cell: Any, kind: str, time: int | str) -> None:
    times = times_of(as_json(one for one, other, _ in NUMBERS if other == kind), format=kind)
    assert times[json.dumps(cell)] == time


@pytest.mark.parametrize(
    ("cell", "pattern", "time"),
    [
        ("2015-09-12T02:46:58.771+0200", "yyyy-MM-dd'T'HH:mm:ss.SSSZ", WIKI),
        ("2015-09-12T02:46:58.771+02:00", "yyyy-MM-dd'T'HH:mm:ss.SSSZZ", WIKI),
        ("2015-09-12T00:46:58.771Z", "yyyy-MM-dd'T'HH:mm:ss.SSSZ", WIKI),
        ("2015-09-12T00:46:58.771999", "yyyy-MM-dd'T'HH:mm:ss.SSSSSS", WIKI),
        ("2015-09-12T00:46:58.771999999", "yyyy-MM-dd'T'HH:mm:ss.SSSSSSSSS", WIKI),
        ("2015-09-12T02:46:58.771999999+02:00", "yyyy-MM-dd'T'HH:mm:ss.SSSSSSSSSZZ", WIKI),
        ("1969-12-31 23:59:59.999999999", "yyyy-MM-dd HH:mm:ss.SSSSSSSSS", -1),
        ("20150912004658771999", "yyyyMMddHHmmssSSSSSS", WIKI),
        ("20150912004658771999999", "yyyyMMddHHmmssSSSSSSSSS", WIKI),
        ("09/12/2015 00:46", "MM/dd/yyyy HH:mm", 1442018760000),
        ("9/2/2015 0:46", "M/d/yyyy H:mm", 1441154760000),
        ("Sat, 12 Sep 2015 00:46:58", "EEE, dd MMM yyyy HH:mm:ss", WIKI - 771),
        ("Saturday 12 September 2015", "EEEE dd MMMM yyyy", 1442016000000),
        ("20150912004658", "yyyyMMddHHmmss", WIKI - 771),
        (20150912, "yyyyMMdd", 1442016000000),
        ("1970.0", "yyyy", 0),
        (1970.0, "yyyy", 0),
        ("20150912.00 ", "yyyyMMdd", 1442016000000),
        ("1970.5", "yyyy", REASON_UNPARSEABLE),
        ("1970.", "yyyy", REASON_UNPARSEABLE),
        ("03:05 PM 2015-01-01", "hh:mm a yyyy-MM-dd", 1420124700000),
        ("12-Sep-15 01.02.03", "dd-MMM-yy HH.mm.ss", 1442019723000),
        ("2015-255", "yyyy-DDD", 1442016000000),
        ("2015-W37", "xxxx-'W'ww", 1441584000000),
        ("2015-W37-6", "xxxx-'W'ww-e", 1442016000000),
        ("2015-W54", "xxxx-'W'ww", REASON_UNPARSEABLE),
        ("2016-W53", "xxxx-'W'ww", REASON_UNPARSEABLE),
        ("2015-366", "yyyy-DDD", REASON_UNPARSEABLE),
        ("2016-001 00:00:07", "yyyy-DDD HH:mm:ss", 1451606407000),
        ("day 2015-09-12 at 100%", "'day 'yyyy-MM-dd' at 100%'", 1442016000000),
        ("2015-09-12", "yyyy/MM/dd", REASON_UNPARSEABLE),
        ("2015-02-30", "yyyy-MM-dd", REASON_UNPARSEABLE),
        ("2015-09-12x", "yyyy-MM-dd", REASON_UNPARSEABLE),
        ("epoch", "yyyy-MM-dd", REASON_UNPARSEABLE),
        ("", "yyyy-MM-dd", REASON_UNPARSEABLE),
        (None, "yyyy-MM-dd", REASON_MISSING),
    ],
)
def test_patterns(cell: Any, pattern: str, time: int | str) -> None:
    assert time_of(cell, format=pattern) == time


def test_pattern_that_cannot_be_read_names_its_part() -> None:
    with pytest.raises(ValueError, match=r"pattern 'yyyy-kk' has a part that cannot be read"):
        time_of("2015-17", format="yyyy-kk")


def millis(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> int:
    moment = dt.datetime(year, month, day, hour, minute, tzinfo=dt.UTC)
    return int(moment.timestamp()) * 1000


ZONED = [
    ("2021-06-01", "Europe/Paris", millis(2021, 5, 31, 22)),
    ("2021-06", "Europe/Paris", millis(2021, 5, 31, 22)),
    ("2021-06-01T00:00:00Z", "Europe/Paris", millis(2021, 6, 1)),
    ("2021-06-01T00:00:00+05", "Europe/Paris", millis(2021, 5, 31, 19)),
    ("2021-06-01 00:00:00 America/New_York", "Europe/Paris", millis(2021, 6, 1, 4)),
    *(
        (f"2021-06-01 10:00:00 {name}", "America/New_York", millis(2021, 6, 1, hour))
        for name, hour in (
            ("GMT+2", 8),
            ("Etc/GMT+5", 15),
            ("PST8PDT", 17),
            ("W-SU", 7),
            ("UTC", 10),
        )
    ),
    ("2021-06-01", "+05:30", millis(2021, 5, 31, 18, 30)),
    ("2021-06-01", "-08:00", millis(2021, 6, 1, 8)),
    ("1622505600000", "Europe/Paris", 1622505600000),
    # 02:30 came twice in Paris, at 00:30Z and at 01:30Z
    ("2021-10-31T01:59:00", "Europe/Paris", millis(2021, 10, 30, 23, 59)),
    ("2021-10-31T02:30:00", "Europe/Paris", millis(2021, 10, 31, 0, 30)),
    ("2021-10-31T03:00:00", "Europe/Paris", millis(2021, 10, 31, 2)),
    # 02:30 never came
    ("2021-03-28T01:59:00", "Europe/Paris", millis(2021, 3, 28, 0, 59)),
    ("2021-03-28T02:30:00", "Europe/Paris", REASON_GAP),
    ("2021-03-28T03:00:00", "Europe/Paris", millis(2021, 3, 28, 1)),
    # clocks change by half an hour
    ("2021-04-04T01:45:00", "Australia/Lord_Howe", millis(2021, 4, 3, 14, 45)),
    ("2021-10-03T02:15:00", "Australia/Lord_Howe", REASON_GAP),
    ("0001-01-01", "Europe/Paris", REASON_RANGE),
    ("x", "Europe/Paris", REASON_UNPARSEABLE),
]


@pytest.mark.parametrize(("cell", "zone", "time"), ZONED)
def test_zone_of_times_that_name_none(cell: str, zone: str, time: int | str) -> None:
    times = times_of(as_json(one for one, other, _ in ZONED if other == zone), time_zone=zone)
    assert times[json.dumps(cell)] == time


WALLS = st.datetimes(*(dt.datetime.fromisoformat(end) for end in ("1980-01-01", "2030-12-31")))


@pytest.mark.slow
@settings(max_examples=max(3, settings().max_examples // 5))  # of many times each
@given(
    st.lists(WALLS, min_size=1, max_size=20),
    st.sampled_from(["Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]),
)
def test_zones_agree_with_those_of_python(walls: list[dt.datetime], zone: str) -> None:
    expected: dict[dt.datetime, int | str] = {}
    for wall in (one.replace(second=0, microsecond=0) for one in walls):
        earlier = wall.replace(tzinfo=ZoneInfo(zone), fold=0)
        exists = earlier.astimezone(dt.UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None) == wall
        expected[wall] = int(earlier.timestamp()) * 1000 if exists else REASON_GAP
    iso = {json.dumps(wall.isoformat()): time for wall, time in expected.items()}
    assert times_of(tuple(iso), time_zone=zone) == iso
    ours = {json.dumps(f"{wall:%d.%m.%Y %H:%M}"): time for wall, time in expected.items()}
    assert times_of(tuple(ours), format="dd.MM.yyyy HH:mm", time_zone=zone) == ours


@pytest.mark.parametrize(
    ("cell", "time"),
    [(None, 946684800000), ("", REASON_UNPARSEABLE), ("x", REASON_UNPARSEABLE), (5, 5)],
)
def test_missing_value_stands_for_null_only(cell: Any, time: int | str) -> None:
    assert time_of(cell, missing_value="2000-01-01") == time


def test_missing_value_stands_for_a_column_that_is_not_there() -> None:
    stamp = TimestampSpec(column="t", missing_value="2000-01-01")
    assert load_bytes('{"x":1}', {}, timestamp=stamp).column("__time") == [946684800000]
    assert load_bytes('{"x":1}', {}).rejected == [(1, 0, '{"x":1}', REASON_MISSING)]


NOON = dt.datetime.fromisoformat("2013-01-31T12:00:00.005999")


@pytest.mark.parametrize(
    ("cell", "kind", "spec", "time"),
    [
        (NOON, pa.timestamp("us"), {}, 1359633600005),
        (NOON, pa.timestamp("us"), {"time_zone": "Europe/Paris"}, 1359630000005),
        (
            NOON,
            pa.timestamp("us", "America/New_York"),
            {"time_zone": "Europe/Paris"},
            1359633600005,
        ),
        (NOON, pa.timestamp("ns"), {}, 1359633600005),
        (NOON.replace(microsecond=0), pa.timestamp("s"), {}, 1359633600000),
        (dt.date(2013, 1, 31), pa.date32(), {}, 1359590400000),
        (dt.date(2013, 1, 31), pa.date32(), {"time_zone": "Europe/Paris"}, 1359586800000),
        (1359633600, pa.int64(), {"format": "posix"}, 1359633600000),
        (1359633600005, pa.int64(), {}, 1359633600005),
        (1359633600.5, pa.float64(), {"format": "ruby"}, 1359633600500),
        (20130131, pa.int32(), {"format": "yyyyMMdd"}, 1359590400000),
        ("2013-01-31", pa.string(), {}, 1359590400000),
        (None, pa.timestamp("us"), {}, REASON_MISSING),
        (2**62, pa.int64(), {}, REASON_RANGE),
    ],
)
def test_typed_times(cell: Any, kind: pa.DataType, spec: dict[str, Any], time: int | str) -> None:
    assert typed_time_of(cell, kind, **spec) == time


def test_type_that_is_no_time_is_one_error() -> None:
    with pytest.raises(Invalid, match=r"column 't' of type BOOLEAN cannot be the timestamp"):
        typed_time_of(True, pa.bool_())
