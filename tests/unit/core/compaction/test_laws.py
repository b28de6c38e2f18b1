"""Each law of compaction fails when it is broken: a law that cannot fail would prove nothing of the planner."""

from __future__ import annotations

from dataclasses import replace

import pytest

from carnac.core.compaction.control.states import ChunkState, ChunkStatus, ChunkSummary
from carnac.core.compaction.plan.groups import CompactionTarget, GroupKind
from carnac.core.compaction.plan.planning import CompactionPlan, plan_compaction
from carnac.core.compaction.plan.scoring import Action
from carnac.core.compaction.plan.settings import CompactionSettings
from carnac.core.compaction.plan.tasks import CompactionTask
from carnac.core.time.intervals import Interval
from carnac.errors import InvariantError
from tests.compactions import CHEAP, DAY_MS, NOW_MS, PlanSegment
from tests.support.laws import compaction as laws

MINOR, MAJOR, STABLE = (Interval(n * DAY_MS, (n + 1) * DAY_MS) for n in range(3))
TARGET = CompactionTarget(target_bytes=100, segment_granularity="DAY")


def segment(name: str, chunk: Interval, size_bytes: int) -> PlanSegment:
    return PlanSegment(
        segment_id=name,
        start_ms=chunk.start_ms,
        end_ms=chunk.end_ms,
        size_bytes=size_bytes,
        rows=size_bytes,
        chunk=chunk,
    )


@pytest.fixture
def plan() -> CompactionPlan:
    """A minor group, a major one, each of a task, and a chunk that is let be."""
    segments = [
        segment("large", MINOR, 90),
        *(segment(f"small{n}", MINOR, 1) for n in range(5)),
        *(segment(f"equal{n}", MAJOR, 5) for n in range(5)),
        segment("whole", STABLE, 90),
    ]
    how = CompactionSettings(target=TARGET, cost=CHEAP, task_cost_small=0)
    made = plan_compaction("events", segments, how, now_ms=NOW_MS)
    laws.check_plan(made)
    assert [{group.kind for group in task.groups} for task in made.tasks] == [
        {GroupKind.MINOR},
        {GroupKind.MAJOR},
    ]
    return made


def broken(law: str) -> pytest.RaisesExc[InvariantError]:
    return pytest.raises(InvariantError, match=law)


def with_group(task: CompactionTask, **changes: object) -> CompactionTask:
    """Return a task with another first group."""
    (group, *rest) = task.groups
    return replace(task, groups=(group._replace(**changes), *rest))  # type: ignore[arg-type]


def test_a_plan_after_a_finished_plan_is_empty(plan: CompactionPlan) -> None:
    laws.check_finished(replace(plan, tasks=()))
    with broken("CP-1"):
        laws.check_finished(plan)


def test_of_two_tasks_that_share_a_segment_one_waits(plan: CompactionPlan) -> None:
    first, second = plan.tasks
    sharing = with_group(second, segment_ids=first.groups[0].segment_ids[:1])
    for tasks in ([first, sharing], [sharing, first]):
        with broken("CP-2"):
            laws.check_side_by_side(tasks)
        with broken("CP-2"):
            laws.check_running(tasks)
    laws.check_side_by_side([first, replace(sharing, after=(first.task_id,))])
    laws.check_side_by_side([replace(first, after=(sharing.task_id,)), sharing])
    with broken("CP-2"):
        laws.check_plan(replace(plan, tasks=(first, sharing)))
    laws.check_running(plan.tasks)


def test_every_chunk_has_a_reason_and_only_what_is_compacted_has_a_task(
    plan: CompactionPlan,
) -> None:
    for place in range(3):
        chunks = list(plan.chunks)
        one = chunks[place]
        chunks[place] = one._replace(score=one.score._replace(reason=""))
        with broken("CP-3"):
            laws.check_plan(replace(plan, chunks=chunks))
    with broken("CP-3"):
        laws.check_plan(replace(plan, tasks_by_chunk={}))
    with broken("CP-3"):
        laws.check_plan(replace(plan, tasks_by_chunk={**plan.tasks_by_chunk, STABLE: "task"}))
    *others, stable = plan.chunks
    along = stable._replace(score=stable.score._replace(action=Action.NO_OPINION, may_join=True))
    by_chunk = {**plan.tasks_by_chunk, STABLE: "task"}
    laws.check_plan(replace(plan, chunks=(*others, along), tasks_by_chunk=by_chunk))
    laws.check_plan(replace(plan, chunks=(*others, along)))


def test_a_minor_group_is_a_part_of_its_chunk(plan: CompactionPlan) -> None:
    minor, major = plan.tasks
    ids = minor.groups[0].segment_ids
    for wrong in (
        with_group(minor, interval=Interval(MINOR.start_ms, MAJOR.end_ms)),
        with_group(minor, segment_ids=(*ids, "large"), size_bytes=95),
        with_group(minor, segment_ids=(*ids[1:], "equal0"), size_bytes=9),
        with_group(minor, size_bytes=6),
        with_group(minor, segment_ids=ids[1:]),
    ):
        with broken("CP-5"):
            laws.check_groups(replace(plan, tasks=(wrong, major)))
    with broken("CP-5"):
        laws.check_plan(replace(plan, tasks=(with_group(minor, size_bytes=6), major)))
    laws.check_plan(replace(plan, tasks=(minor, with_group(major, size_bytes=6))))


def test_a_chunk_that_is_as_it_was_is_not_analysed_again() -> None:
    summary = ChunkSummary(MINOR, 7, 2, TARGET)
    state = ChunkState(MINOR, ChunkStatus.STABLE, 7, 2, "by", "2 segments")

    def check(known: ChunkState | None, seen: ChunkSummary | None, by: str = "by") -> None:
        summaries, states = {MINOR: seen} if seen else {}, {MINOR: known} if known else {}
        laws.check_analysis([MINOR], summaries, states, by)

    with broken("CP-4"):
        check(state, summary)
    check(None, summary)
    check(state, None)
    check(state, summary._replace(revision=8))
    check(state, summary._replace(segments=3))
    check(state, summary, "other settings")
