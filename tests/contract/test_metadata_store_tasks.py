"""One behaviour for every metadata store: tasks, attempts, and who leads."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from carnac.core.locks.events import Granted, RenewLocks, Standing
from carnac.core.tasks.events import (
    BeatAttempt,
    CancelTask,
    Changed,
    ClaimAttempt,
    Current,
    Deposed,
    Dispatched,
    ExpireAttempts,
    FinishAttempt,
    ForgetTasks,
    LoseAttempt,
    RecordHandle,
    RetryTask,
    SettleAttempt,
    Stale,
    Submitted,
    TaskEvent,
    TaskReply,
)
from carnac.core.tasks.leadership import Leadership
from carnac.core.tasks.machine import OVERLORD, decide
from carnac.core.tasks.model import Attempt, AttemptState, Task, TaskState
from carnac.core.time.intervals import Interval
from carnac.errors import CarnacError, Conflict, Invalid, NotFound
from carnac.ports import TaskFilter
from tests.contract.conftest import Store
from tests.locks import hours
from tests.locks import wants as wants_lock
from tests.support.clock import DEFAULT_START_MS, FakeClock
from tests.support.task_table import TaskTable
from tests.tasks import LEASE_MS, candidacy, dispatch, wants


def submitted(store: Store, task_id: str, **how: object) -> Task:
    reply = store.change_tasks(wants(task_id, **how))  # type: ignore[arg-type]
    assert isinstance(reply, Submitted), reply
    return reply.task


def started(store: Store, capacity: int = 10) -> list[str]:
    leader = store.lead(candidacy())
    reply = store.change_tasks(dispatch(leader.fence, capacity=capacity))
    assert isinstance(reply, Dispatched), reply
    return [task.task_id for task, _ in reply.started]


def claimed(store: Store, task_id: str, number: int = 1) -> Attempt:
    reply = store.change_tasks(ClaimAttempt(task_id=task_id, number=number, holder="here"))
    assert isinstance(reply, Current), reply
    return reply.attempt


def state(store: Store, task_id: str) -> TaskState:
    task = store.find_task(task_id)
    assert task is not None
    return task.state


class TestSubmitting:
    def test_a_new_store_has_no_tasks(self, store: Store) -> None:
        assert store.tasks() == ()
        assert store.find_task("a") is None
        assert store.task_payload("a") is None
        assert store.task_report("a") is None
        assert store.attempts("a") == ()
        assert store.live_attempts() == ()
        assert store.leader(OVERLORD) is None

    def test_what_was_submitted_is_what_is_stored(self, store: Store) -> None:
        first = submitted(store, "a", payload='{"ä": "\\u0000"}', slots=3, priority=-7, retries=2)
        second = submitted(store, "b", after=("a",), datasource="other", type="compact")
        assert (first.number, second.number) == (1, 2)
        assert (first.state, second.state) == (TaskState.PENDING, TaskState.WAITING)
        assert store.find_task("a") == first
        assert store.find_task("b") == second
        assert store.task_payload("a") == '{"ä": "\\u0000"}'
        assert store.tasks() == (second, first)

    def test_the_same_task_again_is_the_first_one(self, store: Store, clock: FakeClock) -> None:
        first = submitted(store, "a")
        clock.advance_ms(5)
        assert store.change_tasks(wants("a")) == Submitted(task=first, is_new=False)
        with pytest.raises(Conflict, match="there is a task a already"):
            store.change_tasks(wants("a", payload='{"other": 1}'))
        assert store.tasks() == (first,)

    def test_a_dependency_that_is_not_there_is_refused(self, store: Store) -> None:
        with pytest.raises(NotFound, match="depends on task b"):
            store.change_tasks(wants("a", after=("b",)))
        assert store.tasks() == ()
        assert submitted(store, "c").number == 1


class TestIdsThatNobodyCanKeep:
    """Asked for all the same: one sentence or nothing, and never the task of another id."""

    @pytest.mark.parametrize("task_id", ["a\0b", "a\0", "\ud800", "a\udfff"])
    def test_lead_to_no_task(self, store: Store, task_id: str) -> None:
        submitted(store, "a")
        with pytest.raises((NotFound, Invalid)):
            store.change_tasks(CancelTask(task_id=task_id, error="cancelled"))
        with suppress(Invalid):
            assert store.find_task(task_id) is None
        with suppress(Invalid):
            assert store.tasks(TaskFilter(datasource=task_id)) == ()
        task = store.find_task("a")
        assert task is not None
        assert task.state is TaskState.PENDING


class TestLists:
    @pytest.fixture(autouse=True)
    def tasks(self, store: Store, clock: FakeClock) -> None:
        for task_id, datasource, kind in [
            ("a", "clicks", "compact"), ("b", "views", "compact"),
            ("c", "clicks", "kill"), ("d", "views", "kill"),
        ]:  # fmt: skip
            submitted(store, task_id, datasource=datasource, type=kind)
            clock.advance_ms(10)
        store.change_tasks(CancelTask(task_id="b"))
        clock.advance_ms(10)
        store.change_tasks(CancelTask(task_id="a"))

    def test_newest_first_a_page_at_a_time(self, store: Store) -> None:
        page = store.tasks(limit=3)
        assert [task.task_id for task in page] == ["d", "c", "b"]
        rest = store.tasks(TaskFilter(before=page[-1].number), limit=3)
        assert [task.task_id for task in rest] == ["a"]

    @pytest.mark.parametrize(
        ("which", "expected"),
        [
            (TaskFilter(datasource="clicks"), "ca"),
            (TaskFilter(type="kill"), "dc"),
            (TaskFilter(datasource="views", type="kill"), "d"),
            (TaskFilter(states=(TaskState.CANCELLED,)), "ba"),
            (TaskFilter(states=(TaskState.PENDING, TaskState.RUNNING)), "dc"),
            (TaskFilter(states=()), ""),
            (TaskFilter(group_id="c"), "c"),
            (TaskFilter(created=Interval(DEFAULT_START_MS + 10, DEFAULT_START_MS + 30)), "cb"),
            (TaskFilter(finished_until_ms=DEFAULT_START_MS + 40), "b"),
            (TaskFilter(finished_until_ms=DEFAULT_START_MS + 50), "ba"),
            (TaskFilter(finished_until_ms=DEFAULT_START_MS + 39), ""),
        ],
        ids=str,
    )
    def test_by_conditions(self, store: Store, which: TaskFilter, expected: str) -> None:
        assert "".join(task.task_id for task in store.tasks(which)) == expected


class TestAttempts:
    def test_an_attempt_from_dispatch_to_end(self, store: Store, clock: FakeClock) -> None:
        submitted(store, "a")
        assert started(store) == ["a"]
        assert started(store) == []
        clock.advance_ms(3)
        store.change_tasks(RecordHandle(task_id="a", number=1, handle="4711"))
        first = claimed(store, "a")
        clock.advance_ms(4)
        beaten = store.change_tasks(BeatAttempt(task_id="a", number=1, progress='{"done": 1}'))
        assert isinstance(beaten, Current)
        assert beaten.attempt == replace(
            first, heartbeat_at_ms=clock.now_ms(), progress='{"done": 1}'
        )
        assert store.live_attempts() == store.attempts("a") == (beaten.attempt,)
        clock.advance_ms(5)
        reply = store.change_tasks(FinishAttempt(task_id="a", number=1, report='{"rows": 2}'))
        assert isinstance(reply, Current)
        assert reply.attempt == replace(
            beaten.attempt,
            state=AttemptState.SUCCEEDED,
            ended_at_ms=clock.now_ms(),
            is_settled=True,
        )
        assert (reply.attempt.handle, reply.attempt.holder) == ("4711", "here")
        assert store.find_task("a") == reply.task
        assert (reply.task.state, reply.task.finished_at_ms) == (
            TaskState.SUCCEEDED, clock.now_ms(),
        )  # fmt: skip
        assert store.attempts("a") == (reply.attempt,)
        assert store.live_attempts() == ()
        assert store.task_report("a") == store.task_report("a", 1) == '{"rows": 2}'
        assert store.task_report("a", 2) is None

    def test_only_one_process_claims_an_attempt(self, store: Store) -> None:
        submitted(store, "a")
        started(store)
        claimed(store, "a")
        again = store.change_tasks(ClaimAttempt(task_id="a", number=1, holder="there"))
        assert isinstance(again, Stale)
        assert store.attempts("a")[0].holder == "here"
        missing = store.change_tasks(ClaimAttempt(task_id="a", number=2, holder="there"))
        assert isinstance(missing, Stale)
        assert missing.attempt is None

    def test_a_lost_attempt_gives_back_its_locks_in_the_same_step(
        self, store: Store, clock: FakeClock
    ) -> None:
        submitted(store, "a", retries=1)
        started(store)
        owner = claimed(store, "a").lock_owner
        assert isinstance(store.change_locks(wants_lock(owner, hours(1))), Granted)
        clock.advance_ms(LEASE_MS - 1)
        assert store.change_tasks(ExpireAttempts()) == Changed(tasks=())
        clock.advance_ms(1)
        lost = store.change_tasks(ExpireAttempts())
        assert isinstance(lost, Changed)
        assert [(task.task_id, task.state) for task in lost.tasks] == [("a", TaskState.WAITING)]
        assert store.change_locks(RenewLocks(task_id=owner)) == Standing(locks=())
        assert isinstance(store.change_tasks(BeatAttempt(task_id="a", number=1)), Stale)
        assert [one.number for one in store.live_attempts()] == [1]
        store.change_tasks(SettleAttempt(task_id="a", number=1))
        assert store.live_attempts() == ()
        assert started(store) == []
        clock.advance_ms(1_000)
        assert started(store) == ["a"]
        assert [one.number for one in store.attempts("a")] == [1, 2]

    def test_who_does_not_lead_starts_nothing(self, store: Store, clock: FakeClock) -> None:
        submitted(store, "a")
        assert store.change_tasks(dispatch(1)) == Deposed()
        old = store.lead(candidacy("one"))
        clock.advance_ms(LEASE_MS)
        new = store.lead(candidacy("two"))
        assert store.change_tasks(dispatch(old.fence)) == Deposed()
        reply = store.change_tasks(dispatch(new.fence))
        assert isinstance(reply, Dispatched)
        assert [task.task_id for task, _ in reply.started] == ["a"]

    def test_a_chain_goes_on_or_fails_as_a_whole(self, store: Store) -> None:
        submitted(store, "a")
        submitted(store, "b", after=("a",))
        submitted(store, "c", after=("b",))
        submitted(store, "d", after=("a", "c"))
        assert started(store) == ["a"]
        claimed(store, "a")
        store.change_tasks(FinishAttempt(task_id="a", number=1))
        assert started(store) == ["b"]
        store.change_tasks(LoseAttempt(task_id="b", number=1, error="process 7 is gone"))
        assert [state(store, name) for name in "abcd"] == [
            TaskState.SUCCEEDED, TaskState.FAILED, TaskState.FAILED, TaskState.FAILED,
        ]  # fmt: skip
        last = store.find_task("d")
        assert last is not None
        assert last.error == "task c, on which it depends, failed"
        with pytest.raises(Conflict, match="retry that one first"):
            store.change_tasks(RetryTask(task_id="c"))
        store.change_tasks(RetryTask(task_id="b"))
        store.change_tasks(RetryTask(task_id="c"))
        assert state(store, "c") is TaskState.WAITING
        assert started(store) == ["b"]

    def test_forgetting_leaves_nothing_behind(self, store: Store) -> None:
        submitted(store, "a")
        submitted(store, "b", after=("a",))
        started(store)
        claimed(store, "a")
        assert store.change_tasks(ForgetTasks(task_ids=("a", "b"))) == Changed(tasks=())
        store.change_tasks(FinishAttempt(task_id="a", number=1, report="{}"))
        store.change_tasks(CancelTask(task_id="b"))
        forgotten = store.change_tasks(ForgetTasks(task_ids=("b", "a", "x")))
        assert isinstance(forgotten, Changed)
        assert [task.task_id for task in forgotten.tasks] == ["a", "b"]
        assert store.tasks() == ()
        assert store.attempts("a") == ()
        assert store.task_report("a") is None
        assert store.task_payload("a") is None
        assert submitted(store, "a").number == 3


class TestLeading:
    def test_one_leads_until_its_lease_is_over(self, store: Store, clock: FakeClock) -> None:
        first = store.lead(candidacy("one", url="http://one"))
        assert first == Leadership(
            role=OVERLORD, leader_id="one", fence=1, holder="overlord one", url="http://one",
            since_ms=clock.now_ms(), heartbeat_at_ms=clock.now_ms(), lease_ms=LEASE_MS,
        )  # fmt: skip
        assert store.lead(candidacy("two")) == first
        clock.advance_ms(LEASE_MS - 1)
        assert store.lead(candidacy("one", url="http://one")).fence == 1
        clock.advance_ms(LEASE_MS - 1)
        assert store.lead(candidacy("two")).leader_id == "one"
        clock.advance_ms(1)
        second = store.lead(candidacy("two"))
        assert (second.leader_id, second.fence) == ("two", 2)
        assert store.leader(OVERLORD) == second
        assert store.lead(candidacy("one")) == second

    def test_who_resigns_is_followed_at_once(self, store: Store) -> None:
        store.lead(candidacy("one"))
        store.resign(OVERLORD, "two")
        assert store.lead(candidacy("two")).leader_id == "one"
        store.resign(OVERLORD, "one")
        store.resign(OVERLORD, "one")
        assert store.lead(candidacy("two")).fence == 2
        store.resign("other", "one")
        assert store.leader("other") is None


def random_event(rng: random.Random, names: list[str]) -> TaskEvent:
    name, number = rng.choice(names), rng.randint(1, 3)
    after = tuple(rng.sample(names, rng.choice([0, 0, 1, 2])))
    events: list[TaskEvent] = [
        wants(name, after=after, priority=rng.randint(0, 2), slots=rng.randint(1, 3), retries=2),
        dispatch(1, capacity=3),
        dispatch(1, capacity=3),
        RecordHandle(task_id=name, number=number, handle=name),
        ClaimAttempt(task_id=name, number=number, holder="here"),
        ClaimAttempt(task_id=name, number=number, holder="here"),
        BeatAttempt(task_id=name, number=number, progress=rng.choice([None, "{}"])),
        FinishAttempt(task_id=name, number=number, report="{}"),
        FinishAttempt(task_id=name, number=number, error="no", is_retryable=rng.random() < 0.7),
        LoseAttempt(task_id=name, number=number, error="gone"),
        ExpireAttempts(),
        SettleAttempt(task_id=name, number=number),
        CancelTask(task_id=name),
        RetryTask(task_id=name),
        ForgetTasks(task_ids=(name,)),
    ]
    return rng.choices(events, weights=[6, 3, 3, 1, 3, 3, 1, 3, 2, 1, 2, 1, 0.5, 1, 0.3])[0]


@pytest.mark.parametrize("seed", [1, 2])
def test_it_does_what_a_table_in_memory_does(store: Store, clock: FakeClock, seed: int) -> None:
    rng = random.Random(seed)
    names = [f"task{number}" for number in range(8)]
    replies: set[str] = set()
    table = TaskTable(store.leader)
    store.lead(candidacy())
    for step in range(150):
        clock.advance_ms(rng.choice([1, 500, 5_000, 40_000]))
        event = random_event(rng, names)
        expected = answer(lambda one: decide_in(table, one, clock.now_ms()), event)
        assert answer(store.change_tasks, event) == expected, f"seed {seed}, step {step}: {event}"
        replies.add(type(expected).__name__)
        assert {task.task_id: task for task in store.tasks()} == table.tasks
        live = [*table.open_attempts(), *table.unsettled_attempts()]
        assert list(store.live_attempts()) == sorted(live, key=lambda x: (x.task_id, x.number))
    for name in names:
        attempts = table.attempts.get(name, {})
        assert store.attempts(name) == tuple(attempts[number] for number in sorted(attempts))
        assert [store.task_report(name, number) for number in attempts] == [
            table.reports.get((name, number)) for number in attempts
        ]
    assert replies >= {"Submitted", "Dispatched", "Current", "Stale", "Changed", "str"}


def decide_in(table: TaskTable, event: TaskEvent, at_ms: int) -> TaskReply:
    decision = decide(table, event, at_ms=at_ms)
    table.apply(decision)
    return decision.reply


def answer(change: Callable[[TaskEvent], TaskReply], event: TaskEvent) -> object:
    try:
        return change(event)
    except CarnacError as error:
        return error.message
