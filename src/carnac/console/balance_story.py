"""The pictures of a simulation: clouds before and after, makespans, the course of time, disks, and a page to play."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from carnac.console.balance_charts import Course, Curve, draw_courses, draw_disks, draw_makespans
from carnac.console.balance_page import render_page
from carnac.console.clouds import Cloud, draw_cloud
from carnac.console.export import load_converter, render_chart
from carnac.core.words import counted
from carnac.named_files import make_named_folder, write_named
from carnac.simulation.measures import measure_answers

if TYPE_CHECKING:
    import numpy.typing as npt

    from carnac.console.looks import Chart
    from carnac.simulation.measures import Measure
    from carnac.simulation.run import Future, Layout, Outcome

Listener: TypeAlias = Callable[[str, int, int], None]
PICTURE_SUFFIXES = (".png", ".svg")
PAGE = "story.html"
WHAT_HAPPENED = {
    "add": "added",
    "fail": "lost",
    "replace": "replaced",
    "decommission": "decommissioned",
}
"""Texts of each kind of event."""
PAGE_FIGURES = ("makespan", "timeline", "disks")
CLOUD_SERVERS_MAX = 400
"""More bands than this are narrower than a few pixels."""
PART_FROM = 100
"""Number of servers from which a part of them is drawn as well, to show single clusters."""


def write_story(
    outcome: Outcome, folder: Path, *, on_progress: Listener | None = None
) -> list[Path]:
    """Write every picture as PNG and SVG, and the page; return the paths.

    Raises:
        Invalid: The folder cannot be made.
        Unavailable: What draws is not installed.
        CarnacError: A file cannot be written; see `named_file`.
    """
    make_folder(folder)
    charts = draw_story(outcome)
    tell = on_progress or (lambda _what, _done, _total: None)
    written: list[Path] = []
    svgs: list[str] = []
    for number, (name, chart) in enumerate(charts.items()):
        for suffix in PICTURE_SUFFIXES:
            path, drawn = folder / f"{name}{suffix}", render_chart(chart, suffix)
            write_named(path, drawn)
            written.append(path)
            if suffix == ".svg" and name in PAGE_FIGURES:
                svgs.append(drawn.decode())
        tell("pictures", number + 1, len(charts) + 1)
    page = folder / PAGE
    write_named(page, render_page(outcome, svgs))
    tell("pictures", len(charts) + 1, len(charts) + 1)
    return [*written, page]


def make_folder(folder: Path) -> None:
    """Make sure that pictures can be drawn and have a folder to go to, before a simulation runs for minutes.

    Raises:
        Invalid: The folder cannot be made.
        Unavailable: What draws is not installed.
    """
    load_converter()
    make_named_folder(folder)


def draw_story(outcome: Outcome) -> dict[str, Chart]:
    """Return the charts by the name of their file."""
    queries = outcome.scenario.queries.count
    charts = _draw_layouts(outcome)
    charts["makespan"] = draw_makespans(
        [
            Curve(name="before", label=_label(outcome, None), values=outcome.answers_before.ratio()),
            *(
                Curve(name=f.strategy, label=_label(outcome, f), values=f.answers.ratio())
                for f in outcome.futures
            ),
        ],
        subtitle=(
            f"{queries:,} queries; makespan: most segments that any server must scan; "
            "ideal: segments over servers, rounded up"
        ),
    )  # fmt: skip
    charts["timeline"] = draw_courses(
        [course for future in outcome.futures for course in _courses(future)],
        event_labels(outcome),
        subtitle=f"one trace of {queries:,} queries, asked again every "
        f"{counted(outcome.scenario.measure_every_hours, 'hour')}",
    )
    charts["disks"] = draw_disks(
        [
            Curve(name="before", label="before", values=outcome.disks_before),
            *(Curve(name=f.strategy, label=f.strategy, values=f.disks) for f in outcome.futures),
        ],
        subtitle="what the strategies make of disk space",
    )
    return charts


def _draw_layouts(outcome: Outcome) -> dict[str, Chart]:
    """Return the clouds: of all servers, and of a part of them where all are too many to see."""
    scenario = outcome.scenario
    parts = {"": np.arange(min(outcome.server_count, CLOUD_SERVERS_MAX))}
    if outcome.server_count >= PART_FROM and outcome.futures:
        parts["part-"] = outcome.futures[0].film.servers
    charts = {}
    for prefix, servers in parts.items():
        title = f"Before: {scenario.history.strategy}"
        charts[f"{prefix}before"] = draw_layout(outcome, outcome.before, servers, title=title)
        for future in outcome.futures:
            charts[f"{prefix}after-{future.strategy}"] = draw_layout(
                outcome,
                future.after,
                servers,
                title=f"After {counted(scenario.days, 'day')} of {future.strategy}",
                hour=scenario.days * 24,
            )
    return charts


def draw_layout(
    outcome: Outcome,
    layout: Layout,
    servers: npt.NDArray[np.int64],
    *,
    title: str,
    hour: int = 0,
    detail: float = 1.0,
) -> Chart:
    """Return the cloud of points of one layout, on some servers."""
    keep = np.isin(layout.server, servers)
    count = int(keep.sum())
    cloud = Cloud(
        server=np.searchsorted(servers, layout.server[keep]),
        start_ms=layout.start_ms[keep],
        color=layout.source[keep].astype(np.int64),
        servers=[f"{index}" for index in servers],
        datasources=[source.name for source in outcome.segments.sources],
    )
    some = "" if len(servers) == outcome.server_count else f"{len(servers):,} of the "
    subtitle = (
        f"{counted(count, 'segment')} on {some}{counted(outcome.server_count, 'server')}, every one a point; "
        f"colour: {counted(len(outcome.segments.sources), 'datasource')}; t + {counted(hour, 'hour')}"
    )
    marks = []
    if hour:
        marks = [
            (int(np.searchsorted(servers, server)), label)
            for server, label, at in _hits(outcome)
            if at < hour and server in servers
        ]
    return draw_cloud(cloud, title=title, subtitle=subtitle, marks=marks, detail=detail)


def event_labels(outcome: Outcome) -> list[tuple[int, str]]:
    """Return (hour, what happened) of the events after hour 0."""
    return [
        (event.at_hour, f"{counted(event.servers, 'server')} {WHAT_HAPPENED[event.kind]}")
        for event in sorted(outcome.scenario.events, key=lambda e: e.at_hour)
        if event.at_hour >= 0
    ]


def _hits(outcome: Outcome) -> list[tuple[int, str, int]]:
    """Return (server, what happened to it, when) of the changes after hour 0, in the first tier."""
    return [
        (int(server), f"{WHAT_HAPPENED[change.kind]} at t + {change.at_hour} h", change.at_hour)
        for change in outcome.changes
        if change.at_hour >= 0
        for server in change.servers[:1]
    ]


def _courses(future: Future) -> list[Course]:
    name, measures = future.strategy, future.measures
    panels = {
        "makespan over ideal": [(m.hour, m.queries.mean_ratio) for m in measures],
        "unused servers": [(m.hour, m.queries.mean_unused) for m in measures],
        "fullest over mean": [(m.hour, _fullest(m)) for m in measures],
        "total cost (h²)": [(m.hour, m.total_cost) for m in measures],
        "moves so far": [(m.hour, float(m.moves)) for m in measures],
    }
    return [Course(name=name, panel=panel, points=points) for panel, points in panels.items()]


def _fullest(measure: Measure) -> float:
    """Return most over mean segments a server, of the tier in which that is most."""
    return max(tier.segments.most / max(1.0, tier.segments.mean) for tier in measure.tiers)


def _label(outcome: Outcome, future: Future | None) -> str:
    answers = outcome.answers_before if future is None else future.answers
    measured = measure_answers(answers)
    name = "before" if future is None else f"after {future.strategy}"
    return f"{name} (mean {measured.mean_ratio:.2f})"
