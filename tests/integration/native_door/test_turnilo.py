"""What Turnilo asks, as plywood 0.33 writes it: splits, comparisons with the month before, menus, raw rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from carnac.bootstrap.store import open_store
from tests.support.serving import open_door
from tests.unit.api.conftest import InProcessClient

pytestmark = pytest.mark.http

ROWS = [
    {"time": f"2024-0{month}-{day:02}T{8 + day % 2}:30:00Z", "who": who, "n": 700 * day, "ok": who == "ada"}
    for month in (5, 6)
    for day in (1, 2, 31 if month == 5 else 30)
    for who in (("ada", "bob") if day < 30 else ("ada",))
]  # fmt: skip
JUNE, MAY = "2024-06-01T00Z/2024-07-01T00Z", "2024-05-01T00Z/2024-06-01T00Z"
BOTH = {"dataSource": "edits", "intervals": "2024-05-01T00Z/2024-07-01T00Z", "granularity": "all"}
COUNT = [{"name": "count", "type": "count"}]
COMPARED = [
    {
        "type": "filtered",
        "name": name,
        "filter": {"type": "interval", "dimension": "__time", "intervals": [within]},
        "aggregator": {"name": name, "type": "count"},
    }
    for name, within in (("count", JUNE), ("_previous__count", MAY))
]
DELTA = {
    "type": "expression",
    "expression": '("count"-"_previous__count")',
    "name": "_delta__count",
}


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessClient]:
    store = tmp_path_factory.mktemp("door") / "store"
    with open_store(store, create=True) as opened:
        opened.append("edits", ROWS)
    with open_door(store) as client:
        yield client


def ask(door: InProcessClient, kind: str, **query: object) -> Any:
    body = {**BOTH, "queryType": kind, **query, "context": {"timeout": 30_000}}
    answer = door.post("/druid/v2/", json=body, headers={"content-type": "application/json"})
    assert answer.status_code == 200, answer.text
    return answer.json()


def hours_split(zone: str, period: str) -> dict[str, object]:
    """Return the dimension by which a split of time is written that is not sorted by time, or has a limit."""
    return {
        "type": "extraction",
        "dimension": "__time",
        "outputName": "***__time",
        "extractionFn": {
            "type": "timeFormat",
            "granularity": {"type": "period", "period": period, "timeZone": zone},
            "format": "yyyy-MM-dd'T'HH:mm:ss'Z",  # its last quote is left open
            "timeZone": "Etc/UTC",
        },
    }


@pytest.mark.parametrize(
    ("zone", "period", "metric", "found"),
    [
        ("Etc/UTC", "P1D", "count", [("2024-05-01T00:00:00Z", 2), ("2024-05-02T00:00:00Z", 2)]),
        ("Asia/Kathmandu", "P1M", "count", [("2024-04-30T18:15:00Z", 5), ("2024-05-31T18:15:00Z", 5)]),
        (
            "Etc/UTC",
            "PT1H",
            {"type": "inverted", "metric": {"type": "dimension", "ordering": "lexicographic"}},
            [("2024-06-30T08:00:00Z", 1), ("2024-06-02T08:00:00Z", 2)],
        ),
    ],
)  # fmt: skip
def test_time_is_split_into_texts(
    door: InProcessClient, zone: str, period: str, metric: object, found: list[tuple[str, int]]
) -> None:
    [answer] = ask(
        door, "topN", dimension=hours_split(zone, period), aggregations=COUNT, metric=metric, threshold=2
    )  # fmt: skip
    assert [(one["***__time"], one["count"]) for one in answer["result"]] == found


def test_parts_of_times_are_numbers_and_names_are_english(door: InProcessClient) -> None:
    def split(pattern: str, locale: str) -> httpx.Response:
        part = {"type": "timeFormat", "format": pattern, "locale": locale, "timeZone": "Etc/UTC"}
        dimension = {
            "type": "extraction", "dimension": "__time", "outputName": "t", "outputType": "LONG", "extractionFn": part
        }  # fmt: skip
        body = {
            **BOTH, "queryType": "topN", "dimension": dimension, "aggregations": COUNT, "metric": "count",
            "threshold": 2,
        }  # fmt: skip
        return door.post("/druid/v2", json=body)

    assert split("w", "en-US").json()[0]["result"] == [
        {"t": 22, "count": 5}, {"t": 18, "count": 4}
    ]  # fmt: skip
    assert split("H", "fr").json()[0]["result"] == [{"t": 8, "count": 5}, {"t": 9, "count": 5}]
    refused = split("MMMM", "fr")
    assert (refused.status_code, "English here" in refused.json()["errorMessage"]) == (400, True)


def test_a_split_of_numbers_is_by_buckets(door: InProcessClient) -> None:
    bucket = {"type": "bucket", "size": 1_000}
    dimension = {
        "type": "extraction", "dimension": "n", "outputName": "n", "extractionFn": bucket
    }  # fmt: skip
    metric = {"type": "dimension", "ordering": "numeric"}
    [answer] = ask(
        door, "topN", dimension=dimension, aggregations=COUNT, metric=metric, threshold=5_000
    )
    assert answer["result"] == [
        {"n": "0", "count": 4},
        {"n": "1000", "count": 4},
        {"n": "21000", "count": 2},
    ]


def test_a_bucket_of_half_a_unit_keeps_its_fraction(door: InProcessClient) -> None:
    bucket = {"type": "bucket", "size": 0.5, "offset": -0.25}
    dimension = {
        "type": "extraction", "dimension": "n", "outputName": "n", "extractionFn": bucket
    }  # fmt: skip
    [answer] = ask(
        door, "topN", dimension=dimension, aggregations=COUNT, metric="count", threshold=1
    )
    assert answer["result"] == [{"n": "1399.75", "count": 4}]


def test_a_comparison_moves_the_times_of_the_period_before(door: InProcessClient) -> None:
    moved = (
        "timestamp_floor(nvl(if((1717200000000<=__time && __time<1719792000000),__time,null),"
        "timestamp_shift(__time,'P1M',1,'Etc\\u002fUTC')),'P1D',null,'Etc\\u002fUTC')"
    )
    split = {"type": "expression", "name": "v:t", "expression": moved, "outputType": "LONG"}
    dimension = {
        "type": "default", "dimension": "v:t", "outputName": "t", "outputType": "LONG"
    }  # fmt: skip
    found = ask(
        door, "groupBy", virtualColumns=[split], dimensions=[dimension], aggregations=COMPARED,
        postAggregations=[DELTA],
    )  # fmt: skip
    assert [tuple(one["event"].values()) for one in found] == [
        (1_717_200_000_000, 2, 2, 0),
        (1_717_286_400_000, 2, 2, 0),
        (1_719_705_600_000, 1, 1, 0),  # the 31st of May is compared with the 30th of June
    ]


def test_a_menu_of_values_is_searched(door: InProcessClient) -> None:
    search = {"type": "contains", "value": "BO", "caseSensitive": False}
    [answer] = ask(
        door,
        "topN",
        filter={"type": "search", "dimension": "who", "query": search},
        dimension={"type": "default", "dimension": "who", "outputName": "who"},
        aggregations=[{"name": "MEASURE", "type": "count"}],
        metric="MEASURE",
        threshold=6,
    )
    assert answer["result"] == [{"who": "bob", "MEASURE": 4}]


def test_a_boolean_is_one_text_in_raw_rows_splits_filters_and_what_is_told_of_columns(
    door: InProcessClient,
) -> None:
    [told] = ask(door, "segmentMetadata", merge=True, analysisTypes=["aggregators"])
    assert told["columns"]["ok"]["type"] == "STRING"
    columns = ["who", "ok"]
    [batch] = ask(door, "scan", columns=columns, resultFormat="compactedList", limit=2)
    assert batch["events"] == [["ada", "true"], ["bob", "false"]]
    assert {one["name"]: one["type"] for one in batch["rowSignature"]}["ok"] == "STRING"
    [split] = ask(door, "topN", dimension="ok", aggregations=COUNT, metric="count", threshold=2)
    assert split["result"] == [{"ok": "true", "count": 6}, {"ok": "false", "count": 4}]
    [kept] = ask(
        door, "timeseries", aggregations=COUNT,
        filter={"type": "selector", "dimension": "ok", "value": "true"},
    )  # fmt: skip
    assert kept["result"] == {"count": 6}


def test_a_condition_is_one_or_zero(door: InProcessClient) -> None:
    is_ada = {
        "type": "expression", "name": "v", "expression": "(\"who\"=='ada')", "outputType": "STRING"
    }  # fmt: skip
    for virtual in (is_ada, {**is_ada, "outputType": None}):
        [split] = ask(
            door, "topN", virtualColumns=[virtual], dimension="v", aggregations=COUNT, metric="count",
            threshold=2,
        )  # fmt: skip
        assert split["result"] == [{"v": "1", "count": 6}, {"v": "0", "count": 4}]
