"""The backlog, fed change by change, against tasks made of all that is in it at once."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from carnac.core.compaction.control.backlog import Backlog
from carnac.core.compaction.plan.candidates import JudgedChunk, plan_tasks
from carnac.core.compaction.plan.groups import CompactionGroup
from carnac.core.compaction.plan.inputs import PlanSegment
from carnac.core.compaction.plan.planning import plan_compaction
from carnac.core.compaction.plan.scoring import Action
from carnac.core.compaction.plan.settings import CompactionSettings
from carnac.core.compaction.plan.tasks import CompactionTask
from carnac.core.time.intervals import Interval
from tests.compactions import NOW_MS, segment_lists, settings, timelines
from tests.support.laws import compaction as laws

steps = st.lists(
    st.tuples(st.sampled_from(["put", "put", "take", "change"]), st.integers(0, 30)), max_size=40
)


def groups_of(tasks: Iterable[CompactionTask]) -> list[CompactionGroup]:
    """Return the groups of tasks in order of time, without the revision at which each was judged."""
    groups = [one._replace(revision=None) for task in tasks for one in task.groups]
    return sorted(groups, key=lambda one: one.interval)


def is_wanted(one: JudgedChunk) -> bool:
    return one.score.action is Action.COMPACT or one.score.may_join


class Desk:
    """A backlog, what was put into it, and the tasks as somebody has them who follows its changes."""

    def __init__(self, how: CompactionSettings) -> None:
        self.how = how
        self.backlog = Backlog("events", how)
        self.inside: dict[Interval, JudgedChunk] = {}
        self.tasks: dict[str, CompactionTask] = {}

    def put(self, one: JudgedChunk) -> None:
        self.backlog.put(one, 7)
        self.inside[one.interval] = one

    def take(self, one: JudgedChunk) -> None:
        self.backlog.take(one.interval)
        self.inside.pop(one.interval, None)

    def change(self) -> None:
        change = self.backlog.change(revision=7)
        for task in change.removed:
            self.tasks.pop(task.task_id, None)
        for task in change.added:
            assert task.task_id not in self.tasks, "it was there, and did not go before"
            self.tasks[task.task_id] = task
        laws.check_side_by_side(list(self.tasks.values()))
        for task in self.tasks.values():
            assert self.tasks.keys() >= set(task.after), "it waits for what is not there"
        judged = [self.inside[chunk] for chunk in sorted(self.inside)]
        at_once = plan_tasks("events", judged, self.how, 7)
        assert groups_of(self.tasks.values()) == groups_of(at_once)
        assert sum(one.cost for one in self.tasks.values()) == sum(one.cost for one in at_once)
        again = self.backlog.change(revision=7)
        laws.check_side_by_side(again.added or list(self.tasks.values()))
        assert groups_of(again.added) in ([], groups_of(self.tasks.values()))
        for task in again.removed:
            self.tasks.pop(task.task_id, None)
        self.tasks.update({task.task_id: task for task in again.added})


@given(segments=segment_lists() | timelines(), how=settings(), script=steps)
def test_whatever_comes_and_goes_the_tasks_are_those_of_what_is_there(
    segments: list[PlanSegment], how: CompactionSettings, script: list[tuple[str, int]]
) -> None:
    judged = plan_compaction("events", segments, how, now_ms=NOW_MS).chunks
    wanted = [one for one in judged if is_wanted(one)]
    desk = Desk(how)
    for one in wanted[::2]:
        desk.put(one)
    for word, place in script:
        if word == "change":
            desk.change()
        elif wanted and word == "put":
            desk.put(wanted[place % len(wanted)])
        elif wanted:
            desk.take(wanted[place % len(wanted)])
    desk.change()
    for one in wanted:
        chunk = one.interval
        assert (chunk in desk.backlog) == (chunk in desk.inside)
        assert Interval(chunk.start_ms, chunk.end_ms + 1) not in desk.backlog
    for one in wanted:
        desk.take(one)
    desk.change()
    assert not desk.tasks
    assert "events" not in desk.backlog
