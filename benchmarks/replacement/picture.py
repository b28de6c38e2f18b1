"""The picture of a server that dies during a replacement: rows are ways of answering, columns moments. Pure.

Each panel is one course: a bar for each second, as high as the share of the rows that a query sees, in the colour of
what becomes of it. An error is a bar of full height, so that it can be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchmarks.replacement import AnswerKind
from carnac.console.looks import chart_head

if TYPE_CHECKING:
    from benchmarks.replacement import Course
    from carnac.console.looks import Chart

PANEL_WIDTH = 300
PANEL_HEIGHT = 74
COLORS = {
    AnswerKind.OLD: "#9bb5b0",
    AnswerKind.NEW: "#2a9d8f",
    AnswerKind.COLD: "#e9a03b",
    AnswerKind.REFUSED: "#22333b",
    AnswerKind.SHORT: "#d1495b",
}
TITLE = "A server dies while segments are replaced: what queries see, second by second"
SUBTITLE = (
    "Height: the share of the rows that an answer has. Letters: p published, s switched, d old ones dropped, "
    "† a server dies, n that is noticed."
)


def draw_replacements(courses: Sequence[Course]) -> Chart:
    """Return the chart; courses of one way stand in one row, in the order in which they come."""
    rows: dict[str, list[Course]] = {}
    for course in courses:
        rows.setdefault(course.way, []).append(course)
    last = list(rows)[-1] if rows else ""
    return {
        **chart_head(TITLE, SUBTITLE, legend={"orient": "bottom"}),
        "vconcat": [_row(way, found, is_last=way == last) for way, found in rows.items()],
        "spacing": 14,
    }


def _row(way: str, courses: Sequence[Course], *, is_last: bool) -> Chart:
    return {
        "title": {"text": way, "anchor": "start", "fontSize": 13, "offset": 4},
        "hconcat": [
            _panel(course, is_first=number == 0, is_last=is_last)
            for number, course in enumerate(courses)
        ],
        "spacing": 22,
    }


def _panel(course: Course, *, is_first: bool, is_last: bool) -> Chart:
    marks = _marks(course)
    x = _x(course, is_last=is_last)
    rules: Chart = {
        "data": {"values": marks},
        "mark": {"type": "rule", "color": "#111", "strokeDash": [2, 2], "strokeWidth": 0.8},
        "encoding": {"x": x},
    }
    texts: Chart = {
        "data": {"values": marks},
        "mark": {
            "type": "text",
            "fontSize": 11,
            "color": "#111",
            "dy": -6,
            "align": "left",
            "dx": -3,
        },
        "encoding": {"x": x, "y": {"value": 0}, "text": {"field": "text"}},
    }
    return {
        "title": {
            "text": f"a server dies {course.death}",
            "anchor": "start",
            "frame": "group",
            "fontSize": 11.5,
            "fontWeight": "normal",
            "color": "#555",
            "offset": 14,
        },
        "width": PANEL_WIDTH,
        "height": PANEL_HEIGHT,
        "layer": [_bars(course, x, is_first=is_first), rules, texts],
    }


def _marks(course: Course) -> list[Chart]:
    """Return what happens in which second; letters of one second stand side by side."""
    letters: dict[int, str] = {}
    for at, letter in (
        (course.published_s, "p"),
        (course.switched_s, "s"),
        (course.dropped_s, "d"),
        (course.died_s, "†"),
        (course.noticed_s, "n"),
    ):
        if at is not None:
            letters[at] = letters.get(at, "") + letter
    return [{"at": at, "text": text} for at, text in letters.items()]


def _x(course: Course, *, is_last: bool) -> Chart:
    return {
        "field": "at",
        "type": "quantitative",
        "scale": {"domain": [0, max(1, len(course.seconds))], "nice": False},
        "title": "seconds" if is_last else None,
        "axis": {"grid": False, "tickCount": 10},
    }


def _bars(course: Course, x: Chart, *, is_first: bool) -> Chart:
    values = [
        {
            "at": at,
            "end": at + 1,
            "share": 1 if one.kind is AnswerKind.REFUSED else one.share,
            "low": 0,
            "kind": one.kind.value,
        }
        for at, one in enumerate(course.seconds)
    ]
    return {
        "data": {"values": values},
        "mark": {"type": "rect", "stroke": "white", "strokeWidth": 0.6},
        "encoding": {
            "x": x,
            "x2": {"field": "end"},
            "y": {
                "field": "share",
                "type": "quantitative",
                "scale": {"domain": [0, 1]},
                "title": "rows" if is_first else None,
                "axis": {"grid": False, "format": "%", "values": [0, 0.5, 1], "labels": is_first},
            },
            "y2": {"field": "low"},
            "color": {
                "field": "kind",
                "type": "nominal",
                "scale": {
                    "domain": [kind.value for kind in AnswerKind],
                    "range": list(COLORS.values()),
                },
                "legend": {"title": None},
            },
        },
    }
