"""The conductor in a made-up store, under random appends, ends, failures, crashes and changes of settings.

Whatever happens: chunks that are as they were are not analysed again (CP-4), tasks that run side by side share no
segment (CP-2), the queue keeps its maximum, no row is lost. When arrivals end, everything becomes stable, and then
there is nothing more to do (CP-1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from carnac.core.compaction.control.conductor import Conductor
from carnac.core.compaction.control.manager import Capacity
from carnac.core.compaction.control.states import (
    RETRY_FIRST_MS,
    RETRY_MAX_MS,
    ChunkState,
    ChunkStatus,
    ChunkSummary,
)
from carnac.core.compaction.control.survey import CONFLICTS_MAX
from carnac.core.compaction.plan.groups import CompactionGroup, CompactionTarget
from carnac.core.compaction.plan.planning import plan_compaction
from carnac.core.compaction.plan.settings import AgeRule, CompactionSettings
from carnac.core.compaction.plan.target_periods import Extent
from carnac.core.compaction.plan.tasks import CompactionTask
from carnac.core.time.granularity import DAY, HOUR, Granularity
from carnac.core.time.intervals import ETERNITY, Interval
from carnac.core.time.periods import parse_period
from carnac.simulation.folding_world import FoldingWorld
from tests.compactions import CHEAP, DAY_MS, HOUR_MS
from tests.support.laws import compaction as laws

START_MS = 40 * DAY_MS
NAME = "events"
PLAIN = CompactionSettings(
    target=CompactionTarget(target_bytes=100, segment_granularity="HOUR"),
    task_cost_small=20,
    cost=CHEAP,
    write_amplification_max=1000.0,
)
DAILY = replace(
    PLAIN,
    slack=0,
    age_rules=(
        AgeRule(
            older_than=parse_period("P1D"),
            target=CompactionTarget(target_bytes=100, segment_granularity="DAY"),
        ),
    ),
)
NEWEST_LEFT_ALONE = replace(PLAIN, skip_offset=parse_period("PT3H"))
CAPACITIES = (
    Capacity(tasks=1, cost=150, queue_max=2),
    Capacity(tasks=3, cost=60, queue_max=1),
    Capacity(tasks=4),
)


@dataclass
class Desk:
    """A world and its conductor; what is durable survives a crash."""

    settings: CompactionSettings
    capacity: Capacity
    granularity: Granularity = HOUR
    now_ms: int = START_MS
    runs: dict[str, CompactionTask] = field(default_factory=dict)
    durable: dict[Interval, ChunkState] = field(default_factory=dict)
    arrived: int = 0
    started: int = 0

    def __post_init__(self) -> None:
        self.world = FoldingWorld(self.granularity)
        self.restart()

    def restart(self) -> None:
        """Lose all that is not durable; what ran is lost with it."""
        self.runs.clear()
        self.conductor = Conductor(self.capacity)
        self.conductor.watch(NAME, self.settings, self.durable.values())
        self.is_new = True

    def allow(self, capacity: Capacity) -> None:
        """Change how much may run."""
        self.capacity = self.conductor.capacity = capacity

    def remember(self, states: list[ChunkState]) -> None:
        for state in states:
            self.durable[state.chunk] = state

    def append(self, hour: int, size_bytes: int) -> None:
        self.world.append(START_MS + hour * HOUR_MS, size_bytes=size_bytes, rows=size_bytes)
        self.arrived += size_bytes

    def look(self) -> int:
        """Have a round; return how many chunks were analysed."""
        conductor, world = self.conductor, self.world
        dirty = world.take_changed()
        if self.is_new:
            dirty, self.is_new = [ETERNITY], False
        reached = conductor.reach(NAME, dirty, newest_ms=world.newest_ms, now_ms=self.now_ms)
        due, states = conductor.look(NAME, reached, world.chunks(reached), now_ms=self.now_ms)
        self.remember(states)
        survey, watch = conductor.survey(NAME), conductor._watches[NAME]
        for summary in watch.due:
            if summary.extent is Extent.COARSE:
                self.check_divided(summary)
                continue
            chunk = summary.chunk
            state = survey.states.get(chunk)
            is_known = state is not None and state.status is not ChunkStatus.UNSTABLE
            if is_known:
                by = survey.judged_by(summary.target)
                laws.check_analysis([chunk], {chunk: summary}, survey.states, by)
        self.remember(conductor.judge(NAME, world.segments(due)))
        known = sorted(chunk for chunk, state in survey.states.items() if state.segments)
        for before, after in pairwise(known):
            assert not before.overlaps(after), "of each instant one thing is known"
        starts = conductor.start(revision=world.revision, now_ms=self.now_ms)
        for states in starts.states.values():
            self.remember(list(states))
        for task in starts.tasks:
            self.started += 1
            self.runs[str(self.started)] = task
            conductor.note_start(task, str(self.started), now_ms=self.now_ms)
        laws.check_running(self.runs.values())
        assert len(conductor.queue.waiting) <= self.capacity.queue_max
        assert len(self.runs) <= self.capacity.tasks
        cost = sum(task.cost for task in self.runs.values())
        assert cost <= self.capacity.cost or len(self.runs) == 1
        return len(due)

    def check_divided(self, summary: ChunkSummary) -> None:
        """Check CP-4 of a coarse chunk: one of its parts is not known, or changed, or unstable."""
        survey = self.conductor.survey(NAME)
        parts = [survey.states[one] for one in survey.known_in(summary.chunk)]
        by = survey.judged_by(summary.target)
        if self.settings.skip_offset is None and parts:
            assert any(
                one.status is ChunkStatus.UNSTABLE or not one.is_as_seen(summary, by)
                for one in parts
            )

    def finish(self, place: int, *, fails: bool = False, loses: bool = False) -> None:
        if not self.runs:
            return
        run = sorted(self.runs)[place % len(self.runs)]
        task = self.runs.pop(run)
        failures = {}
        if fails:
            failures = dict.fromkeys(task.chunks, "disk full")
        elif not loses:
            for group in task.groups:
                assert self.world.commit(task, group), "nobody else touched its inputs"
        self.now_ms += 1000
        conflicts = task.chunks if loses else ()
        self.remember(
            self.conductor.end(run, failures=failures, conflicts=conflicts, now_ms=self.now_ms)
        )

    def settle(self) -> None:
        """Let everything be done that there is to do."""
        for _ in range(400):
            self.look()
            if not self.runs and not self.conductor.queue.waiting and self.is_stable():
                return
            if not self.runs:
                self.now_ms += RETRY_MAX_MS // 6
            while self.runs:
                self.finish(0)
        raise AssertionError(f"still unstable: {[s for s in self.states() if s.segments]}")

    def states(self) -> list[ChunkState]:
        return list(self.conductor.survey(NAME).states.values())

    def is_stable(self) -> bool:
        calm = {ChunkStatus.STABLE, ChunkStatus.EMPTY}
        return all(state.status in calm for state in self.states())


commands = st.one_of(
    st.tuples(st.just("append"), st.integers(-40, 6), st.sampled_from((1, 5, 40, 90, 160))),
    st.tuples(st.just("append"), st.integers(0, 2), st.sampled_from((1, 5))),
    st.tuples(st.just("finish"), st.integers(0, 3), st.just(0)),
    st.tuples(st.just("look"), st.just(0), st.just(0)),
    st.tuples(st.just("fail"), st.integers(0, 3), st.just(0)),
    st.tuples(st.just("lose"), st.integers(0, 3), st.just(0)),
    st.tuples(st.just("wait"), st.sampled_from((60_000, HOUR_MS, DAY_MS)), st.just(0)),
    st.tuples(st.just("crash"), st.just(0), st.just(0)),
)


@given(
    script=st.lists(commands, max_size=25),
    how=st.sampled_from((PLAIN, DAILY, NEWEST_LEFT_ALONE)),
    capacity=st.sampled_from(CAPACITIES),
    granularity=st.sampled_from((HOUR, HOUR, DAY)),
)
def test_the_conductor_keeps_its_laws_and_comes_to_rest(
    script: list[tuple[str, int, int]],
    how: CompactionSettings,
    capacity: Capacity,
    granularity: Granularity,
) -> None:
    desk = Desk(how, capacity, granularity)
    for word, one, other in script:
        if word == "append":
            desk.append(one, other)
        elif word == "finish":
            desk.finish(one)
        elif word == "fail":
            desk.finish(one, fails=True)
        elif word == "lose":
            desk.finish(one, loses=True)
        elif word == "wait":
            desk.now_ms += one
        elif word == "crash":
            desk.restart()
        desk.look()
    desk.settle()
    assert desk.look() == 0, "nothing has changed"
    total = sum(size for _, size, _ in desk.world.counts())
    assert (
        desk.arrived
        <= total
        <= desk.arrived + 40 * granularity.nominal_ms // HOUR_MS * desk.started
    )
    again = plan_compaction(
        NAME, desk.world.segments(), how, now_ms=desk.now_ms, revision=desk.world.revision
    )
    laws.check_finished(again)


changes = st.lists(
    st.tuples(st.integers(0, 3) | st.integers(-40, 6), st.sampled_from((1, 1, 5, 40, 90, 160))),
    min_size=1,
    max_size=12,
)


@given(
    rounds=st.lists(st.tuples(changes, st.booleans()), min_size=1, max_size=6),
    how=st.sampled_from((PLAIN, replace(PLAIN, task_cost_small=60), DAILY)),
    granularity=st.sampled_from((HOUR, HOUR, DAY)),
)
def test_what_is_planned_change_by_change_is_what_a_whole_analysis_plans(
    rounds: list[tuple[list[tuple[int, int]], bool]],
    how: CompactionSettings,
    granularity: Granularity,
) -> None:
    """Nothing starts unless it is let: all that waits is compared with a plan of everything, made at once."""
    desk = Desk(how, Capacity(tasks=0, queue_max=1000), granularity)
    for appends, is_let in rounds:
        for hour, size_bytes in appends:
            desk.append(hour, size_bytes)
        desk.look()
        survey = desk.conductor.survey(NAME)
        made = plan_compaction(
            NAME,
            desk.world.segments(),
            how,
            now_ms=desk.now_ms,
            histories={one.chunk: one for one in desk.states()},
        )
        waiting = desk.conductor.queue.waiting
        assert groups_of(waiting) == groups_of(made.tasks)
        assert list(waiting) == sorted(waiting, key=lambda one: one.order)
        check_combined(waiting, how)
        assert len(waiting) <= 2 * len(made.tasks)
        for one in made.chunks:
            state = survey.states[one.interval]
            assert (state.reason, state.priority) == (one.score.reason, one.score.priority)
        if is_let:
            desk.allow(Capacity(tasks=3))
            desk.look()
            while desk.runs:
                desk.finish(0)
            desk.allow(Capacity(tasks=0, queue_max=1000))
            desk.look()


def groups_of(tasks: Iterable[CompactionTask]) -> list[CompactionGroup]:
    """Return the groups of tasks in order of time, without the revision at which each was judged."""
    groups = [one._replace(revision=None) for task in tasks for one in task.groups]
    return sorted(groups, key=lambda one: one.interval)


def check_combined(tasks: Iterable[CompactionTask], how: CompactionSettings) -> None:
    """Check that only small groups are put together, none too many, and that no two tasks with room are neighbours."""
    had_room = False
    for task in sorted(tasks, key=lambda one: one.chunks[0]):
        costs, small = task.chunk_costs, how.task_cost_small
        assert sum(costs) == task.cost
        assert len(task.groups) == 1 or (sum(costs[:-1]) < small and max(costs) < small)
        assert len(task.groups) <= how.task_groups_max
        if sum(costs) >= small and len(costs) == 1:
            continue  # a large one lies between, and is no neighbour
        has_room = sum(costs) < small and len(costs) < how.task_groups_max
        assert not (had_room and has_room), "these two would be one task"
        had_room = has_room


@given(
    rounds=st.lists(changes, min_size=2, max_size=8),
    groups_max=st.integers(1, 4),
    ends=st.booleans(),
)
def test_a_change_makes_only_the_tasks_beside_it_anew(
    rounds: list[list[tuple[int, int]]], groups_max: int, *, ends: bool
) -> None:
    how = replace(PLAIN, task_cost_small=200, task_groups_max=groups_max)
    desk = Desk(how, Capacity(tasks=0, queue_max=1000))
    for hour in range(0, 24, 2):
        for _ in range(3):
            desk.append(hour, 1)
    desk.look()
    for appends in rounds:
        before = desk.conductor.queue.waiting
        for hour, size_bytes in appends:
            desk.append(hour, size_bytes)
        desk.look()
        kept = {id(one) for one in before} & {id(one) for one in desk.conductor.queue.waiting}
        changed = len({hour for hour, _ in appends})
        assert len(before) - len(kept) <= 3 * changed, "its own task and the two beside it"
        check_combined(desk.conductor.queue.waiting, how)
        if ends:
            desk.allow(Capacity(tasks=1))
            desk.look()
            desk.finish(0)
            desk.allow(Capacity(tasks=0, queue_max=1000))
            desk.look()
            check_combined(desk.conductor.queue.waiting, how)


def test_what_is_put_together_otherwise_does_not_count_as_arrived() -> None:
    how = replace(PLAIN, task_cost_small=200, task_groups_max=3)
    desk = Desk(how, Capacity(tasks=0, queue_max=1000))
    for hour in range(1, 12):
        for size_bytes in (1, 1, hour):
            desk.append(hour, size_bytes)
    desk.look()
    before = desk.conductor.queue.cost_waiting
    assert desk.conductor.verdict(desk.now_ms + 1000).arrivals == 0, "a backlog"
    for size_bytes in (1, 1, 1):
        desk.append(0, size_bytes)
    desk.now_ms += 1000
    desk.look()
    came = desk.conductor.queue.cost_waiting - before
    assert desk.conductor.verdict(desk.now_ms).arrivals * 1000 == came


def test_a_restart_judges_only_what_is_unstable() -> None:
    desk = Desk(PLAIN, CAPACITIES[2])
    for hour in range(20):
        desk.append(hour, 90)
    desk.append(7, 1)
    desk.append(7, 1)
    assert desk.look() == 20
    desk.restart()
    assert desk.look() == 1, "hour 7 is unstable, and its task is lost"


def test_what_is_shed_is_deferred_and_taken_up_when_the_queue_runs_empty() -> None:
    desk = Desk(replace(PLAIN, task_cost_small=0), Capacity(tasks=1, queue_max=1))
    for hour in range(4):
        for _ in range(4 - hour):
            desk.append(hour, 10)
        desk.append(hour, 10)
        desk.append(hour, 10)
    desk.look()
    deferred = sorted(s.chunk for s in desk.states() if s.status is ChunkStatus.DEFERRED)
    assert len(deferred) == 2
    assert len(desk.conductor.queue.waiting) == 1
    verdict = desk.conductor.verdict(desk.now_ms)
    assert verdict.shed == 2
    assert desk.look() == 0, "deferred chunks are skipped"
    desk.finish(0)
    desk.look()
    assert not desk.conductor.queue.waiting
    assert desk.look() == 1, "the queue has run empty, and one has place in it"
    desk.settle()


def test_a_poisoned_chunk_rests_longer_each_time_and_delays_no_other() -> None:
    desk = Desk(replace(PLAIN, task_cost_small=0), Capacity(tasks=1, queue_max=10))
    for hour in (0, 1):
        for _ in range(3):
            desk.append(hour, 10)
    desk.look()
    desk.finish(0, fails=True)
    desk.look()
    assert len(desk.runs) == 1, "the other one starts at once"
    desk.finish(0)
    desk.look()
    assert not desk.runs
    state = next(s for s in desk.states() if s.failures)
    assert state.reason == "failed once: disk full"
    desk.now_ms = state.retry_at_ms
    desk.look()
    desk.finish(0, fails=True)
    again = next(s for s in desk.states() if s.failures)
    assert again.failures == 2
    assert again.retry_at_ms - desk.now_ms == 2 * 60_000
    desk.settle()


def test_a_chunk_whose_inputs_are_taken_away_is_tried_at_once_and_then_rests() -> None:
    desk = Desk(PLAIN, CAPACITIES[2])
    for _ in range(3):
        desk.append(0, 10)
    for _ in range(CONFLICTS_MAX + 1):
        desk.look()
        assert len(desk.runs) == 1, "planned anew at once"
        desk.finish(0, loses=True)
    desk.look()
    assert not desk.runs
    (state,) = desk.states()
    assert (state.failures, state.retry_at_ms) == (1, desk.now_ms + RETRY_FIRST_MS)
    desk.now_ms = state.retry_at_ms
    desk.look()
    desk.finish(0)
    desk.conductor.survey(NAME).note_bytes(state.chunk, rewritten=30)
    desk.look()
    (state,) = desk.states()
    assert (state.status, state.failures) == (ChunkStatus.STABLE, 0)
    desk.append(0, 10)
    desk.append(0, 10)
    desk.look()
    desk.finish(0, loses=True)
    desk.look()
    assert len(desk.runs) == 1, "what was written in between counts"


def test_new_settings_judge_all_chunks_anew() -> None:
    desk = Desk(PLAIN, CAPACITIES[2])
    for hour in range(5):
        desk.append(hour, 90)
        desk.append(hour, 5)
    assert desk.look() == 5
    assert not desk.runs
    desk.settings = replace(PLAIN, slack=0)
    desk.restart()
    assert desk.look() == 5
    assert desk.runs


def test_a_chunk_in_work_is_judged_when_its_task_has_ended() -> None:
    desk = Desk(PLAIN, CAPACITIES[2])
    for _ in range(4):
        desk.append(0, 10)
    assert desk.look() == 1
    desk.append(0, 10)
    assert desk.look() == 0, "a task is at work on it"
    assert not desk.conductor.queue.waiting
    desk.finish(0)
    assert desk.look() == 1
