"""The result of a simulation, in names and numbers: for people, for programs, for pictures."""

from __future__ import annotations

from dataclasses import asdict

from carnac.simulation.measures import QueryMeasure, measure_answers
from carnac.simulation.run import Future, Outcome

SPEED_FORMULA = (
    "1 - (sum of makespans after) / (sum of makespans before), over the queries of the trace"
)


def faster_by(before: QueryMeasure, after: QueryMeasure) -> float:
    """Return by which share the mean query is faster, if a server scans its segments one after the other.

    A query then takes as long as the server with most of its segments, so its time is in proportion to its makespan.
    """
    if not before.mean_makespan:
        return 0.0
    return 1 - after.mean_makespan / before.mean_makespan


def describe_outcome(outcome: Outcome) -> dict[str, object]:
    """Return the whole outcome but the layouts, as plain values."""
    before = measure_answers(outcome.answers_before)
    return {
        "scenario": outcome.scenario.to_json_dict(),
        "seed": outcome.seed,
        "servers": outcome.server_count,
        "segments": len(outcome.before.server),
        "datasources": len(outcome.segments.sources),
        "queries": outcome.scenario.queries.count,
        "speed_formula": SPEED_FORMULA,
        "before": asdict(before),
        "futures": [_describe_future(future, before) for future in outcome.futures],
    }


def _describe_future(future: Future, before: QueryMeasure) -> dict[str, object]:
    after = measure_answers(future.answers)
    last = future.measures[-1]
    return {
        "strategy": future.strategy,
        "after": asdict(after),
        "faster_by": faster_by(before, after),
        "moves": last.moves,
        "moved_bytes": last.moved_bytes,
        "reloads": last.reloads,
        "total_cost_before": future.measures[0].total_cost,
        "total_cost_after": last.total_cost,
        "timeline": [asdict(measure) for measure in future.measures],
    }
