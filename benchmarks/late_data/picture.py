"""The picture of late appends into time chunks that are being compacted: one panel for each way of locking. Pure.

A lane is a time chunk, a bar is one compaction of it from its start to its end, a point is the rows that one append
brought into the chunk, where they became visible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from carnac.console.looks import ASIDE, chart_head

if TYPE_CHECKING:
    from carnac.console.looks import Chart

WIDTH = 1020
LANE_HEIGHT = 19
BarKind: TypeAlias = Literal["finished", "revoked", "failed"]
PointKind: TypeAlias = Literal["at once", "after waiting for a lock", "failed"]
BAR_LABELS: dict[BarKind, str] = {
    "finished": "compaction finished",
    "revoked": "compaction revoked, its work for nothing",
    "failed": "compaction failed",
}
POINT_LABELS: dict[PointKind, str] = {
    "at once": "rows appended at once",
    "after waiting for a lock": "rows appended after waiting for a lock",
    "failed": "append failed",
}
BAR_COLORS = ("#2a9d8f", "#d1495b", "#6c757d")
POINT_COLORS = ("#22333b", "#f6ae2d", "#d1495b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One compaction of a time chunk, in seconds since the stream began."""

    lane: str
    start_s: float
    end_s: float
    kind: BarKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The outcome of one append in a time chunk, in seconds since the stream began."""

    lane: str
    at_s: float
    kind: PointKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One way of locking.

    Attributes:
        lanes: The time chunks, from above.
        stream_s: When the last append was sent.
        stable_s: When no chunk was left to compact; None: it was not waited for any longer.
    """

    title: str
    lanes: tuple[str, ...]
    bars: tuple[Bar, ...]
    points: tuple[Point, ...]
    stream_s: float
    stable_s: float | None


def draw_late_data(panels: Sequence[Panel], *, subtitle: str) -> Chart:
    """Return the chart: the same seconds from left to right in every panel."""
    ends = [panel.stable_s or 0.0 for panel in panels]
    ends += [bar.end_s for panel in panels for bar in panel.bars]
    ends += [point.at_s for panel in panels for point in panel.points]
    end_s = max([1.0, *ends])
    return {
        **chart_head(
            "Late appends into time chunks that are being compacted",
            subtitle,
            legend={
                "labelLimit": 420,
                "columnPadding": 2 * ASIDE,
                "layout": {"bottom": {"direction": "vertical"}},
            },
        ),
        "vconcat": [_panel(panel, end_s, is_last=panel is panels[-1]) for panel in panels],
        "spacing": 22,
    }


def _panel(panel: Panel, end_s: float, *, is_last: bool) -> Chart:
    layers: list[Chart] = [_bars(panel, is_last), _points(panel, is_last)]
    layers.append(_moment(panel.stream_s, "the stream ends", "left"))
    if panel.stable_s is not None:
        layers.append(_moment(panel.stable_s, "all stable", "right"))
    x: Chart = {
        "type": "quantitative",
        "scale": {"domain": [0, end_s * 1.06], "nice": False},
        "title": "seconds since the first late append" if is_last else None,
        "axis": {"grid": True, "gridColor": "#eee", "tickCount": 12},
    }
    for layer in layers:
        encoding = layer["encoding"]
        if isinstance(encoding, dict):
            encoding["x"] = {**x, **encoding["x"]}
    return {
        "title": {"text": panel.title, "anchor": "start", "fontSize": 13, "offset": 6},
        "width": WIDTH,
        "height": LANE_HEIGHT * max(len(panel.lanes), 1),
        "layer": layers,
        "resolve": {"scale": {"color": "independent"}},
    }


def _lane(panel: Panel) -> Chart:
    return {
        "field": "lane",
        "type": "nominal",
        "sort": None,
        "scale": {"domain": list(panel.lanes), "paddingInner": 0.3},
        "title": None,
        "axis": {"domain": False, "ticks": False},
    }


def _bars(panel: Panel, has_legend: bool) -> Chart:
    return {
        "data": {
            "values": [
                {
                    "lane": bar.lane,
                    "start": bar.start_s,
                    "end": bar.end_s,
                    "kind": BAR_LABELS[bar.kind],
                }
                for bar in panel.bars
            ]
        },
        "mark": {"type": "bar", "opacity": 0.8, "cornerRadius": 2},
        "encoding": {
            "y": _lane(panel),
            "x": {"field": "start"},
            "x2": {"field": "end"},
            "color": _color(tuple(BAR_LABELS.values()), BAR_COLORS, has_legend),
        },
    }


def _points(panel: Panel, has_legend: bool) -> Chart:
    return {
        "data": {
            "values": [
                {"lane": point.lane, "at": point.at_s, "kind": POINT_LABELS[point.kind]}
                for point in panel.points
            ]
        },
        "mark": {"type": "circle", "size": 34, "opacity": 1, "stroke": "white", "strokeWidth": 0.8},
        "encoding": {
            "y": _lane(panel),
            "x": {"field": "at"},
            "color": _color(tuple(POINT_LABELS.values()), POINT_COLORS, has_legend),
        },
    }


def _moment(at_s: float, text: str, align: str) -> Chart:
    """Return a line across all lanes, named at its top."""
    return {
        "data": {"values": [{"at": at_s, "text": text}]},
        "encoding": {"x": {"field": "at"}},
        "layer": [
            {"mark": {"type": "rule", "color": "#888", "strokeDash": [4, 3]}},
            {
                "mark": {
                    "type": "text",
                    "align": "right" if align == "left" else "left",
                    "baseline": "bottom",
                    "dx": -4 if align == "left" else 4,
                    "dy": -3,
                    "fontSize": 11,
                    "color": "#666",
                },
                "encoding": {"text": {"field": "text"}, "y": {"value": 0}},
            },
        ],
    }


def _color(domain: Sequence[str], colors: Sequence[str], has_legend: bool) -> Chart:
    return {
        "field": "kind",
        "type": "nominal",
        "scale": {"domain": list(domain), "range": list(colors)},
        "legend": {"title": None, "orient": "bottom", "columns": 3} if has_legend else None,
    }
