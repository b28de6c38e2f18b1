"""The picture of a cluster under load: times and revisions of queries, and the holdings of each server. Pure.

Time runs from left to right, the same seconds in every panel; events stand above as numbered lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from carnac.console.looks import chart_head, color, layer, line, number

if TYPE_CHECKING:
    from carnac.console.looks import Chart

WIDTH = 1020
Verdict: TypeAlias = Literal["right", "wrong", "short", "failed"]
VERDICTS: tuple[Verdict, ...] = ("right", "wrong", "short", "failed")
COLORS = ("#2a9d8f", "#d1495b", "#f6ae2d", "#22333b")
SERVER_COLORS = ("#264653", "#2a9d8f", "#e9a03b", "#8d6cab", "#6c757d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One query: when it was asked, how long it took, what became of it."""

    at_s: float
    took_ms: float
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Something that happened."""

    at_s: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A value from an instant on, until the next one of its series."""

    at_s: float
    series: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStory:
    """The content of the picture.

    Attributes:
        asked: All queries.
        moments: Moments in order of time.
        revisions: Points of the series `published` and `answered`.
        segments: Loaded segments, a series for each server.
        lives: Name of each process, and the time from its start to its end.
        end_s: Where the picture ends.
    """

    asked: Sequence[Asked]
    moments: Sequence[Moment]
    revisions: Sequence[Step]
    segments: Sequence[Step]
    lives: Sequence[tuple[str, float, float]]
    end_s: float


def draw_cluster(story: ClusterStory) -> Chart:
    """Return the chart."""
    counts = dict.fromkeys(VERDICTS, 0)
    for one in story.asked:
        counts[one.verdict] += 1
    subtitle = f"{len(story.asked):,} queries: " + ", ".join(
        f"{counts[verdict]:,} {verdict}" for verdict in VERDICTS
    )
    panels = [_moments(story), _asked(story), _revisions(story), _segments(story), _lives(story)]
    return {
        **chart_head("A cluster that is published to, compacted, moved and killed", subtitle),
        "vconcat": panels,
        "spacing": 14,
        "resolve": {"scale": {"color": "independent"}, "legend": {"color": "independent"}},
    }


def _x(story: ClusterStory, *, is_last: bool = False) -> Chart:
    title = "seconds since the first query" if is_last else None
    scale: Chart = {"domain": [0, story.end_s], "nice": False}
    return number(
        "at", title, scale=scale, grid=True, gridColor="#eee", tickCount=15, labels=is_last
    )


def _panel(title: str, height: int, layers: Sequence[Mapping[str, object]]) -> Chart:
    return {
        "title": {"text": title, "anchor": "start", "frame": "group", "fontSize": 13, "offset": 6},
        "width": WIDTH,
        "height": height,
        "layer": list(layers),
    }


def _rules(story: ClusterStory) -> Chart:
    """Return the lines at which something happened, as they go through every panel."""
    mark: Chart = {"type": "rule", "color": "#bbb", "strokeDash": [3, 3]}
    return layer([{"at": one.at_s} for one in story.moments], mark, x=_x(story))


def _moments(story: ClusterStory) -> Chart:
    """Return a list of what happened, each in a line of its own, so that no two texts overlap."""
    values = [
        {"at": one.at_s, "line": number, "text": f"{one.at_s:,.0f} s  {one.text}"}
        for number, one in enumerate(story.moments)
    ]
    half = story.end_s / 2
    y: Chart = {"field": "line", "type": "ordinal", "axis": None, "sort": "ascending"}

    def texts(condition: str, align: str, dx: int) -> Chart:
        mark: Chart = {"type": "text", "align": align, "dx": dx, "fontSize": 11.5, "color": "#333"}
        shown = layer(values, mark, x=_x(story), y=y, text={"field": "text"})
        return {**shown, "transform": [{"filter": f"datum.at {condition} {half}"}]}

    mark: Chart = {"type": "point", "filled": True, "color": "#333", "size": 26, "opacity": 1}
    marks = layer(values, mark, x=_x(story), y=y)
    layers = [_rules(story), marks, texts("<", "left", 8), texts(">=", "right", -8)]
    return _panel("What happened", 17 * max(1, len(values)), layers)


def _asked(story: ClusterStory) -> Chart:
    values = [
        {"at": one.at_s, "ms": max(one.took_ms, 1), "verdict": one.verdict} for one in story.asked
    ]
    scale: Chart = {"type": "log", "nice": True}
    y = number("ms", "ms", scale=scale, grid=False, values=[1, 10, 100, 1000, 10000], format=",d")
    colors: dict[str, str] = dict(zip(VERDICTS, COLORS, strict=True))
    verdicts = color("verdict", colors, orient="right", symbolOpacity=1)
    mark: Chart = {"type": "circle", "size": 9, "opacity": 0.55, "aria": False}
    points = layer(values, mark, x=_x(story), y=y, color=verdicts)
    return _panel("How long each query took", 150, [_rules(story), points])


def _steps(story: ClusterStory, steps: Sequence[Step], title: str, colors: Sequence[str]) -> Chart:
    values = [{"at": step.at_s, "value": step.value, "series": step.series} for step in steps]
    names = dict.fromkeys(step.series for step in steps)
    series = color("series", dict(zip(names, colors, strict=False)), orient="right")
    y = number("value", title, grid=False, tickCount=5, format=",d")
    mark = line(interpolate="step-after", strokeWidth=1.8)
    return layer(values, mark, x=_x(story), y=y, color=series)


def _revisions(story: ClusterStory) -> Chart:
    steps = _steps(story, story.revisions, "revision", ("#bbb", "#264653"))
    return _panel("Which revision was published, and which answered", 110, [_rules(story), steps])


def _segments(story: ClusterStory) -> Chart:
    steps = _steps(story, story.segments, "segments", SERVER_COLORS)
    return _panel("How many segments each historical had loaded", 120, [_rules(story), steps])


def _lives(story: ClusterStory) -> Chart:
    values = [{"name": name, "at": max(0.0, start), "end": end} for name, start, end in story.lives]
    names = list(dict.fromkeys(name for name, _, _ in story.lives))
    y = {
        "field": "name",
        "type": "nominal",
        "sort": None,
        "scale": {"domain": names, "paddingInner": 0.35},
        "title": None,
        "axis": {"domain": False, "ticks": False},
    }
    mark: Chart = {"type": "bar", "color": "#9bb5b0", "cornerRadius": 2}
    bars = layer(values, mark, x=_x(story, is_last=True), x2={"field": "end"}, y=y)
    return _panel("Which processes lived", 20 * max(1, len(names)), [bars, _rules(story)])
