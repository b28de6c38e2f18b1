"""Arrivals under compaction, hour by hour, as one chart: queue, surplus, write amplification, latency. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from carnac.console.looks import (
    BARE,
    OF_LINES,
    chart_head,
    color,
    layer,
    line,
    number,
    whole_ticks,
)

if TYPE_CHECKING:
    from carnac.console.looks import Chart
    from carnac.simulation.folding import FoldingMoment

WIDTH = 1080
HEIGHT = 110
TICKS = 4
MOMENTS_MAX = 400
"""A curve has no more points than this: more cannot be seen."""
COLORS = {
    "waiting": "#d1495b",
    "deferred": "#f6ae2d",
    "running": "#33658a",
    "mean of the chunks": "#33658a",
    "of the worst chunk": "#d1495b",
    "so far": "#33658a",
    "folded in the hour": "#33658a",
}

Line = tuple[str, list[tuple[float, float]]]


def draw_folding(moments: Sequence[FoldingMoment], *, title: str, subtitle: str) -> Chart:
    """Return four panels over one axis of days."""
    step = max(1, -(-len(moments) // MOMENTS_MAX))
    kept = [*moments[::step], *([moments[-1]] if (len(moments) - 1) % step else [])]
    first_ms = moments[0].at_ms - 3_600_000

    def course(name: str, value: Callable[[FoldingMoment], float | None]) -> Line:
        found = [((one.at_ms - first_ms) / 86_400_000, value(one)) for one in kept]
        return name, [(day, number) for day, number in found if number is not None]

    panels: list[tuple[str, list[Line]]] = [
        (
            "tasks, chunks",
            [
                course("waiting", lambda one: one.waiting),
                course("running", lambda one: one.running),
                course("deferred", lambda one: one.deferred),
            ],
        ),
        (
            "segments too many",
            [
                course("mean of the chunks", lambda one: one.surplus / max(one.chunks, 1)),
                course("of the worst chunk", lambda one: one.surplus_max),
            ],
        ),
        ("write amplification", [course("so far", lambda one: one.write_amplification)]),
        ("minutes until folded", [course("folded in the hour", _latency_minutes)]),
    ]
    end = (kept[-1].at_ms - first_ms) / 86_400_000
    return {
        **chart_head(title, subtitle, legend=OF_LINES),
        "vconcat": [
            _panel(name, lines, end=end, counts=not index, is_last=index == len(panels) - 1)
            for index, (name, lines) in enumerate(panels)
        ],
        "resolve": {"scale": {"color": "independent"}},
        "spacing": 14,
    }


def _latency_minutes(one: FoldingMoment) -> float | None:
    return None if one.latency_ms is None else one.latency_ms / 60_000


def _panel(name: str, lines: Sequence[Line], *, end: float, counts: bool, is_last: bool) -> Chart:
    values: list[dict[str, str | float]] = [
        {"line": line, "day": round(day, 3), "value": round(value, 3)}
        for line, points in lines
        for day, value in points
    ]
    top = max((float(one["value"]) for one in values), default=0.0)
    title = "days" if is_last else None
    domain: Chart = {"domain": [0, end], "nice": False}
    x = number("day", title, scale=domain, grid=False, labels=is_last, ticks=is_last, tickCount=14)
    ticks = whole_ticks(top, TICKS) if counts else {}
    scale: Chart = {} if top else {"domain": [0, 1]}
    step = {"tickMinStep": 0.5} if top > 0.5 else {}
    y = number("value", name, scale=scale, tickCount=TICKS, **BARE, **step, **ticks)
    colors = color("line", {name: COLORS[name] for name, _ in lines}, orient="right")
    mark = line(strokeWidth=1.8, strokeJoin="round")
    return {"width": WIDTH, "height": HEIGHT, **layer(values, mark, x=x, y=y, color=colors)}
