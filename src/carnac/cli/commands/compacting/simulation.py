"""`compaction simulate`: the future of arrivals under compaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from carnac.cli.app import TIDY, command
from carnac.cli.completion.values import complete_datasource
from carnac.cli.options import argument, option
from carnac.cli.progress import phase_progress
from carnac.cli.session import Session
from carnac.cli.tables import (
    bytes_text,
    counted,
    format_age,
    number_text,
    second_ms,
)
from carnac.core.json_form import object_to_json, some_of
from carnac.errors import Invalid

if TYPE_CHECKING:
    from carnac.simulation.folding import Arrival, FoldingMoment, FoldingOutcome
    from carnac.specs.compaction.spec import CompactionSpec

START_MS = 1_767_225_600_000
"""2026-01-01, where given arrivals begin: a number of its own, so that a run can be repeated."""
ROWS_SHOWN = 12
DAYS_MAX = 3650
APPENDS_MAX = 2_000_000
"""More are the work of hours, and show no more: a minute's appends of almost four years."""
SETTLING_DAYS = 0.5
"""How long after the last arrival a simulation goes on."""


Recorded: TypeAlias = Annotated[
    str | None,
    argument(
        "DATASOURCE",
        "Datasource whose log gives the arrivals. Default: as the options say.",
        complete=complete_datasource,
    ),
]
Days: TypeAlias = Annotated[float, option("--days N", "Days of arrivals.", min=0.01, max=DAYS_MAX)]
SpecFile: TypeAlias = Annotated[
    Path | None,
    option("--spec FILE", "A compaction spec. Default: the datasource's, else hours of 500 MiB."),
]
Every: TypeAlias = Annotated[str, option("--every PERIOD", "Period of appends.")]
SizeBytes: TypeAlias = Annotated[
    int, option("--size-bytes N", "Size of an append's segment, in bytes.", min=1, max=2**40)
]
LateShare: TypeAlias = Annotated[
    float,
    option(
        "--late-share X",
        "Share of appends that also bring late rows: a segment of a tenth of the size.",
        min=0,
        max=1,
    ),
]
Lateness: TypeAlias = Annotated[
    str, option("--lateness PERIOD", "Greatest lateness of these rows.")
]
Slots: TypeAlias = Annotated[
    int | None, option("--slots N", "Tasks at a time. Default: as set.", min=1, max=100_000)
]
QueueMax: TypeAlias = Annotated[
    int | None, option("--queue-max N", "Tasks that may wait. Default: as set.", min=1, max=100_000)
]
Speed: TypeAlias = Annotated[
    int,
    option(
        "--bytes-per-second N", "Bytes per second that a task reads and writes.", min=1, max=2**50
    ),
]
Seed: TypeAlias = Annotated[
    int, option("--seed N", "The same seed gives the same run.", min=0, max=2**63 - 1)
]
Picture: TypeAlias = Annotated[
    Path | None, option("--out -o FILE", "Draw it: an .svg, .png or .html file.")
]


@command(
    "compaction simulate",
    panel=TIDY,
    examples=[
        "carnac compaction simulate --days 7",
        "carnac compaction simulate --days 7 --late-share 0.5 --lateness P30D --out week.svg",
        "carnac compaction simulate --days 2 --size-bytes 50000000 --slots 1 --bytes-per-second 1000000",
    ],
)
def simulate(
    session: Session,
    datasource: Recorded = None,
    *,
    days: Days = 7.0,
    spec: SpecFile = None,
    every: Every = "PT1M",
    size_bytes: SizeBytes = 2_000_000,
    late_share: LateShare = 0.0,
    lateness: Lateness = "P30D",
    slots: Slots = None,
    queue_max: QueueMax = None,
    bytes_per_second: Speed = 50_000_000,
    seed: Seed = 0,
    out: Picture = None,
) -> None:
    """Simulate arrivals and their compaction: queue, surplus segments, bytes written, time until folded.

    The code of a real store judges, plans, dispatches and sheds; only the duration of tasks is a model. Surplus
    segments are those beyond what the size of a time chunk asks for.
    """
    if out is not None:
        from carnac.console.export import check_picture

        check_picture(out)
    shape = _find_spec(session, spec, datasource)
    if datasource is None:
        coming = _given(
            days=days,
            every=every,
            size_bytes=size_bytes,
            late_share=late_share,
            lateness=lateness,
            seed=seed,
        )
        start_ms = START_MS
    else:
        found = _recorded(session, datasource)
        start_ms, coming = found[0].at_ms, _repeat(found, days)
    outcome = _simulate(
        session,
        shape,
        coming,
        start_ms=start_ms,
        days=days,
        slots=slots,
        queue_max=queue_max,
        bytes_per_second=bytes_per_second,
    )
    if out is not None:
        _draw(outcome, datasource or "arrivals", days, out)
    if session.output.is_json:
        session.output.json(_outcome_json(outcome, out))
        return
    _print(session, outcome, start_ms)
    if out is not None:
        session.output.line(f"{out} ({bytes_text(out.stat().st_size)})")


def _draw(outcome: FoldingOutcome, name: str, days: float, out: Path) -> None:
    from carnac.console.export import write_chart
    from carnac.console.folding_chart import draw_folding

    chart = draw_folding(
        outcome.moments, title=f"Compaction of {name}", subtitle=_subtitle(outcome, days)
    )
    write_chart(chart, out)


def _find_spec(session: Session, path: Path | None, datasource: str | None) -> CompactionSpec:
    from carnac.cli.specfiles import read_text
    from carnac.specs.compaction.spec import load_compaction

    if path is not None:
        return load_compaction(read_text(str(path)), name=str(path))
    if datasource is not None:
        from carnac.cli.commands.compacting.control import open_service

        with open_service(session) as service:
            return service.spec_of(datasource)
    return load_compaction(
        {"dataSource": "events", "granularitySpec": {"segmentGranularity": "hour"}}
    )


def _given(
    *, days: float, every: str, size_bytes: int, late_share: float, lateness: str, seed: int
) -> Iterable[Arrival]:
    import random

    from carnac.core.time.intervals import MIN_MS
    from carnac.core.time.periods import parse_period
    from carnac.simulation.folding import make_arrivals

    every_ms, lateness_ms = parse_period(every).nominal_ms, parse_period(lateness).nominal_ms
    appends = int(days * 86_400_000 // every_ms)
    if not appends:
        raise Invalid(f"one append every {every} is none in {days:g} days; give more --days")
    if appends > APPENDS_MAX:
        raise Invalid(
            f"one append every {every} is {number_text(appends)} in {days:g} days, more than the "
            f"{number_text(APPENDS_MAX)} that are simulated; give fewer --days"
        )
    if START_MS - lateness_ms < MIN_MS:
        raise Invalid(f"rows that are {lateness} late are from before year 1; give less --lateness")
    return make_arrivals(
        start_ms=START_MS,
        days=days,
        every_ms=every_ms,
        size_bytes=size_bytes,
        rows=max(size_bytes // 50, 1),
        late_share=late_share,
        lateness_ms=lateness_ms,
        rng=random.Random(seed),  # noqa: S311 - a seed must replay a run
    )


def _recorded(session: Session, datasource: str) -> list[Arrival]:
    from carnac.simulation.folding import arrivals_of

    with session.open_store() as store:
        revisions: list[int] = []
        before: int | None = None
        while page := store.log(datasource=datasource, before=before, limit=500):
            revisions += [one.revision for one in page]
            before = page[-1].revision
        return arrivals_of((store.show(one) for one in reversed(revisions)), datasource)


def _repeat(arrivals: Sequence[Arrival], days: float) -> Iterable[Arrival]:
    from carnac.simulation.folding import repeated

    return repeated(arrivals, days)


def _simulate(
    session: Session,
    shape: CompactionSpec,
    coming: Iterable[Arrival],
    *,
    start_ms: int,
    days: float,
    slots: int | None,
    queue_max: int | None,
    bytes_per_second: int,
) -> FoldingOutcome:
    from carnac.bootstrap.compaction import capacity_of
    from carnac.core.compaction.control.manager import Capacity
    from carnac.simulation.folding import FoldingSimulation, Pace

    usual = capacity_of(session.settings)
    capacity = Capacity(
        tasks=slots or usual.tasks, cost=usual.cost, queue_max=queue_max or usual.queue_max
    )
    until_ms = start_ms + round((days + SETTLING_DAYS) * 86_400_000)
    hours = max((until_ms - start_ms) // 3_600_000, 1)
    simulation = FoldingSimulation(
        shape.to_settings(), capacity=capacity, pace=Pace(bytes_per_s=bytes_per_second)
    )
    with phase_progress(session, unit="hours") as tell:
        return simulation.run(
            coming,
            until_ms=until_ms,
            on_progress=lambda at_ms: tell("simulate", (at_ms - start_ms) // 3_600_000, hours),
        )


def _subtitle(outcome: FoldingOutcome, days: float) -> str:
    last = outcome.moments[-1]
    unit = "day" if days == 1 else "days"
    return (
        f"{days:g} {unit}, {bytes_text(last.arrived_bytes)} arrived in {counted(last.chunks, 'time chunk')}, "
        f"{counted(outcome.groups, 'group')} committed; {_end_of(outcome)}"
    )


def _end_of(outcome: FoldingOutcome) -> str:
    last = outcome.moments[-1]
    if outcome.settled_at_ms is not None:
        return f"all stable at {second_ms(outcome.settled_at_ms)}"
    left = last.waiting + last.deferred
    return f"not all stable at the end: {number_text(left)} waiting or deferred"


def _print(session: Session, outcome: FoldingOutcome, start_ms: int) -> None:
    step = max(1, -(-len(outcome.moments) // ROWS_SHOWN))
    shown = outcome.moments[step - 1 :: step]
    if shown[-1] is not outcome.moments[-1]:
        shown = (*shown, outcome.moments[-1])
    session.output.table(
        "day# | chunks# | segments# | waiting# | deferred# | too many# | worst# | "
        "amplification# | until folded#",
        [_row(one, start_ms) for one in shown],
    )
    worst = max(one.surplus_max for one in outcome.moments)
    session.output.line(
        f"{counted(outcome.tasks, 'task')} started, {counted(outcome.groups, 'group')} committed; at most "
        f"{counted(worst, 'segment')} too many in a time chunk; {_end_of(outcome)}"
    )
    if outcome.verdict.outlook == "never":
        session.output.warning(
            "more arrives than is done: give compaction more slots, a larger slack or larger segments"
        )


def _row(one: FoldingMoment, start_ms: int) -> list[str]:
    return [
        f"{(one.at_ms - start_ms) / 86_400_000:.1f}",
        number_text(one.chunks),
        number_text(one.segments),
        number_text(one.waiting),
        number_text(one.deferred),
        number_text(one.surplus),
        number_text(one.surplus_max),
        f"{one.write_amplification:.1f}",
        "" if one.latency_ms is None else format_age(round(one.latency_ms)),
    ]


def _outcome_json(outcome: FoldingOutcome, out: Path | None) -> dict[str, object]:
    return {
        **some_of(outcome, "tasks groups conflicts settled_at_ms"),
        "outlook": str(outcome.verdict.outlook),
        "moments": [
            {
                **object_to_json(asdict(one)),
                "write_amplification": round(one.write_amplification, 4),
            }
            for one in outcome.moments
        ],
        "files": [] if out is None else [str(out)],
    }
