"""A replacement from the first second to the last."""

from __future__ import annotations

from benchmarks.replacement.courses import AnswerKind, Course, Second
from benchmarks.replacement.fleet import Fleet
from benchmarks.replacement.scenario import Death, Replacement, Way
from benchmarks.replacement.ways import Answering, FallbackWay, RolloutWay
from carnac.errors import Invalid


def simulate_all(scenario: Replacement) -> tuple[Course, ...]:
    """Return a course for each way and each moment of death, the ways in order."""
    return tuple(simulate(scenario, way, death) for way in Way for death in Death)


def simulate(scenario: Replacement, way: Way, death: Death | None = None) -> Course:
    """Return what queries see. Each moment of death is found in the same replacement without one.

    Raises:
        Invalid: The scenario ends before the moment comes.
    """
    calm = _run(scenario, way, None, None)
    if death is None:
        return calm
    return _run(scenario, way, death, _dies_s(scenario, calm, death))


def _dies_s(scenario: Replacement, calm: Course, death: Death) -> int:
    """Return the first second in which the server is dead."""
    if calm.switched_s is None or calm.dropped_s is None:
        raise Invalid(
            f"{scenario.seconds} seconds are too few for this replacement; give it more",
            seconds=scenario.seconds,
        )
    match death:
        case Death.LOADING:
            return (scenario.publish_s + calm.switched_s + 1) // 2
        case Death.SWITCHED:
            return calm.switched_s + 1
        case Death.DROPPED:
            return calm.dropped_s + 1


def _run(scenario: Replacement, way: Way, death: Death | None, dies_s: int | None) -> Course:
    fleet, answering = Fleet(scenario), _make(way, scenario)
    old = {one.segment_id for one in scenario.old_entries}
    seconds: list[Second] = []
    dropped_s: int | None = None
    for now_s in range(scenario.seconds):
        if now_s == dies_s:
            fleet.kill()
        fleet.advance()
        if now_s == scenario.publish_s:
            answering.publish()
        answering.coordinate(fleet)
        seconds.append(answering.ask(fleet))
        if dropped_s is None and not old & fleet.readable:
            dropped_s = now_s
    noticed_s = None if dies_s is None else dies_s + scenario.notice_s
    return Course(
        way=way.value,
        death="" if death is None else death.value,
        seconds=seconds,
        published_s=scenario.publish_s,
        switched_s=next(
            (
                at
                for at, one in enumerate(seconds)
                if one.is_new and one.kind is not AnswerKind.SHORT
            ),
            None,
        ),
        dropped_s=dropped_s,
        died_s=dies_s,
        noticed_s=noticed_s,
    )


def _make(way: Way, scenario: Replacement) -> Answering:
    if way is Way.FALLBACK:
        return FallbackWay(scenario)
    return RolloutWay(scenario, reads_cold=way is Way.COLD)
