"""The conductor over several datasources, and what it remembers of their chunks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from carnac.core.compaction.control.conductor import Conductor, Starts
from carnac.core.compaction.control.flow import Outlook
from carnac.core.compaction.control.manager import Capacity
from carnac.core.compaction.control.states import ChunkState, ChunkStatus
from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.compaction.plan.settings import AgeRule, CompactionSettings
from carnac.core.time.granularity import HOUR
from carnac.core.time.intervals import ETERNITY, Interval
from carnac.core.time.periods import parse_period
from carnac.simulation.folding_world import FoldingWorld
from tests.compactions import CHEAP, DAY_MS, HOUR_MS

START_MS = 40 * DAY_MS
HOW = CompactionSettings(
    target=CompactionTarget(target_bytes=100, segment_granularity="HOUR"),
    task_cost_small=0,
    cost=CHEAP,
)


def hour(number: int) -> Interval:
    return Interval(START_MS + number * HOUR_MS, START_MS + (number + 1) * HOUR_MS)


@dataclass
class Desk:
    """Worlds of datasources, and the conductor over them."""

    capacity: Capacity = field(default_factory=lambda: Capacity(tasks=0))
    now_ms: int = START_MS
    worlds: dict[str, FoldingWorld] = field(default_factory=dict)
    empty: list[Interval] = field(default_factory=list)
    """Chunks that the last look found to be empty, or cut otherwise."""

    def __post_init__(self) -> None:
        self.conductor = Conductor(self.capacity)

    def watch(
        self, name: str, how: CompactionSettings = HOW, states: tuple[ChunkState, ...] = ()
    ) -> None:
        self.worlds.setdefault(name, FoldingWorld(HOUR))
        self.conductor.watch(name, how, states)

    def fill(self, name: str, *hours: int, each: int = 3, size_bytes: int = 1) -> None:
        for number in hours:
            for _ in range(each):
                at_ms = hour(number).start_ms
                self.worlds[name].append(at_ms, size_bytes=size_bytes, rows=size_bytes)

    def look(self, name: str, *dirty: Interval) -> list[Interval]:
        """Look at what is dirty; return the chunks that were analysed."""
        world = self.worlds[name]
        world.take_changed()
        reached = self.conductor.reach(
            name, dirty or [ETERNITY], newest_ms=world.newest_ms, now_ms=self.now_ms
        )
        live = world.chunks(reached)
        due, states = self.conductor.look(name, reached, live, now_ms=self.now_ms)
        assert all(state.status is ChunkStatus.EMPTY and not state.segments for state in states)
        self.empty = [state.chunk for state in states]
        self.conductor.judge(name, world.segments(due))
        return due

    def start(self) -> Starts:
        starts = self.conductor.start(revision=1, now_ms=self.now_ms)
        for task in starts.tasks:
            self.conductor.note_start(task, task.task_id, now_ms=self.now_ms)
        return starts

    def waiting(self) -> list[tuple[str, Interval]]:
        tasks = self.conductor.queue.waiting
        return sorted((task.datasource, chunk) for task in tasks for chunk in task.chunks)

    def states(self, name: str) -> dict[Interval, ChunkState]:
        return self.conductor.survey(name).states


@pytest.fixture
def desk() -> Desk:
    """Two datasources with work to do in hour 0 each, and another hour of one."""
    made = Desk()
    for name in ("a", "b"):
        made.watch(name)
        made.fill(name, 0)
    made.fill("a", 5)
    for name in ("a", "b"):
        made.look(name)
    return made


def test_datasources_do_not_mix(desk: Desk) -> None:
    desk.start()
    assert desk.conductor.datasources == ("a", "b")
    assert desk.waiting() == [("a", hour(0)), ("a", hour(5)), ("b", hour(0))]
    desk.conductor.unwatch("a")
    assert desk.conductor.datasources == ("b",)
    assert desk.waiting() == [("b", hour(0))]
    desk.conductor.unwatch("nobody")
    desk.watch("b")
    assert desk.waiting() == [], "it is planned anew"
    assert desk.look("b") == [hour(0)]
    desk.start()
    assert desk.waiting() == [("b", hour(0))]


def test_what_a_running_task_of_another_datasource_does_is_no_matter(desk: Desk) -> None:
    desk.conductor.capacity = Capacity(tasks=1)
    (running,) = desk.start().tasks
    other = {"a": "b", "b": "a"}[running.datasource]
    (chunk,) = running.chunks
    desk.fill(running.datasource, 0, 5)
    desk.fill(other, 0, 5)
    assert chunk not in desk.look(running.datasource)
    assert hour(0) in desk.look(other)


def test_what_ended_tells_how_much_can_be_done(desk: Desk) -> None:
    desk.conductor.capacity = Capacity(tasks=2)
    started = desk.start().tasks
    assert desk.conductor.verdict(desk.now_ms).outlook is Outlook.UNKNOWN
    desk.now_ms += 2000
    for task in started:
        desk.conductor.end(task.task_id, now_ms=desk.now_ms)
    verdict = desk.conductor.verdict(desk.now_ms)
    cost = sum(task.cost for task in started)
    assert verdict.dispatches == 2 * cost / 4000
    assert verdict.backlog == desk.conductor.queue.cost_waiting > 0
    assert verdict.outlook is Outlook.CLEARS
    assert verdict.clears_at_ms == desk.now_ms + round(verdict.backlog / verdict.dispatches)


def test_what_is_deferred_counts_as_backlog(desk: Desk) -> None:
    desk.conductor.capacity = Capacity(tasks=0, queue_max=1)
    shed = desk.start()
    assert len(shed.shed) == 2
    assert sorted(shed.states) == sorted({task.datasource for task in shed.shed})
    deferred = [state for states in shed.states.values() for state in states]
    assert {state.status for state in deferred} == {ChunkStatus.DEFERRED}
    verdict = desk.conductor.verdict(desk.now_ms)
    assert verdict.shed == 2
    waiting = desk.conductor.queue.cost_waiting
    assert verdict.backlog == waiting + sum(state.cost for state in deferred)
    assert desk.conductor.has_more()


def test_the_history_of_a_chunk_survives_its_next_analysis(desk: Desk) -> None:
    assert desk.states("a")[hour(0)].arrived_bytes == 3, "what was there when it was first seen"
    desk.conductor.note_bytes("a", hour(0).start_ms + 7, arrived=10, rewritten=20)
    desk.fill("a", 0)
    assert desk.look("a", hour(0)) == [hour(0)]
    state = desk.states("a")[hour(0)]
    assert (state.arrived_bytes, state.rewritten_bytes) == (13, 20)
    assert desk.states("a")[hour(5)].rewritten_bytes == 0
    desk.conductor.note_bytes("a", hour(9).start_ms, arrived=1)
    assert hour(9) not in desk.states("a")


def test_only_what_has_changed_is_looked_at(desk: Desk) -> None:
    assert desk.look("a") == []
    desk.start()
    assert len(desk.waiting()) == 3, "what was found before the last look counts"
    desk.fill("a", 0, 5)
    assert desk.look("a", hour(0)) == [hour(0)]
    part = Interval(hour(5).start_ms + 1, hour(5).start_ms + 2)
    assert desk.look("a", part) == [hour(5)], "the whole chunk that holds it"
    assert desk.look("a") == []
    desk.fill("a", 7)
    assert desk.look("a", Interval(hour(6).start_ms + 1, hour(7).start_ms + 1)) == [hour(7)]


def test_a_chunk_that_is_gone_is_empty_and_its_task_goes(desk: Desk) -> None:
    desk.start()
    desk.worlds["a"] = FoldingWorld(HOUR)
    assert desk.look("a", hour(5)) == []
    assert desk.empty == [hour(5)]
    assert desk.states("a")[hour(5)].status is ChunkStatus.EMPTY
    assert desk.states("a")[hour(0)].status is ChunkStatus.UNSTABLE
    desk.start()
    assert desk.waiting() == [("a", hour(0)), ("b", hour(0))]


def test_what_time_makes_older_is_judged_by_its_new_rule() -> None:
    daily = AgeRule(
        older_than=parse_period("P1D"),
        target=CompactionTarget(target_bytes=100, segment_granularity="DAY"),
    )
    desk = Desk()
    desk.watch("a", replace(HOW, age_rules=(daily,)))
    desk.fill("a", 0, 1, 30, each=1)
    assert desk.look("a") == [hour(0), hour(1), hour(30)]
    assert desk.look("a", hour(30)) == []
    day = Interval(START_MS, START_MS + DAY_MS)
    desk.now_ms = START_MS + 2 * DAY_MS
    assert desk.look("a", hour(30)) == [day], "hours of the day that is now old are one chunk"
    assert desk.empty == [hour(0), hour(1)]
    desk.start()
    assert desk.waiting() == [("a", day)]
    assert set(desk.states("a")) == {day, hour(30)}
    desk.now_ms += HOUR_MS
    assert desk.look("a", hour(30)) == [], "the border stays until a whole day is old"


def test_what_is_too_new_is_looked_at_when_it_is_so_no_more() -> None:
    desk = Desk()
    desk.watch("a", replace(HOW, skip_offset=parse_period("PT2H")))
    desk.fill("a", 0, 4)
    assert desk.look("a") == [hour(0)]
    assert not desk.conductor.has_more()
    desk.fill("a", 6, each=1)
    assert desk.look("a", hour(6)) == [hour(4)]


def test_a_run_that_nobody_knows_or_of_what_is_watched_no_more_changes_nothing(desk: Desk) -> None:
    assert desk.conductor.end("nobody", now_ms=desk.now_ms) == []
    desk.conductor.capacity = Capacity(tasks=3)
    tasks = {task.task_id: task for task in desk.start().tasks}
    of_b = next(task for task in tasks.values() if task.datasource == "b")
    desk.conductor.unwatch("b")
    failed = {of_b.chunks[0]: "disk full"}
    assert desk.conductor.end(of_b.task_id, failures=failed, now_ms=desk.now_ms) == []
    assert desk.conductor.refuse(of_b, "no room", now_ms=desk.now_ms) == []
    desk.conductor.give_back(of_b)
    assert len(desk.conductor.queue.running) == 2


def test_what_could_not_be_started_is_looked_at_again(desk: Desk) -> None:
    desk.conductor.capacity = Capacity(tasks=1)
    (task,) = desk.conductor.start(revision=1, now_ms=desk.now_ms).tasks
    assert not desk.conductor.has_more()
    desk.conductor.give_back(task)
    assert desk.conductor.has_more()
    assert desk.look(task.datasource, hour(20)) == list(task.chunks)


def test_what_nobody_takes_rests(desk: Desk) -> None:
    desk.conductor.capacity = Capacity(tasks=1)
    (task,) = desk.conductor.start(revision=1, now_ms=desk.now_ms).tasks
    (state,) = desk.conductor.refuse(task, "no room", now_ms=desk.now_ms)
    assert (state.failures, state.reason) == (1, "failed once: no room")
    assert desk.look(task.datasource, *task.chunks) == []
    desk.now_ms = state.retry_at_ms
    assert desk.look(task.datasource, hour(20)) == list(task.chunks)


def test_what_failed_is_not_looked_at_before_it_has_rested(desk: Desk) -> None:
    desk.conductor.capacity = Capacity(tasks=1)
    (task,) = desk.start().tasks
    desk.conductor.end(
        task.task_id, failures=dict.fromkeys(task.chunks, "disk full"), now_ms=desk.now_ms
    )
    assert not desk.conductor.has_more()


def test_datasources_are_named_in_order() -> None:
    desk = Desk()
    for name in ("b", "c", "a"):
        desk.watch(name)
    assert desk.conductor.datasources == ("a", "b", "c")
