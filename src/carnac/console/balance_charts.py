"""Charts of balancing a simulated cluster: makespans, the course of time, disks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from carnac.console.looks import BARE, OF_LINES, chart_head, color, layer, line, number

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
    scale = {"type": "log" if high > 12 else "linear", "domain": [1, high], "nice": False}
    title = "makespan over ideal (1: the query uses the cluster as well as can be)"
    x = number("ratio", title, scale=scale, grid=True, gridColor="#eee", tickCount=10, format="~g")
    y = number("share", "share of the queries", format="%", **BARE)
    return {
        **chart_head("How far queries are from the ideal", subtitle, legend=OF_LINES),
        "width": WIDTH,
        "height": 260,
        **layer(values, line(interpolate="step-after"), x=x, y=y, color=_color(curves)),
    }


def draw_disks(curves: Sequence[Curve], *, subtitle: str) -> Chart:
    """Return the used share of every disk, servers in order of it."""
    values = [
        {"state": curve.label, "rank": rank, "used": used}
        for curve in curves
        for rank, used in _ranked(curve.values)
    ]
    x = number("rank", "servers, the emptiest first", scale={"nice": False}, grid=False, format="d")
    y = number("used", "used share of the disk", scale={"domain": [0, 1]}, format="%", **BARE)
    return {
        **chart_head("Disks", subtitle, legend=OF_LINES),
        "width": WIDTH,
        "height": 200,
        **layer(values, line(), x=x, y=y, color=_color(curves)),
    }


def draw_courses(
    courses: Sequence[Course], events: Sequence[tuple[int, str]], *, subtitle: str
) -> Chart:
    """Return one panel under the other for each number that is followed, with the events as lines across."""
    panels = list(dict.fromkeys(course.panel for course in courses))
    return {
        **chart_head("From hour to hour", subtitle, legend=OF_LINES),
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
    values = [
        {"strategy": course.name, "hour": hour, "value": value}
        for course in courses
        for hour, value in course.points
    ]
    title = "hours since the strategy took over" if is_last else None
    x = number("hour", title, scale={"nice": False}, grid=False, labels=is_last, ticks=is_last)
    y = number(
        "value", panel, tickCount=4, format="%" if panel.startswith("unused") else "~s", **BARE
    )
    colors = color("strategy", {course.name: COLORS[course.name] for course in courses})
    layers = [layer(values, line(), x=x, y=y, color=colors)]
    if events:
        marks = [{"hour": hour, "label": label} for hour, label in events]
        at = {"field": "hour", "type": "quantitative"}
        rule = {"type": "rule", "color": "#999", "strokeDash": [3, 3]}
        text = {"type": "text", "align": "left", "dx": 4, "baseline": "bottom", "color": "#666"}
        layers.append(layer(marks, rule, x=at))
        layers.append(layer(marks, text, x=at, y={"value": 116}, text={"field": "label"}))
    return {"width": WIDTH, "height": 120, "layer": layers}


def _color(curves: Sequence[Curve]) -> Chart:
    return color("state", {curve.label: COLORS[curve.name] for curve in curves})


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
