"""The common look of all charts: background, title, fonts, colours of axes. Pure."""

from __future__ import annotations

from typing import TypeAlias

Chart: TypeAlias = dict[str, object]

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
FONT = "Helvetica, Arial, sans-serif"
GREY = "#444"
HOURS = {"hours": "%H:%M", "minutes": "%H:%M"}
"""Format of a time axis: Vega's own says 03 PM; days and longer are as Vega has them."""


def chart_head(title: str, subtitle: str, *, legend: Chart | None = None) -> Chart:
    """Return a chart without content.

    Args:
        legend: How legends look, beside the size of their labels.
    """
    return {
        "$schema": SCHEMA,
        "background": "white",
        "padding": 14,
        "title": {
            "text": title,
            "subtitle": subtitle,
            "anchor": "start",
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
                "labelColor": GREY,
                "titleColor": GREY,
            },
            "legend": {"labelFontSize": 12, **(legend or {})},
        },
    }
