from __future__ import annotations

from dataclasses import replace

from carnac.core.compaction.control.manager import (
    PASSES_MAX,
    Capacity,
    TaskQueue,
    change_queue,
    decide_dispatch,
    end_task,
    shed_surplus,
    start_task,
)
from carnac.core.compaction.plan.groups import CompactionGroup, GroupKind
from carnac.core.compaction.plan.tasks import CompactionTask
from carnac.core.time.intervals import Interval


def task(
    name: str,
    *,
    gain: int = 1,
    cost: int = 10,
    segments: str = "",
    priority: int = 0,
    after: tuple[str, ...] = (),
) -> CompactionTask:
    chunk = Interval(0, 10)
    group = CompactionGroup(
        group_id=name,
        datasource="events",
        kind=GroupKind.MAJOR,
        interval=chunk,
        segment_ids=tuple(segments or f"of {name}" for _ in range(1)),
    )
    return CompactionTask(
        task_id=name,
        datasource="events",
        datasource_priority=priority,
        groups=(group,),
        chunks=(chunk,),
        segments_out=1,
        gain=gain,
        cost=cost,
        after=after,
    )


def queue(*tasks: CompactionTask) -> TaskQueue:
    return change_queue(TaskQueue(), added=tasks)


def names(tasks: tuple[CompactionTask, ...]) -> list[str]:
    return [one.task_id for one in tasks]


def test_the_most_urgent_go_first_within_slots() -> None:
    waiting = queue(task("low", gain=1), task("high", gain=90), task("paid", gain=1, priority=5))
    done = decide_dispatch(waiting, Capacity(tasks=2))
    assert names(done.tasks) == ["paid", "high"]
    assert names(done.queue.waiting) == ["low"]


def test_of_equal_ones_the_newest_goes_first() -> None:
    late = replace(task("late"), chunks=(Interval(10, 20),))
    assert names(queue(task("early"), late).waiting) == ["late", "early"]


def test_what_shares_a_segment_with_a_running_task_waits() -> None:
    running = start_task(TaskQueue(), task("a", segments="s"), "run", 0)
    waiting = change_queue(running, added=[task("b", segments="s"), task("c")])
    assert names(decide_dispatch(waiting, Capacity(tasks=5)).tasks) == ["c"]


def test_a_black_task_waits_for_the_red_ones_it_names() -> None:
    waiting = queue(task("red"), task("black", after=("red",)))
    first = decide_dispatch(waiting, Capacity(tasks=5))
    assert names(first.tasks) == ["red"]
    running = start_task(first.queue, first.tasks[0], "run", 0)
    assert decide_dispatch(running, Capacity(tasks=5)).tasks == ()
    ended, one = end_task(running, "run")
    assert one is not None
    assert names(decide_dispatch(ended, Capacity(tasks=5)).tasks) == ["black"]


def test_a_task_that_costs_more_than_all_runs_alone() -> None:
    waiting = queue(task("giant", gain=99_999, cost=1000), task("small", cost=10))
    first = decide_dispatch(waiting, Capacity(tasks=5, cost=100))
    assert names(first.tasks) == ["giant"]
    running = start_task(first.queue, first.tasks[0], "run", 0)
    assert decide_dispatch(running, Capacity(tasks=5, cost=100)).tasks == ()


def test_small_tasks_pass_a_large_one_only_so_often() -> None:
    """Nothing waits for a large task at first, and it is not passed for ever."""
    capacity = Capacity(tasks=2, cost=100)
    waiting = queue(task("large", gain=10_000, cost=95))
    running = start_task(waiting, task("before", cost=50), "before", 0)
    passed = 0
    for number in range(100):
        running = change_queue(running, added=[task(f"small {number}", cost=5)])
        done = decide_dispatch(running, capacity)
        if not done.tasks:
            break
        (one,) = done.tasks
        passed += 1
        running, _ = end_task(start_task(done.queue, one, "run", 0), "run")
    assert passed == PASSES_MAX
    running, _ = end_task(running, "before")
    assert names(decide_dispatch(running, capacity).tasks)[0] == "large"


def test_the_lowest_priorities_are_shed() -> None:
    waiting = queue(*(task(f"t{gain}", gain=gain) for gain in (5, 1, 9, 3)))
    rest = shed_surplus(waiting, Capacity(queue_max=2))
    assert names(rest.queue.waiting) == ["t9", "t5"]
    assert names(rest.tasks) == ["t3", "t1"]


def test_a_run_that_nobody_knows_changes_nothing() -> None:
    assert end_task(TaskQueue(), "nobody") == (TaskQueue(), None)


def test_the_queue_stays_in_order_whatever_comes_and_goes() -> None:
    five, nine, two, seven = (task(f"t{gain}", gain=gain) for gain in (5, 9, 2, 7))
    waiting = queue(five, nine, two)
    assert names(waiting.waiting) == ["t9", "t5", "t2"]
    changed = change_queue(waiting, removed=[five], added=[seven, task("t1", gain=1)])
    assert names(changed.waiting) == ["t9", "t7", "t2", "t1"]
    assert names(change_queue(changed, removed=[nine, two]).waiting) == ["t7", "t1"]
    assert names(change_queue(waiting, removed=[two], added=[two]).waiting) == ["t9", "t5", "t2"]


def test_what_has_started_already_is_no_matter_when_it_is_removed() -> None:
    waiting = queue(task("t9", gain=9), task("t2", gain=2))
    for gain in (1, 5, 10):
        assert change_queue(waiting, removed=[task("gone", gain=gain)]) == waiting


def test_how_often_a_task_was_passed_is_forgotten_with_it() -> None:
    waiting = replace(queue(task("a"), task("b")), passed={"a": 3, "b": 1})
    assert change_queue(waiting, removed=[task("a")]).passed == {"b": 1}


def test_costs_of_what_waits_and_of_what_runs() -> None:
    waiting = queue(task("a", cost=7), task("b", cost=5))
    running = start_task(waiting, task("c", cost=3), "run", 0)
    assert (running.cost_waiting, running.cost_running) == (12, 3)


def test_of_two_that_share_a_segment_only_one_starts() -> None:
    first, second, third = task("a", segments="s"), task("b", segments="s"), task("c")
    done = decide_dispatch(queue(first, second, third), Capacity(tasks=5))
    assert names(done.tasks) == ["a", "c"]
    other = replace(second, datasource="other")
    assert names(decide_dispatch(queue(first, other), Capacity(tasks=5)).tasks) == ["a", "b"]
