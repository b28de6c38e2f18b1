"""Statements in the form in which Superset 6.1 sends them, their numbers held against the rows of the source."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.nightly import by_day
from tests.support.serving import load_recorded, open_door, wikipedia_rows
from tests.unit.api.conftest import InProcessClient

pytestmark = pytest.mark.http

Row = dict[str, Any]


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessClient]:
    with open_door(load_recorded(tmp_path_factory.mktemp("recorded"))) as client:
        yield client


@pytest.fixture(scope="module")
def source() -> list[Row]:
    return [{**row, "at": datetime.fromisoformat(row["time"])} for row in wikipedia_rows()]


def ask(door: InProcessClient, sql: str, status: int = 200) -> Any:
    body = {"query": sql, "context": {}, "header": True}
    answer = door.request("POST", "/druid/v2/sql/", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def rows(door: InProcessClient, sql: str) -> list[tuple[Any, ...]]:
    """Return the rows after that of the names."""
    return [tuple(row.values()) for row in ask(door, sql)[1:]]


def told(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S.000Z}"


def floored(seconds: int) -> Callable[[datetime], datetime]:
    return lambda at: datetime.fromtimestamp(at.timestamp() // seconds * seconds, UTC)


def midnight(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def monday(at: datetime) -> datetime:
    return midnight(at) - timedelta(days=at.weekday())


def sunday(at: datetime) -> datetime:
    return monday(at + timedelta(days=1)) - timedelta(days=1)


_FLOOR = "TIME_FLOOR(CAST({} AS TIMESTAMP), '{}')"
_SHIFTED = "TIME_SHIFT(TIME_FLOOR(TIME_SHIFT(CAST({} AS TIMESTAMP), 'P1D', 1), 'P1W'), 'P1D', {})"
GRAINS: dict[str, Callable[[datetime], datetime]] = {
    **{
        _FLOOR.format("{0}", period): floored(seconds)
        for period, seconds in {
            "PT30S": 30,
            "PT1M": 60,
            "PT5M": 300,
            "PT10M": 600,
            "PT15M": 900,
            "PT30M": 1_800,
            "PT1H": 3_600,
            "PT6H": 21_600,
            "P1D": 86_400,
        }.items()
    },
    _FLOOR.format("{0}", "P1W"): monday,
    _FLOOR.format("{0}", "P1M"): lambda at: midnight(at).replace(day=1),
    _FLOOR.format("{0}", "P3M"): lambda at: midnight(at).replace(month=7, day=1),
    _FLOOR.format("{0}", "P1Y"): lambda at: midnight(at).replace(month=1, day=1),
    _SHIFTED.format("{0}", -1): sunday,
    _SHIFTED.format("{0}", 5): lambda at: sunday(at) + timedelta(days=6),
}


OTHERS = (
    "MILLIS_TO_TIMESTAMP(TIMESTAMP_TO_MILLIS(__time))",
    "TIME_FORMAT(__time, 'yyyy-MM-dd HH:mm:ss')",
)
"""Columns of times that are not `__time`: by night in every grain, by day in each third."""


@pytest.mark.parametrize(
    ("grain", "column"),
    [(grain, '"__time"') for grain in GRAINS] + by_day(itertools.product(GRAINS, OTHERS), 3),
)
def test_a_series_by_every_grain(
    door: InProcessClient, source: list[Row], grain: str, column: str
) -> None:
    expression = grain.format(column)
    found = rows(
        door,
        f'SELECT\n  {expression} AS "__time",\n  COUNT(*) AS "n"\nFROM "druid"."wikipedia"\n'
        f"WHERE\n  \"__time\" >= '2015-09-12 01:30:00.000000'\n  AND \"__time\" < '2015-09-12 20:00:00.000000'\n"
        f"GROUP BY\n  {expression}\nLIMIT 10000",
    )
    low, high = (datetime(2015, 9, 12, *clock, tzinfo=UTC) for clock in ((1, 30), (20, 0)))
    start = GRAINS[grain]
    wanted = Counter(start(row["at"]) for row in source if low <= row["at"] < high)
    assert dict(found) == {told(at): count for at, count in wanted.items()}


def test_days_of_another_zone_are_those_of_a_column_in_it(
    door: InProcessClient, source: list[Row]
) -> None:
    """Of a calculated column, as no setting of the connection moves days."""
    day = _FLOOR.format("__time AT TIME ZONE 'Asia/Tokyo'", "P1D")
    found = rows(door, f'SELECT {day} AS "t", COUNT(*) AS n FROM wikipedia GROUP BY {day}')
    there = Counter(told(midnight(row["at"] + timedelta(hours=9))) for row in source)
    assert dict(found) == there


def test_the_largest_series_and_the_others(door: InProcessClient, source: list[Row]) -> None:
    """In two statements: which are largest, then these, or all of which the rest is one."""
    top = rows(
        door,
        'SELECT\n  "channel" AS "channel",\n  sum("added") AS "mme_inner__"\nFROM "druid"."wikipedia"\n'
        'GROUP BY\n  "channel"\nORDER BY\n  "mme_inner__" DESC\nLIMIT 2',
    )
    sums: Counter[str] = Counter()
    for row in source:
        sums[row["channel"]] += row["added"]
    assert top == sums.most_common(2)
    case = f"CASE WHEN (\"channel\" = '{top[0][0]}' OR \"channel\" = '{top[1][0]}') THEN \"channel\" ELSE 'Others' END"
    found = rows(
        door,
        f'SELECT {case} AS "channel", sum("added") AS "sum" FROM "druid"."wikipedia" GROUP BY {case} LIMIT 10000',
    )
    assert dict(found) == {**dict(top), "Others": sums.total() - sum(n for _, n in top)}


FILTERS: dict[str, Callable[[Row], bool]] = {
    "\"namespace\" IN ('Main', 'Talk')": lambda row: row["namespace"] in {"Main", "Talk"},
    '("cityName" IS NULL OR "cityName" IN (\'Paris\'))': lambda row: (
        row["cityName"] in {None, "Paris"}
    ),
    '("cityName" IS NULL OR "cityName" IN (NULL) AND (1 != 1))': lambda row: (
        row["cityName"] is None
    ),
    "(\"namespace\" NOT IN ('Main'))": lambda row: row["namespace"] != "Main",
    "lower(\"page\") LIKE lower('%USER%')": lambda row: "user" in row["page"].lower(),
    '"added" >= 100.5': lambda row: row["added"] >= 100.5,
    "(delta * 1.0 / (added + 1) > 0.5)": lambda row: row["delta"] / (row["added"] + 1) > 0.5,
    "\"user\" = 'O''Hara 100%'": lambda row: row["user"] == "O'Hara 100%",
    "\"__time\" >= CAST(TIME_PARSE('2015-09-12') AS DATE)": lambda row: row["at"].day >= 12,
    "\"__time\" >= TIME_PARSE('2015-09-12T12:00:00')": lambda row: row["at"].hour >= 12,
}


@pytest.mark.parametrize("condition", FILTERS)
def test_filters(door: InProcessClient, source: list[Row], condition: str) -> None:
    found = rows(
        door,
        'SELECT\n  "isRobot" AS "isRobot",\n  COUNT(*) AS "n"\nFROM "druid"."wikipedia"\n'
        f'WHERE\n  {condition}\nGROUP BY\n  "isRobot"\nLIMIT 10000',
    )
    wanted = Counter(str(row["isRobot"]).lower() for row in source if FILTERS[condition](row))
    assert dict(found) == wanted


def test_metrics_of_a_table_its_totals_and_its_pages(
    door: InProcessClient, source: list[Row]
) -> None:
    metrics = (
        'COUNT(*) AS "count",\n  AVG("added") AS "AVG(added)",\n  COUNT(DISTINCT "user") AS "users",\n'
        '  SUM(CASE WHEN added > 100 THEN 1 ELSE 0 END) * 1.0 / COUNT(*) AS "share",\n'
        '  COUNT(*) FILTER(WHERE\n    deleted > 0) AS "cut",\n  APPROX_DISTINCT(page) AS "pages"'
    )
    [total] = rows(door, f'SELECT\n  {metrics}\nFROM "druid"."wikipedia"\nLIMIT 50000')
    count = len(source)
    assert total[:5] == (
        count,
        pytest.approx(sum(row["added"] for row in source) / count),
        len({row["user"] for row in source}),
        pytest.approx(sum(row["added"] > 100 for row in source) / count),
        sum(row["deleted"] > 0 for row in source),
    )
    assert total[5] == pytest.approx(len({row["page"] for row in source}), rel=0.1)
    grouped = (
        f'SELECT\n  "channel" AS "channel",\n  {metrics}\nFROM "druid"."wikipedia"\n'
        'GROUP BY\n  "channel"\nORDER BY\n  "count" DESC\nLIMIT {}'
    )
    first, second = (rows(door, grouped.format(limit)) for limit in ("5", "5 OFFSET 5"))
    both = Counter(row["channel"] for row in source).most_common(10)
    assert [(row[0], row[1]) for row in first + second] == both
    [[pages]] = rows(
        door,
        f'SELECT COUNT(*) AS "rowcount" FROM ({grouped.format(10000)}) AS "rowcount_qry"',
    )
    assert pages == len({row["channel"] for row in source})


def test_a_virtual_dataset(door: InProcessClient, source: list[Row]) -> None:
    inner = (
        "WITH busy AS (\n  SELECT\n    user,\n    COUNT(*) AS n\n  FROM wikipedia\n  GROUP BY\n    user\n)\n"
        "SELECT\n  *\nFROM busy\nWHERE\n  n > 10 /* those */"
    )
    [[users, most]] = rows(
        door,
        f'SELECT COUNT(*) AS "users", max("n") AS "most" FROM ({inner}) AS "virtual_table" LIMIT 10000',
    )
    counts = Counter(row["user"] for row in source)
    assert (users, most) == (sum(n > 10 for n in counts.values()), max(counts.values()))


def test_no_rows_still_have_their_names(door: InProcessClient) -> None:
    sql = 'SELECT "page" AS "page", COUNT(*) AS "n" FROM "druid"."wikipedia" WHERE "page" = \'\' GROUP BY "page"'
    assert ask(door, sql) == [{"page": None, "n": None}]


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT "gone" AS "gone", COUNT(*) AS "n" FROM "druid"."wikipedia" GROUP BY "gone" LIMIT 5',
        f'SELECT {_FLOOR.format(chr(34) + "gone" + chr(34), "P1D")} AS "gone" FROM "druid"."wikipedia" '
        f"GROUP BY {_FLOOR.format(chr(34) + 'gone' + chr(34), 'P1D')}",
        'SELECT "page" AS "page", sum("gone") AS "gone" FROM "druid"."wikipedia" GROUP BY "page" ORDER BY "gone" DESC',
        'SELECT "gone" AS "gone" FROM (SELECT * FROM wikipedia) AS "virtual_table" GROUP BY "gone"',
    ],
)
def test_a_column_that_is_gone_is_named(door: InProcessClient, sql: str) -> None:
    error = ask(door, sql, 400)
    assert error["errorMessage"].startswith("there is no column 'gone'")
    assert error["category"] == "INVALID_INPUT"
