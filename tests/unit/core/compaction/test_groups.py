"""Which time chunks a change of granularity must rewrite together, and what their records say afterwards."""

from __future__ import annotations

import pytest

from carnac.core.compaction.plan.groups import whole_intervals
from carnac.core.compaction.plan.notes import filter_of, with_filter
from carnac.core.segments.segment import Segment
from carnac.core.time.intervals import Interval, parse_interval


def months(*texts: str) -> list[Interval]:
    return [parse_interval(text) for text in texts]


@pytest.mark.parametrize(
    ("chunks", "granularity", "wanted"),
    [
        ([], "MONTH", []),
        (["2026-01-01/2026-01-02"], "MONTH", ["2026-01-01/2026-02-01"]),
        # days of one month go together, those of the next apart
        (
            ["2026-01-01/2026-01-02", "2026-01-31/2026-02-01", "2026-02-01/2026-02-02"],
            "MONTH",
            ["2026-01-01/2026-02-01", "2026-02-01/2026-03-01"],
        ),
        # a chunk that ends where a bucket begins has nothing in it
        (["2026-01-01/2026-02-01"], "MONTH", ["2026-01-01/2026-02-01"]),
        # a week over the border of two months ties them together, and the one after it
        (
            ["2026-01-05/2026-01-12", "2026-01-26/2026-02-02", "2026-02-09/2026-02-10"],
            "MONTH",
            ["2026-01-01/2026-03-01"],
        ),
        # what comes later does not make it shorter
        (
            ["2026-01-01/2027-01-01", "2027-01-01/2027-01-02"],
            "MONTH",
            ["2026-01-01/2027-01-01", "2027-01-01/2027-02-01"],
        ),
        (["2026-01-01/2026-03-01"], "DAY", ["2026-01-01/2026-03-01"]),
    ],
)
def test_chunks_that_share_a_bucket_are_rewritten_together(
    chunks: list[str], granularity: str, wanted: list[str]
) -> None:
    assert list(whole_intervals(months(*chunks), granularity)) == months(*wanted)


def test_without_a_granularity_each_chunk_is_rewritten_alone() -> None:
    chunks = months("2026-01-01/2026-01-02", "2026-01-02/2026-01-03")
    assert list(whole_intervals(chunks, None)) == chunks


def segment(name: str, condition: str | None = None) -> Segment:
    chunk = parse_interval("2026-01-01/2026-01-02")
    made = Segment(
        segment_id=name,
        datasource="events",
        chunk=chunk,
        path=f"{name}.parquet",
        size_bytes=10,
        rows=1,
        input_rows=1,
        min_time_ms=chunk.start_ms,
        max_time_ms=chunk.start_ms,
        columns=(),
    )
    return with_filter([made], [], condition)[0]


def test_what_a_rewrite_filtered_says_so() -> None:
    (written,) = with_filter([segment("out")], [segment("in", "n > 1")], "n > 0")
    assert filter_of(written) == "n > 0"
    assert filter_of(segment("out")) is None


def test_a_rewrite_without_a_condition_keeps_the_one_that_all_inputs_passed() -> None:
    out, old, same = segment("out"), segment("a", "n > 0"), segment("b", "n > 0")
    assert [filter_of(one) for one in with_filter([out], [old, same], None)] == ["n > 0"]
    assert with_filter([out], [old, segment("c", "n > 1")], None) == (out,)
    assert with_filter([out], [old, segment("d")], None) == (out,)
    assert with_filter([out], [segment("d")], None) == (out,)
    assert with_filter([out], [], None) == (out,)
