"""Tasks of chunks that share segments, as the backlog hands them out change by change."""

from __future__ import annotations

from dataclasses import replace

from carnac.core.compaction.control.backlog import Backlog
from carnac.core.compaction.plan.candidates import JudgedChunk
from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.compaction.plan.inputs import PlanSegment
from carnac.core.compaction.plan.planning import plan_compaction
from carnac.core.compaction.plan.settings import CompactionSettings
from carnac.core.compaction.plan.tasks import CompactionTask
from carnac.core.time.intervals import Interval
from carnac.simulation.folding_world import apply_group
from tests.compactions import CHEAP, DAY_MS, NOW_MS
from tests.support.laws import compaction as laws

DAYS = [Interval(n * DAY_MS, (n + 1) * DAY_MS) for n in range(2)]
EACH_ALONE = CompactionSettings(
    target=CompactionTarget(target_bytes=1000, segment_granularity="DAY"),
    cost=CHEAP,
    task_cost_max=1,
    task_cost_small=0,
)


def segment(name: str, chunk: Interval, *, is_part: bool = False) -> PlanSegment:
    return PlanSegment(
        segment_id=name,
        start_ms=chunk.start_ms,
        end_ms=chunk.end_ms,
        size_bytes=10,
        rows=10,
        chunk=None if chunk not in DAYS else chunk,
        is_part=is_part,
    )


def small_ones() -> list[PlanSegment]:
    return [segment(f"{day.start_ms}-{number}", day) for day in DAYS for number in range(4)]


def judged(*shared: PlanSegment) -> list[JudgedChunk]:
    """The two days, each with four small segments and what they share."""
    made = plan_compaction("events", [*small_ones(), *shared], EACH_ALONE, now_ms=NOW_MS)
    return list(made.chunks)


def check_colors(first: JudgedChunk, second: JudgedChunk) -> None:
    backlog = Backlog("events", EACH_ALONE)
    backlog.put(first, 1)
    (alone,) = backlog.change(revision=1).added
    assert alone.color == "red"
    backlog.put(second, 2)
    change = backlog.change(revision=2)
    assert alone.task_id in {task.task_id for task in change.removed}
    laws.check_side_by_side(change.added)
    assert sorted(task.color for task in change.added) == ["black", "red"]
    backlog.take(first.interval)
    last = backlog.change(revision=3)
    assert {task.task_id for task in change.added} <= {task.task_id for task in last.removed}
    (rest,) = last.added
    assert (rest.chunks, rest.color, rest.after) == ((second.interval,), "red", ())
    assert backlog.change(revision=3).added == []


def test_tasks_that_share_a_segment_wait_for_one_another_as_long_as_both_are_there() -> None:
    check_colors(*judged(segment("long", Interval(0, 2 * DAY_MS))))


def test_parts_of_one_segment_in_two_chunks_are_one_segment() -> None:
    """A clip leaves them; neither reaches over the border, and one task reads the file that the other replaces."""
    check_colors(*judged(*(segment("clipped", day, is_part=True) for day in DAYS)))


def test_what_a_group_of_two_chunks_costs_is_shared_out() -> None:
    how = replace(EACH_ALONE, task_cost_max=10_000)
    segments = [*small_ones(), segment("long", Interval(0, 2 * DAY_MS))]
    (task,) = plan_compaction("events", segments, how, now_ms=NOW_MS).tasks
    assert task.chunks == tuple(DAYS)
    assert len(task.groups) == 1
    assert task.chunk_costs == (task.cost // 2, task.cost // 2)


def test_what_a_major_group_does_not_name_is_carried_over() -> None:
    (task, _) = plan_compaction("events", small_ones(), EACH_ALONE, now_ms=NOW_MS).tasks
    (group,) = task.groups
    late = segment("late", DAYS[0])
    after = apply_group([*small_ones(), late], group, [DAYS[0]], revision=9)
    assert replace(late, revision=9) in after
    assert sum(one.chunk == DAYS[0] for one in after) == 2
    elsewhere = [one for one in small_ones() if one.chunk == DAYS[1]]
    assert [one for one in after if one.chunk == DAYS[1]] == elsewhere, (
        "untouched, revision and all"
    )


def pairs_of(days: list[Interval]) -> tuple[Backlog, list[CompactionTask]]:
    """A backlog of days, each with small segments, and its tasks: of two days each."""
    how = replace(EACH_ALONE, task_cost_small=10_000, task_groups_max=2)
    segments = [
        replace(segment(f"{day.start_ms}-{n}", day), chunk=day) for day in days for n in range(4)
    ]
    backlog = Backlog("events", how)
    for one in plan_compaction("events", segments, how, now_ms=NOW_MS).chunks:
        backlog.put(one, 1)
    made = list(backlog.change(revision=1).added)
    assert [task.chunks for task in made] == list(zip(days[::2], days[1::2], strict=True))
    return backlog, made


def test_changes_far_apart_are_one_change_and_leave_the_tasks_between_them_as_they_are() -> None:
    days = [Interval(n * DAY_MS, (n + 1) * DAY_MS) for n in range(12)]
    backlog, before = pairs_of(days)
    backlog.take(days[0])
    backlog.take(days[11])
    change = backlog.change(revision=2)
    assert [task.chunks for task in change.removed] == [before[0].chunks, before[5].chunks]
    assert [task.chunks for task in change.added] == [(days[1],), (days[10],)]


def test_what_is_left_of_a_task_joins_the_one_before_it_that_has_room() -> None:
    days = [Interval(n * DAY_MS, (n + 1) * DAY_MS) for n in range(6)]
    backlog, _ = pairs_of(days)
    backlog.take(days[1])
    assert [task.chunks for task in backlog.change(revision=2).added] == [(days[0],)]
    backlog.take(days[2])
    change = backlog.change(revision=3)
    assert [task.chunks for task in change.removed] == [(days[0],), (days[2], days[3])]
    assert [task.chunks for task in change.added] == [(days[0], days[3])]
