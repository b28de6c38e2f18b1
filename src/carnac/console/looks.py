"""The common look of all charts: background, title, fonts, colours of axes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

Chart: TypeAlias = dict[str, object]

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
FONT = "Helvetica, Arial, sans-serif"
GREY = "#444"
HOURS = {"hours": "%H:%M", "minutes": "%H:%M"}
"""Format of a time axis: Vega's own says 03 PM; days and longer are as Vega has them."""
OF_LINES: Chart = {"symbolType": "stroke", "symbolStrokeWidth": 4}
"""The look of a legend of lines."""
BARE: Chart = {"gridColor": "#eee", "domain": False, "ticks": False}
"""The look of an axis that is nothing but its grid and its labels."""
ASIDE = 30
"""Pixels left and right of a picture, and between the columns of its legend: other fonts have letters that are a fifth
wider, and not everything that shows pictures fits them in."""

TITLE_PX = 1_000
"""Pixels of a title, which is cut at that: a longer one would make its picture wider, and so all in it smaller."""


def chart_head(title: str, subtitle: str, *, legend: Chart | None = None) -> Chart:
    """Return a chart without content.

    Args:
        legend: How legends look, beside the size of their labels.
    """
    return {
        "$schema": SCHEMA,
        "background": "white",
        "padding": {"left": ASIDE, "top": 14, "right": ASIDE, "bottom": 14},
        "title": {
            "text": title,
            "subtitle": subtitle,
            "anchor": "start",
            "limit": TITLE_PX,
            "fontSize": 17,
            "subtitleFontSize": 12.5,
            "subtitleColor": "#555",
            "offset": 12,
        },
        "config": {
            "font": FONT,
            "view": {"stroke": None},
            "axis": {
                "labelFontSize": 11.5,
                "titleFontSize": 12,
                "titlePadding": 10,
                "labelColor": GREY,
                "titleColor": GREY,
            },
            "legend": {"labelFontSize": 12, "columnPadding": ASIDE, **(legend or {})},
        },
    }


def layer(
    values: Sequence[Mapping[str, object]], mark: Mapping[str, object], **encoding: object
) -> Chart:
    """Return marks of values, placed and coloured as `encoding` says."""
    return {"data": {"values": values}, "mark": mark, "encoding": encoding}


def line(**more: object) -> Chart:
    """Return the mark of a line."""
    return {"type": "line", "strokeWidth": 2.2, **more}


def number(field: str, title: str | None, *, scale: object = None, **axis: object) -> Chart:
    """Return the encoding of a number along an axis."""
    along: Chart = {"field": field, "type": "quantitative", "title": title, "axis": axis}
    return along if scale is None else {**along, "scale": scale}


def whole_ticks(top: float, most: int) -> Chart:
    """Return the ticks of counts up to `top`: none stands between two whole numbers, however few there are.

    Args:
        most: Beyond so many, Vega's own ticks are whole.
    """
    values = {"values": list(range(int(max(top, 1)) + 1))} if top <= most else {}
    return {"format": ",d", **values}


def color(
    field: str, colors: Mapping[str, str], *, orient: str = "bottom", **legend: object
) -> Chart:
    """Return the encoding of names by colours; one name alone needs no legend."""
    return {
        "field": field,
        "type": "nominal",
        "scale": {"domain": list(colors), "range": list(colors.values())},
        "legend": {"title": None, "orient": orient, **legend} if len(colors) > 1 else None,
    }
