"""Into which chunk a row goes."""

from __future__ import annotations

from carnac.core.log.layout import overlapping, plan_chunks
from carnac.core.time.granularity import parse_granularity
from carnac.core.time.intervals import Interval, parse_interval
from tests.logs import days

DAY = parse_granularity("day")
MONTH = parse_granularity("month")


def chunks_of(
    granularity: str, data: str, *existing: str, within: tuple[str, ...] = ()
) -> list[str]:
    planned = plan_chunks(
        parse_granularity(granularity),
        [parse_interval(text) for text in existing],
        days(*within) if within else None,
        parse_interval(data),
    )
    return [
        str(chunk).replace("T00:00:00.000Z", "").replace(":00:00.000Z", "h") for chunk in planned
    ]


def test_buckets_where_nothing_is() -> None:
    assert chunks_of("day", "2013-01-01T06:00/2013-01-02T06:00") == [
        "2013-01-01/2013-01-02",
        "2013-01-02/2013-01-03",
    ]


def test_an_existing_chunk_wins_whether_it_is_coarser_or_finer() -> None:
    assert chunks_of("day", "2013-01-10/2013-01-11", "2013-01-01/2013-02-01") == [
        "2013-01-01/2013-02-01"
    ]
    assert chunks_of(
        "day", "2013-01-10T01:00/2013-01-10T02:00", "2013-01-10T01:00/2013-01-10T02:00"
    ) == ["2013-01-10T01h/2013-01-10T02h"]


def test_beside_an_existing_chunk_the_largest_finer_bucket_that_fits() -> None:
    assert chunks_of("month", "2013-01-30/2013-02-01", "2013-01-01/2013-01-31") == [
        "2013-01-01/2013-01-31",
        "2013-01-31/2013-02-01",
    ]
    assert chunks_of("day", "2013-01-01/2013-01-02", "2013-01-01T05:00/2013-01-01T06:00") == [
        f"2013-01-01{start}/2013-01-01{end}".replace("2013-01-01T24h", "2013-01-02")
        for start, end in [
            ("", "T01h"),
            ("T01h", "T02h"),
            ("T02h", "T03h"),
            ("T03h", "T04h"),
            ("T04h", "T05h"),
        ]
    ] + [
        "2013-01-01T05h/2013-01-01T06h",
        "2013-01-01T06h/2013-01-01T07h",
        "2013-01-01T07h/2013-01-01T08h",
        "2013-01-01T08h/2013-01-01T16h",
        "2013-01-01T16h/2013-01-02",
    ]


def test_what_is_finer_than_a_second_is_one_cell() -> None:
    existing = [Interval(0, 86_399_500)]
    planned = plan_chunks(DAY, existing, None, Interval(86_399_600, 86_399_700))
    assert planned == (Interval(86_399_500, 86_400_000),)


def test_a_replacement_is_cut_at_its_ends() -> None:
    assert chunks_of("month", "2013-01-05/2013-02-10", within=("2013-01-10/2013-02-05",)) == [
        "2013-01-10/2013-02-01",
        "2013-02-01/2013-02-05",
    ]
    assert chunks_of("day", "2013-01-01/2013-01-02", within=("2013-02-01/2013-02-05",)) == []


def test_only_chunks_that_the_rows_touch() -> None:
    assert chunks_of("day", "2013-01-02/2013-01-03", "2013-01-05/2013-01-06") == [
        "2013-01-02/2013-01-03"
    ]


def test_overlapping_is_half_open() -> None:
    chunks = [Interval(0, 10), Interval(10, 20), Interval(30, 40)]
    assert overlapping(chunks, Interval(10, 30)) == [Interval(10, 20)]
    assert overlapping(chunks, Interval(9, 31)) == chunks
    assert overlapping(chunks, Interval(20, 30)) == []
    assert list(overlapping([], Interval(20, 30))) == []


def test_month_is_not_week_aligned() -> None:
    assert not MONTH.is_aligned(parse_interval("2013-01-07/2013-01-14"))
