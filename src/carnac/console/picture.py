"""The picture of a datasource: time chunks along time, segments as blocks, coloured by the commit that added them.

Pure: takes segments, returns a Vega-Lite chart as plain data. One column is one time chunk, as wide as it is long. A
block is what one commit added in one chunk; its height is its number of rows. A clipped block (not all of the segment
is visible) is hatched, at its full height.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from carnac.console.looks import HOURS, Chart, chart_head, whole_ticks
from carnac.core.log.entries import VisibleSegment
from carnac.core.time.intervals import Interval, interval_text
from carnac.core.words import counted
from carnac.errors import Invalid

WIDTH, HEIGHT = 1080, 300
CHUNKS_MAX = 2_000
"""More columns than this cannot be told apart at this width."""
COLORS = ("#33658a", "#f6ae2d", "#d1495b", "#2a9d8f", "#8e6c8a", "#86bbd8", "#55a630", "#6c757d")
"""Told apart by people who see colours differently, on white."""
HATCHES = 12
TICKS = 8
_LABEL = 420
_LEGEND: Chart = {
    "titleFontSize": 12,
    "labelLimit": _LABEL,
    "symbolType": "square",
    "columnPadding": _LABEL / 5,
}
"""Two columns of it fit below the picture, however wide the letters are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The segments that one commit added in one time chunk."""

    chunk: Interval
    revision: int
    is_clipped: bool
    rows: int
    segments: int
    size_bytes: int


def segment_blocks(items: Sequence[VisibleSegment]) -> tuple[Block, ...]:
    """Return the blocks of the segments, in order of time and revision."""
    sums: dict[tuple[Interval, int, bool], list[int]] = defaultdict(lambda: [0, 0, 0])
    for item in items:
        key = (item.entry.chunk, item.entry.added_revision, item.entry.clip is not None)
        total = sums[key]
        total[0] += item.segment.rows
        total[1] += 1
        total[2] += item.segment.size_bytes
    return tuple(
        Block(
            chunk=chunk,
            revision=revision,
            is_clipped=is_clipped,
            rows=rows,
            segments=segments,
            size_bytes=size,
        )
        for (chunk, revision, is_clipped), (rows, segments, size) in sorted(sums.items())
    )


def draw_segments(
    items: Sequence[VisibleSegment],
    *,
    datasource: str,
    revision: int,
    labels: Mapping[int, str],
    title: str | None = None,
) -> Chart:
    """Return the chart of the segments that are visible at a revision.

    Args:
        labels: Labels of revisions in the legend; a revision without one is named by its number. Revisions with the
            same label have the same colour.
        title: Default: the datasource and the revision.

    Raises:
        Invalid: There is nothing to draw, or too much to tell apart.
    """
    blocks = segment_blocks(items)
    chunks = {block.chunk for block in blocks}
    if not blocks:
        raise Invalid(f"{datasource} shows no segment there, so there is nothing to draw")
    if len(chunks) > CHUNKS_MAX:
        raise Invalid(
            f"{datasource} has {counted(len(chunks), 'time chunk')} there, of which a picture shows at most "
            f"{CHUNKS_MAX:,}; narrow it with --interval"
        )
    values = _stack(blocks, labels)
    return {
        **chart_head(
            title or f"{datasource} at revision {revision}", _subtitle(blocks), legend=_LEGEND
        ),
        "width": WIDTH,
        "height": HEIGHT,
        "data": {"values": values},
        "layer": _layers(blocks, labels, _position(max(int(str(one["high"])) for one in values))),
    }


def _subtitle(blocks: Sequence[Block]) -> str:
    chunks = len({block.chunk for block in blocks})
    rows = sum(block.rows for block in blocks)
    segments = sum(block.segments for block in blocks)
    text = ", ".join(
        (counted(chunks, "time chunk"), counted(segments, "segment"), counted(rows, "row"))
    )
    if any(block.is_clipped for block in blocks):
        text += "; hatched: clipped, not all of the segment is visible"
    return text


def _stack(blocks: Sequence[Block], labels: Mapping[int, str]) -> list[dict[str, object]]:
    """Return the blocks with their place in the pile of their chunk: the oldest commit lies lowest."""
    tops: dict[Interval, int] = defaultdict(int)
    values: list[dict[str, object]] = []
    for block in blocks:
        low = tops[block.chunk]
        tops[block.chunk] = low + block.rows
        values.append(
            {
                "start": block.chunk.start_ms,
                "end": block.chunk.end_ms,
                "low": low,
                "high": low + block.rows,
                "rows": block.rows,
                "segments": block.segments,
                "kilobytes": round(block.size_bytes / 1000, 1),
                "chunk": interval_text(block.chunk),
                "revision": block.revision,
                "commit": labels.get(block.revision, f"{block.revision}"),
                "clipped": block.is_clipped,
            }
        )
    return values


def _layers(
    blocks: Sequence[Block], labels: Mapping[int, str], position: Mapping[str, object]
) -> list[dict[str, object]]:
    revisions = sorted({block.revision for block in blocks})
    gap = 0.35 if len({block.chunk for block in blocks}) > WIDTH / 8 else 1.0
    layers: list[dict[str, object]] = [
        {
            "mark": {"type": "rect", "stroke": "white", "strokeWidth": gap},
            "encoding": {**position, "color": _color(revisions, labels), "tooltip": _tooltip()},
        }
    ]
    if any(block.is_clipped for block in blocks):
        layers.append(
            {
                "transform": [{"filter": "datum.clipped"}],
                "mark": {"type": "rect", "fill": _hatch(), "stroke": "white", "strokeWidth": gap},
                "encoding": {**position, "tooltip": _tooltip()},
            }
        )
    return layers


def _position(top: int) -> dict[str, object]:
    """Return where blocks stand, of which the highest pile has so many rows."""
    time_axis = {
        "title": None,
        "grid": False,
        "tickCount": 12,
        "labelFlush": True,
        "format": HOURS,
        "tickColor": "#999",
        "domainColor": "#999",
    }
    return {
        "x": {"field": "start", "type": "temporal", "scale": {"type": "utc"}, "axis": time_axis},
        "x2": {"field": "end"},
        "y": {
            "field": "low",
            "type": "quantitative",
            "title": "rows in a time chunk",
            "axis": {
                "grid": True,
                "gridColor": "#e6e6e6",
                "domain": False,
                "ticks": False,
                **whole_ticks(top, TICKS),
            },
        },
        "y2": {"field": "high"},
    }


def _color(revisions: Sequence[int], labels: Mapping[int, str]) -> dict[str, object]:
    names = list(dict.fromkeys(labels.get(revision, f"{revision}") for revision in revisions))
    if len(names) > len(COLORS):
        return {
            "field": "revision",
            "type": "quantitative",
            "scale": {"scheme": "viridis"},
            "legend": {"title": "added by revision"},
        }
    return {
        "field": "commit",
        "type": "nominal",
        "scale": {
            "domain": names,
            "range": list(COLORS[: len(names)]),
        },
        "legend": {
            "title": "added by revision",
            "orient": "bottom",
            "columns": 2,
            "titleOrient": "top",
        },
    }


def _hatch() -> dict[str, object]:
    """Return a fill of white stripes with clear ones between: Vega has gradients, but no patterns."""
    stops: list[dict[str, object]] = []
    for stripe in range(HATCHES):
        low, middle, high = stripe / HATCHES, (stripe + 0.5) / HATCHES, (stripe + 1) / HATCHES
        stops += [
            {"offset": low, "color": "rgba(255,255,255,0)"},
            {"offset": middle, "color": "rgba(255,255,255,0)"},
            {"offset": middle, "color": "rgba(255,255,255,0.75)"},
            {"offset": high, "color": "rgba(255,255,255,0.75)"},
        ]
    return {"gradient": "linear", "x1": 0, "y1": 0, "x2": 0.42, "y2": 1.2, "stops": stops}


def _tooltip() -> list[dict[str, object]]:
    return [
        {"field": "chunk", "type": "nominal", "title": "time chunk"},
        {"field": "commit", "type": "nominal", "title": "added by"},
        {"field": "rows", "type": "quantitative", "format": ",d"},
        {"field": "segments", "type": "quantitative"},
        {"field": "kilobytes", "type": "quantitative", "title": "kB", "format": ",.1f"},
    ]
