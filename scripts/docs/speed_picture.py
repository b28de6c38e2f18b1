"""`docs/images/speed.svg`: how long each statement of two benchmarks takes, by engine, on one axis of milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from carnac.console.export import render_chart
from carnac.console.looks import BARE, chart_head, color, layer, number
from scripts.docs.results import read_result

if TYPE_CHECKING:
    from carnac.console.looks import Chart

WIDTH = 620
ROW = 19
COLORS = {
    "Carnac": "#d1495b",
    "Apache Druid": "#2a9d8f",
    "DuckDB, its own table": "#33658a",
    "DuckDB, the same files": "#9bb5d0",
    "chDB": "#f6ae2d",
}
OF_DRUID = {"carnac_ms": "Carnac", "druid_ms": "Apache Druid"}
OF_OTHERS = {
    "chdb_ms": "chDB",
    "duckdb_files_ms": "DuckDB, the same files",
    "duckdb_native_ms": "DuckDB, its own table",
    "embedded_ms": "Carnac",
}


def render() -> bytes:
    """Return the picture."""
    druid, others = (
        read_result("queries_druid")["figures"],
        read_result("queries")["figures"],
    )
    chart: Chart = {
        **chart_head(
            "Milliseconds for each statement", "left is faster; nothing of earlier answers is kept"
        ),
        "vconcat": [
            _panel(
                f"Over HTTP, {druid['rows']:,} rows, beside a warm Apache Druid {druid['druid']}",
                druid["statements"],
                OF_DRUID,
            ),
            _panel(f"In one process, {others['rows']['clicks']:,} rows", others["raw"], OF_OTHERS),
        ],
        "spacing": 22,
    }
    return render_chart(chart, ".svg")


def _panel(title: str, statements: Mapping[str, Any], engines: Mapping[str, str]) -> Chart:
    names = list(statements)
    values = [
        {"statement": name, "engine": engine, "ms": one[key]}
        for name, one in statements.items()
        for key, engine in engines.items()
    ]
    y: Chart = {
        "field": "statement",
        "type": "nominal",
        "sort": names,
        "title": None,
        "axis": {**BARE, "grid": True, "labelLimit": 260, "labelPadding": 8},
    }
    scale: Chart = {"type": "log", "domain": [2.5, 2000]}
    ticks = [3, 10, 30, 100, 300, 1000]
    x = number("ms", None, scale=scale, values=ticks, format=",d", **BARE)
    colors = color("engine", COLORS, orient="top", symbolSize=90, columns=5)
    mark: Chart = {"type": "circle", "size": 90, "opacity": 0.95}
    return {
        "title": {"text": title, "anchor": "start", "frame": "group", "fontSize": 13, "offset": 6},
        "width": WIDTH,
        "height": ROW * len(names),
        **layer(values, mark, x=x, y=y, color=colors),
    }
