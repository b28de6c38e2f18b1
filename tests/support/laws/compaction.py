"""The laws of compaction: one name and one definition each.

| id | law |
|---|---|
| CP-1 | planning after everything that was planned is done plans nothing (raw rows rolled up may yet join others) |
| CP-2 | tasks that may run at the same time share no segment |
| CP-3 | every chunk has a reason, and what is not compacted is in no task |
| CP-4 | a chunk whose revision and count are as they were is not analysed again |
| CP-5 | a minor group is part of one chunk, and its bytes are those of what it names |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from carnac.core.compaction.plan.groups import GroupKind
from carnac.core.compaction.plan.planning import CompactionPlan
from carnac.core.compaction.plan.scoring import Action
from carnac.core.compaction.plan.tasks import CompactionTask
from carnac.core.invariants import check
from carnac.core.time.intervals import Interval, interval_text

if TYPE_CHECKING:
    from carnac.core.compaction.control.states import ChunkState, ChunkSummary


def check_finished(plan: CompactionPlan) -> None:
    """Check CP-1 of a plan that was made after the one before it was done."""
    names = ", ".join(task.task_id for task in plan.tasks)
    check("CP-1", not plan.tasks, f"{plan.datasource} is planned again: {names}")


def check_side_by_side(tasks: Sequence[CompactionTask]) -> None:
    """Check CP-2: of two tasks that share a segment, one waits for the other."""
    owners: dict[str, list[CompactionTask]] = {}
    for task in tasks:
        for segment_id in task.segment_ids:
            owners.setdefault(segment_id, []).append(task)
    for segment_id, sharing in owners.items():
        for index, task in enumerate(sharing):
            for other in sharing[index + 1 :]:
                check(
                    "CP-2",
                    task.task_id in other.after or other.task_id in task.after,
                    f"{task.task_id} and {other.task_id} share segment {segment_id}",
                )


def check_running(tasks: Iterable[CompactionTask]) -> None:
    """Check CP-2 of tasks that run right now."""
    owner: dict[str, str] = {}
    for task in tasks:
        for segment_id in task.segment_ids:
            other = owner.setdefault(segment_id, task.task_id)
            check(
                "CP-2",
                other == task.task_id,
                f"{other} and {task.task_id} run and share segment {segment_id}",
            )


def check_reasons(plan: CompactionPlan) -> None:
    """Check CP-3."""
    for one in plan.chunks:
        check("CP-3", bool(one.score.reason), f"chunk {interval_text(one.interval)} has no reason")
        is_in_task = plan.task_of(one.interval) is not None
        may = one.score.action is Action.COMPACT or one.score.may_join
        must = one.score.action is Action.COMPACT
        check(
            "CP-3",
            may if is_in_task else not must,
            f"chunk {interval_text(one.interval)} is {one.score.action} and {'in a' if is_in_task else 'in no'} task",
        )


def check_groups(plan: CompactionPlan) -> None:
    """Check CP-5."""
    chunks = {one.interval: one.chunk for one in plan.chunks}
    for task in plan.tasks:
        for group in task.groups:
            if group.kind is not GroupKind.MINOR:
                continue
            chunk = chunks.get(group.interval)
            check("CP-5", chunk is not None, f"minor group {group.group_id} is no chunk")
            sizes = {one.segment_id: one.size_bytes for one in (chunk.segments if chunk else ())}
            check(
                "CP-5",
                set(group.segment_ids) < sizes.keys()
                and group.size_bytes == sum(sizes[one] for one in group.segment_ids),
                f"minor group {group.group_id} is not a part of its chunk",
            )


def check_analysis(
    analysed: Iterable[Interval],
    summaries: Mapping[Interval, ChunkSummary],
    states: Mapping[Interval, ChunkState],
    judged_by: str,
) -> None:
    """Check CP-4 of the chunks that were analysed, given what was known before."""
    for chunk in analysed:
        state, summary = states.get(chunk), summaries.get(chunk)
        check(
            "CP-4",
            state is None or summary is None or not state.is_as_seen(summary, judged_by),
            f"chunk {interval_text(chunk)} is analysed again though it is as it was at revision "
            f"{state and state.revision}",
        )


def check_plan(plan: CompactionPlan) -> None:
    """Check what can be said of a plan alone: CP-2, CP-3, CP-5."""
    check_side_by_side(plan.tasks)
    check_reasons(plan)
    check_groups(plan)
