"""Laws of the compaction planner, on random timelines of both forms."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import assume, given
from hypothesis import strategies as st

from carnac.core.compaction.plan.candidates import (
    _wait,
    color_by_neighbour,
    find_neighbours,
    plan_tasks,
)
from carnac.core.compaction.plan.inputs import PlanSegment
from carnac.core.compaction.plan.planning import CompactionPlan, plan_compaction
from carnac.core.compaction.plan.settings import CompactionSettings
from carnac.core.compaction.plan.tasks import CompactionTask
from carnac.core.time.intervals import IntervalSet, interval_set
from carnac.simulation.folding_world import chunks_of
from tests.compactions import (
    NOW_MS,
    History,
    apply_tasks,
    segment_lists,
    settings,
    timelines,
)
from tests.support.laws import compaction as laws

any_timeline = timelines() | segment_lists()


def plan(segments: list[PlanSegment], how: CompactionSettings) -> CompactionPlan:
    return plan_compaction("events", segments, how, now_ms=NOW_MS)


def in_turns(tasks: list[CompactionTask]) -> list[CompactionTask]:
    """Return the tasks in an order in which they may run."""
    done: list[CompactionTask] = []
    left = list(tasks)
    while left:
        names = {task.task_id for task in done}
        ready = [task for task in left if names.issuperset(task.after)]
        assert ready, "tasks wait for one another in a circle"
        done += ready
        left = [task for task in left if task not in ready]
    return done


@given(segments=any_timeline, how=settings())
def test_a_plan_keeps_its_laws_and_the_next_one_is_empty(
    segments: list[PlanSegment], how: CompactionSettings
) -> None:
    first = plan(segments, how)
    laws.check_plan(first)
    after = apply_tasks(segments, in_turns(list(first.tasks)), revision=100)
    again = plan(after, how)
    laws.check_plan(again)
    laws.check_finished(again)


@given(segments=any_timeline, how=settings(), seed=st.integers(0, 99))
def test_after_a_crash_only_what_was_not_done_is_planned(
    segments: list[PlanSegment], how: CompactionSettings, seed: int
) -> None:
    first = plan(segments, how)
    order = in_turns(list(first.tasks))
    assume(order)
    done = order[: random.Random(seed).randrange(len(order)) + 1]
    after = apply_tasks(segments, done, revision=100)
    rest = plan(after, how)
    laws.check_plan(rest)
    finished = interval_set(chunk for task in done for chunk in task.chunks)
    wanted = interval_set(chunk for task in first.tasks for chunk in task.chunks)
    planned = interval_set(chunk for task in rest.tasks for chunk in task.chunks)
    assert not planned.intersect(finished)
    assert not planned.minus(wanted)
    laws.check_finished(plan(apply_tasks(after, in_turns(list(rest.tasks)), revision=200), how))


@given(segments=any_timeline, how=settings())
def test_nothing_is_lost_or_shown_twice(
    segments: list[PlanSegment], how: CompactionSettings
) -> None:
    first = plan(segments, how)
    after = apply_tasks(segments, in_turns(list(first.tasks)), revision=100)
    assert {one.segment_id for one in after} >= {one.segment_id for one in segments} - {
        one for task in first.tasks for one in task.segment_ids
    }
    places = [(one.segment_id, one.start_ms, one.end_ms) for one in after]
    assert len(places) == len(set(places))
    sizes = sum(one.size_bytes for one in segments), sum(one.size_bytes for one in after)
    cuts = sum(
        len(chunks_of(task, group, segments)) * len(group.segment_ids)
        for task in first.tasks
        for group in task.groups
    )
    assert sizes[0] <= sizes[1] <= sizes[0] + 2 * cuts + len(after)


@given(segments=timelines(), how=settings(), seed=st.integers(0, 99))
def test_a_plan_does_not_depend_on_the_order_of_segments(
    segments: list[PlanSegment], how: CompactionSettings, seed: int
) -> None:
    shuffled = list(segments)
    random.Random(seed).shuffle(shuffled)
    assert plan(shuffled, how).tasks == plan(segments, how).tasks


@given(segments=any_timeline, how=settings())
def test_every_instant_is_explained_once(
    segments: list[PlanSegment], how: CompactionSettings
) -> None:
    made = plan(segments, how)
    said = [one.interval for one in made.explain()]
    assert sum(one.duration_ms for one in said) == sum(
        one.duration_ms for one in interval_set(said)
    )
    if segments:
        whole = IntervalSet((interval_set(said).span(),))  # type: ignore[arg-type]
        assert interval_set(said) == whole
    assert all(one.reason for one in made.explain())


@given(segments=segment_lists(), how=settings())
def test_the_refined_colours_take_no_more_turns_than_the_plain_ones(
    segments: list[PlanSegment], how: CompactionSettings
) -> None:
    made = plan(segments, how)
    tasks = plan_tasks("events", made.chunks, how, 0)
    plain, refined = color_serially(tasks), color_by_neighbour(tasks)
    laws.check_side_by_side(plain)
    laws.check_side_by_side(refined)
    assert turns(refined) <= turns(plain)
    if all(len(found) <= 2 for found in find_neighbours(tasks)):
        assert turns(refined) <= 3


def turns(tasks: list[CompactionTask]) -> int:
    """Return how many tasks run one after another, at least."""
    depth: dict[str, int] = {}
    for task in in_turns(tasks):
        depth[task.task_id] = 1 + max((depth[other] for other in task.after), default=0)
    return max(depth.values(), default=0)


@given(
    segments=timelines(),
    how=settings(),
    arrived=st.integers(1, 500),
    rewritten=st.integers(0, 20_000),
)
def test_what_is_folded_keeps_the_bound_on_writing(
    segments: list[PlanSegment], how: CompactionSettings, arrived: int, rewritten: int
) -> None:
    histories = {
        one.interval: History(arrived_bytes=arrived, rewritten_bytes=rewritten)
        for one in plan(segments, how).chunks
    }
    made = plan_compaction("events", segments, how, now_ms=NOW_MS, histories=histories)
    laws.check_plan(made)
    for one in made.chunks:
        choice = one.score.choice
        if choice is None or " where " not in one.score.reason:
            continue
        if not (one.chunk.overlaps_prior or one.chunk.overlaps_later):
            assert choice.write_amplification <= how.write_amplification_max
        assert choice.write_amplification == (rewritten + choice.size_bytes) / arrived


def color_serially(tasks: Sequence[CompactionTask]) -> list[CompactionTask]:
    """Return the tasks coloured in their order: black is what shares a segment with an earlier one."""
    colored: list[CompactionTask] = []
    for index, found in enumerate(find_neighbours(tasks)):
        earlier = [other for other in found if other < index]
        colored.append(_wait(tasks, index, earlier))
    return colored
