from __future__ import annotations

import json
import re
from typing import Any

import pytest

from carnac.console.export import render_chart
from carnac.console.picture import CHUNKS_MAX, COLORS, draw_segments, segment_blocks
from carnac.core.log.entries import VisibleSegment
from carnac.core.segments.segment import Segment
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.errors import Invalid
from tests.support.segments import entry_of

DAY_MS = 86_400_000


def shown(
    day: int, rows: int, *, revision: int = 1, number: int = 0, clipped: bool = False
) -> VisibleSegment:
    chunk = Interval(day * DAY_MS, (day + 1) * DAY_MS)
    segment = Segment(
        segment_id=f"{day}-{revision}-{number}",
        datasource="flights",
        chunk=chunk,
        path="segments/x",
        size_bytes=rows * 10,
        rows=rows,
        input_rows=rows,
        min_time_ms=chunk.start_ms,
        max_time_ms=chunk.end_ms - 1,
        columns=(),
    )
    clip = IntervalSet((Interval(chunk.start_ms, chunk.start_ms + 1000),)) if clipped else None
    return entry_of(segment, clip=clip, number=number, revision=revision)


def draw(items: list[VisibleSegment], **changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"datasource": "flights", "revision": 9, "labels": {1: "1 append"}}
    return draw_segments(items, **{**given, **changes})


def test_a_block_is_what_one_commit_added_in_one_chunk() -> None:
    items = [shown(0, 5), shown(0, 7, number=1), shown(0, 2, revision=3), shown(1, 1, clipped=True)]
    blocks = segment_blocks(items)
    assert [(b.rows, b.segments, b.revision, b.is_clipped) for b in blocks] == [
        (12, 2, 1, False),
        (2, 1, 3, False),
        (1, 1, 1, True),
    ]


def test_blocks_of_a_chunk_are_piled_without_gap_or_overlap() -> None:
    chart = draw([shown(0, 5), shown(0, 7, revision=2), shown(1, 3)])
    values = chart["data"]["values"]
    assert [(v["low"], v["high"]) for v in values] == [(0, 5), (5, 12), (0, 3)]
    assert [v["commit"] for v in values] == ["1 append", "2", "1 append"]
    assert chart["title"]["subtitle"] == "2 time chunks, 3 segments, 15 rows"


def test_only_clipped_blocks_are_hatched() -> None:
    assert len(draw([shown(0, 5)])["layer"]) == 1
    layers = draw([shown(0, 5), shown(1, 5, clipped=True)])["layer"]
    assert layers[1]["transform"] == [{"filter": "datum.clipped"}]
    assert layers[1]["mark"]["fill"]["gradient"] == "linear"


def test_many_commits_get_a_scale_instead_of_names() -> None:
    few = draw([shown(day, 1, revision=day + 1) for day in range(len(COLORS))])
    many = draw([shown(day, 1, revision=day + 1) for day in range(len(COLORS) + 1)])
    assert few["layer"][0]["encoding"]["color"]["type"] == "nominal"
    assert many["layer"][0]["encoding"]["color"]["type"] == "quantitative"


def test_commits_with_one_label_have_one_colour() -> None:
    labels = {1: "1 append", **dict.fromkeys(range(2, 40), "2 to 39 rewrite")}
    chart = draw([shown(day, 1, revision=day + 1) for day in range(39)], labels=labels)
    scale = chart["layer"][0]["encoding"]["color"]["scale"]
    assert scale == {"domain": ["1 append", "2 to 39 rewrite"], "range": list(COLORS[:2])}


def test_nothing_and_too_much_are_refused() -> None:
    with pytest.raises(Invalid, match="nothing to draw"):
        draw([])
    with pytest.raises(Invalid, match="narrow it with --interval"):
        draw([shown(day, 1) for day in range(CHUNKS_MAX + 1)])


@pytest.mark.slow
def test_a_year_of_days_has_a_column_for_every_day() -> None:
    chart = draw([shown(day, 100 + day) for day in range(365)])
    json.dumps(chart, allow_nan=False)
    svg = render_chart(chart, ".svg").decode()
    assert (
        svg.count('aria-roledescription="rect mark"') + svg.count('aria-roledescription="bar"')
        >= 365
    )
    with pytest.raises(Invalid, match=r"\.svg, \.png, \.html"):
        render_chart(chart, ".gif")


def test_one_of_a_kind_is_counted_as_one_and_shares_are_no_rows() -> None:
    assert draw([shown(0, 1)])["title"]["subtitle"] == "1 time chunk, 1 segment, 1 row"
    svg = render_chart(draw([shown(0, 3)]), ".svg").decode()
    labels = re.findall(r">([\d:]+)</text>", svg)
    assert labels.count("2") == labels.count("3") == 1, "and nothing rounded to them"
    assert "03:00" in labels, "not 03 AM"


@pytest.mark.slow
def test_a_page_is_as_wide_as_its_window() -> None:
    page = render_chart(draw([shown(0, 1)]), ".html").decode()
    assert page.index("max-width: max(calc(100vw") < page.index("<body>") < page.index("vegaEmbed")


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 9, 20])
def test_each_number_of_rows_stands_once_beside_the_picture(rows: int) -> None:
    svg = render_chart(draw([shown(0, rows)]), ".svg").decode()
    told = re.findall(r">([\d,]+)</text>", svg[svg.index("Y-axis") :])
    assert told[0] == "0"
    assert told == list(dict.fromkeys(told))
