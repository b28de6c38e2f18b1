"""`balance plan`: the loads, moves and drops of a coordinator's next runs, with their reasons."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from carnac.cli.app import SIMULATE, command
from carnac.cli.options import argument, option
from carnac.cli.serving import look_at_cluster
from carnac.cli.session import Session
from carnac.cli.tables import bytes_text, columns_of
from carnac.core.words import counted
from carnac.errors import Invalid

if TYPE_CHECKING:
    from carnac.cli.output import Output
    from carnac.core.balancing.live.planning import ClusterFacts, ClusterPlan

LINES_DEFAULT = 40
RUNS_MAX = 1_000
_WHY = {
    "first_replica": "no server has it",
    "further_replica": "its rule asks for more copies",
    "broadcast": "its rule puts it on every server",
    "reroute": "waits in a queue that is much longer",
    "surplus": "more copies than its rule asks for",
    "cancelled": "is loaded elsewhere instead",
}
_COLUMNS = columns_of("run# | what! | segment | from | to | size# | what for")


class Line(NamedTuple):
    """Something that a run does."""

    run: int
    what: str
    segment_id: str
    source: str
    target: str
    size_bytes: int
    why: str


@command(
    "balance plan",
    panel=SIMULATE,
    examples=[
        "carnac balance plan",
        "carnac balance plan --runs 100 --json",
        "carnac balance plan segments.csv --servers servers.csv",
        "carnac balance plan serverview.json --rules rules.json",
    ],
)
def plan(
    session: Session,
    segments: Annotated[
        Path | None,
        argument(
            "SEGMENTS",
            "A table with segment, datasource, start, end, size and server, or the JSON of a serverview. "
            "Default: the cluster that serves the store.",
        ),
    ] = None,
    *,
    servers: Annotated[
        Path | None,
        option(
            "--servers FILE",
            "A table with server and capacity; tier and decommissioning if there are such.",
        ),
    ] = None,
    rules: Annotated[
        Path | None, option("--rules FILE", "Druid's JSON list of rules, to try others.")
    ] = None,
    runs: Annotated[int, option("--runs N", "Runs to plan ahead.", min=1, max=RUNS_MAX)] = 5,
    limit: Annotated[int, option("--limit N", "Lines to show; 0 is all.", min=0)] = LINES_DEFAULT,
) -> None:
    """Say what the next runs of the coordinator will load, move and drop, and what for. Nothing is done.

    Each run is planned on what the one before leaves, until nothing is left to do. Costs are in square hours: how much
    segments that one query wants stand in each other's way on a server.
    """
    from carnac.core.balancing.live.planning import plan_ahead

    if segments is None and servers is not None:
        raise Invalid("--servers goes with a table of segments; name one, or leave it out")
    facts = (
        _facts_of_cluster(session, rules)
        if segments is None
        else _facts_of_files(session, segments, servers, rules)
    )
    plans = list(plan_ahead(facts, runs))
    sizes = {one.segment_id: one.size_bytes for one in facts.live}
    lines = [line for run, one in enumerate(plans, start=1) for line in _lines(run, one, sizes)]
    if session.output.is_json:
        session.output.json(_as_json(plans, lines))
    else:
        _print(session.output, plans, lines, limit or len(lines), has_more=len(plans) == runs)


def _facts_of_cluster(session: Session, rules: Path | None) -> ClusterFacts:
    from carnac.bootstrap.serving.coordinator import throttles_of
    from carnac.bootstrap.serving.own_tables import load_rules
    from carnac.core.balancing.live.planning import ClusterFacts

    status, views = look_at_cluster(session, "there is nothing to plan")
    return ClusterFacts(
        live=status.live,
        servers=views,
        rules=status.rules if rules is None else load_rules(rules),
        now_ms=session.clock.now_ms(),
        throttles=throttles_of(session.settings),
    )


def _facts_of_files(
    session: Session, segments: Path, servers: Path | None, rules: Path | None
) -> ClusterFacts:
    from carnac.bootstrap.serving.coordinator import throttles_of
    from carnac.bootstrap.serving.own_tables import load_own_cluster
    from carnac.core.balancing.live.planning import ClusterFacts

    live, views, chosen = load_own_cluster(segments, servers, rules)
    return ClusterFacts(
        live=live,
        servers=views,
        rules=chosen,
        now_ms=session.clock.now_ms(),
        throttles=throttles_of(session.settings),
    )


def _lines(run: int, plan: ClusterPlan, sizes: dict[str, int]) -> Iterator[Line]:
    for server_id, segment_id, why in plan.surplus:
        size = sizes.get(segment_id, 0)
        yield Line(run, "drop", segment_id, server_id, "", size, _WHY.get(why, why))
    for one in plan.loads:
        size = sizes.get(one.segment_id, 0)
        yield Line(run, "load", one.segment_id, "", one.server_id, size, _WHY.get(one.why, one.why))
    for move in plan.moves:
        is_saving = str(move.reason) == "save"
        why = f"saves {move.saving:.4g} h²" if is_saving else "its server is decommissioning"
        yield Line(
            run, "move", move.segment_id, move.source_id, move.target_id, move.size_bytes, why
        )


def _cells(one: Line) -> list[str]:
    size = bytes_text(one.size_bytes)
    return [str(one.run), one.what, one.segment_id, one.source, one.target, size, one.why]


def _print(
    output: Output,
    plans: list[ClusterPlan],
    lines: list[Line],
    limit: int,
    *,
    has_more: bool,
) -> None:
    last = plans[-1]
    is_at_rest = not (last.loads or last.moves or last.surplus) or not has_more
    if lines:
        output.first_rows(_COLUMNS, lines, _cells, limit)
    loads = sum(one.what != "drop" for one in lines)
    size = sum(one.size_bytes for one in lines if one.what != "drop")
    what = f"{counted(loads, 'load')} of {bytes_text(size)}, {counted(len(lines) - loads, 'drop')}"
    rest = "then the cluster is at rest" if is_at_rest else "and there is more to do after that"
    head = "nothing to do" if not lines else f"{counted(len(plans), 'run')}: {what}; {rest}"
    output.line(f"{head}; cost {plans[0].cost_before:.6g} h², then {last.cost_after:.6g} h²")
    for blocker in last.blockers:
        output.warning(str(blocker))
    if last.unplaced:
        example = min(last.unplaced)
        output.warning(
            f"{counted(len(last.unplaced), 'segment')} on no server, such as {example}: "
            f"{last.unplaced[example]}; queries read them from deep storage"
        )


def _as_json(plans: list[ClusterPlan], lines: list[Line]) -> dict[str, Any]:
    last = plans[-1]
    return {
        "runs": [
            {"cost_before": one.cost_before, "cost_after": one.cost_after, "skipped": skipped}
            for one in plans
            for skipped in [{str(reason): count for reason, count in one.skipped.items()}]
        ],
        "steps": [
            {
                "run": one.run,
                "what": one.what,
                "segment": one.segment_id,
                "from": one.source or None,
                "to": one.target or None,
                "size_bytes": one.size_bytes,
                "why": one.why,
            }
            for one in lines
        ],
        "blockers": [str(one) for one in last.blockers],
        "unplaced": dict(sorted(last.unplaced.items())),
    }
