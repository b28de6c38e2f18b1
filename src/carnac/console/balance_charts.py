"""Charts of balancing a simulated cluster: makespans, the course of time, disks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from carnac.console.looks import chart_head

if TYPE_CHECKING:
    import numpy.typing as npt

    from carnac.console.looks import Chart

WIDTH = 1080
COLORS = {
    "before": "#d1495b",
    "cost": "#33658a",
    "legacy": "#f6ae2d",
    "legacy-linear": "#8e6c8a",
    "random": "#6c757d",
}
"""Colours of the compared states."""
POINTS_MAX = 400
"""A curve has no more points than this: more cannot be seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Values of one state or strategy; `name` says its colour, `label` what the legend calls it."""

    name: str
    label: str
    values: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How one number goes on under one strategy: (hour, value) pairs."""

    name: str
    panel: str
    points: Sequence[tuple[int, float]]


def draw_makespans(curves: Sequence[Curve], *, subtitle: str) -> Chart:
    """Return the distribution of makespan over ideal: for each ratio, which share of the queries is no worse."""
    values = [
        {"state": curve.label, "ratio": float(ratio), "share": float(share)}
        for curve in curves
        for ratio, share in _distribution(curve.values)
    ]
    high = max(float(curve.values.max()) for curve in curves)
    return {
        **_head("How far queries are from the ideal", subtitle),
        "width": WIDTH,
        "height": 260,
        "data": {"values": values},
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 2.2},
        "encoding": {
            "x": {
                "field": "ratio",
                "type": "quantitative",
                "title": "makespan over ideal (1: the query uses the cluster as well as can be)",
                "scale": {"type": "log" if high > 12 else "linear", "domain": [1, high], "nice": False},
                "axis": {"grid": True, "gridColor": "#eee", "tickCount": 10, "format": "~g"},
            },
            "y": {
                "field": "share",
                "type": "quantitative",
                "title": "share of the queries",
                "axis": {"format": "%", "gridColor": "#eee", "domain": False, "ticks": False},
            },
            "color": _color(curves),
        },
    }  # fmt: skip


def draw_disks(curves: Sequence[Curve], *, subtitle: str) -> Chart:
    """Return the used share of every disk, servers in order of it."""
    values = [
        {"state": curve.label, "rank": rank, "used": used}
        for curve in curves
        for rank, used in _ranked(curve.values)
    ]
    return {
        **_head("Disks", subtitle),
        "width": WIDTH,
        "height": 200,
        "data": {"values": values},
        "mark": {"type": "line", "strokeWidth": 2.2},
        "encoding": {
            "x": {
                "field": "rank",
                "type": "quantitative",
                "title": "servers, the emptiest first",
                "scale": {"nice": False},
                "axis": {"grid": False, "format": "d"},
            },
            "y": {
                "field": "used",
                "type": "quantitative",
                "title": "used share of the disk",
                "scale": {"domain": [0, 1]},
                "axis": {"format": "%", "gridColor": "#eee", "domain": False, "ticks": False},
            },
            "color": _color(curves),
        },
    }


def draw_courses(
    courses: Sequence[Course], events: Sequence[tuple[int, str]], *, subtitle: str
) -> Chart:
    """Return one panel under the other for each number that is followed, with the events as lines across."""
    panels = list(dict.fromkeys(course.panel for course in courses))
    return {
        **_head("From hour to hour", subtitle),
        "vconcat": [
            _panel(
                panel,
                [c for c in courses if c.panel == panel],
                [(hour, label if panel == panels[0] else "") for hour, label in events],
                is_last=panel == panels[-1],
            )
            for panel in panels
        ],
        "spacing": 16,
    }  # fmt: skip


def _panel(
    panel: str, courses: Sequence[Course], events: Sequence[tuple[int, str]], *, is_last: bool
) -> Chart:
    names = [course.name for course in courses]
    values = [
        {"strategy": course.name, "hour": hour, "value": value}
        for course in courses
        for hour, value in course.points
    ]
    layers: list[Chart] = [
        {
            "data": {"values": values},
            "mark": {"type": "line", "strokeWidth": 2.2},
            "encoding": {
                "x": {
                    "field": "hour",
                    "type": "quantitative",
                    "title": "hours since the strategy took over" if is_last else None,
                    "scale": {"nice": False},
                    "axis": {"grid": False, "labels": is_last, "ticks": is_last},
                },
                "y": {
                    "field": "value",
                    "type": "quantitative",
                    "title": panel,
                    "axis": {
                        "gridColor": "#eee", "domain": False, "ticks": False, "tickCount": 4,
                        "format": "%" if panel.startswith("unused") else "~s",
                    },
                },
                "color": {
                    "field": "strategy",
                    "type": "nominal",
                    "scale": {"domain": names, "range": [COLORS[name] for name in names]},
                    "legend": {"title": None, "orient": "bottom"} if len(names) > 1 else None,
                },
            },
        }
    ]  # fmt: skip
    if events:
        marks = [{"hour": hour, "label": label} for hour, label in events]
        layers.append(
            {
                "data": {"values": marks},
                "mark": {"type": "rule", "color": "#999", "strokeDash": [3, 3]},
                "encoding": {"x": {"field": "hour", "type": "quantitative"}},
            }
        )
        layers.append(
            {
                "data": {"values": marks},
                "mark": {"type": "text", "align": "left", "dx": 4, "baseline": "bottom", "color": "#666"},
                "encoding": {
                    "x": {"field": "hour", "type": "quantitative"},
                    "y": {"value": 116},
                    "text": {"field": "label"},
                },
            }
        )  # fmt: skip
    return {"width": WIDTH, "height": 120, "layer": layers}


def _head(title: str, subtitle: str) -> Chart:
    return chart_head(title, subtitle, legend={"symbolType": "stroke", "symbolStrokeWidth": 4})


def _color(curves: Sequence[Curve]) -> Chart:
    return {
        "field": "state",
        "type": "nominal",
        "scale": {
            "domain": [curve.label for curve in curves],
            "range": [COLORS[curve.name] for curve in curves],
        },
        "legend": {"title": None, "orient": "bottom"},
    }


def _distribution(values: npt.NDArray[np.float64]) -> list[tuple[float, float]]:
    """Return (value, share of the values that are no greater), from the least value on."""
    different, counts = np.unique(values, return_counts=True)
    shares = np.cumsum(counts) / len(values)
    step = max(1, len(different) // POINTS_MAX)
    kept = np.unique(np.append(np.arange(0, len(different), step), len(different) - 1))
    points = [(float(different[i]), float(shares[i])) for i in kept]
    return points if points[0][0] <= 1 else [(1.0, 0.0), *points]


def _ranked(values: npt.NDArray[np.float64]) -> list[tuple[int, float]]:
    ordered = np.sort(values)
    step = max(1, len(ordered) // POINTS_MAX)
    kept = np.unique(np.append(np.arange(0, len(ordered), step), len(ordered) - 1))
    return [(int(i) + 1, float(ordered[i])) for i in kept]
