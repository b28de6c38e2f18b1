"""Random events on tasks: they do what the naive oracle does, and the laws of tasks hold after each."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from carnac.core.tasks.events import (
    BeatAttempt,
    CancelTask,
    ClaimAttempt,
    Current,
    Dispatched,
    ExpireAttempts,
    FinishAttempt,
    LoseAttempt,
    RetryTask,
    Stale,
    Submitted,
    TaskDecision,
    TaskEvent,
    TaskReply,
)
from carnac.core.tasks.laws import check_tasks
from carnac.core.tasks.leadership import Leadership, decide_leader
from carnac.core.tasks.machine import OVERLORD, decide
from carnac.core.tasks.model import TaskState
from carnac.errors import CarnacError
from tests.support.laws.tasks import check_capacity, check_order
from tests.support.task_table import TaskTable
from tests.tasks import LEASE_MS, Oracle, candidacy, dispatch, wants

CAPACITY = 3

picks = st.integers(0, 9)
numbers = st.integers(1, 3)


def has_tasks(machine: TasksMachine) -> bool:
    return bool(machine.oracle.tasks)


def has_tried(machine: TasksMachine) -> bool:
    return any(task.tries for task in machine.oracle.tasks.values())


class TasksMachine(RuleBasedStateMachine):
    """Tasks are named in order; most attempts that are spoken of are the last ones."""

    @initialize()
    def open_table(self) -> None:
        self.leader: Leadership | None = decide_leader(None, candidacy(), at_ms=0)
        self.table = TaskTable(lambda role: self.leader if role == OVERLORD else None)
        self.oracle = Oracle()
        self.freed: list[str] = []

    @rule(
        priority=st.sampled_from([0, 50, 50, 75]),
        slots=st.sampled_from([1, 1, 2, 5]),
        after=st.sampled_from([(), (), (0,), (1,), (0, 2)]),
        retries=st.sampled_from([3, 1, 0]),
    )
    def submit(self, priority: int, slots: int, after: tuple[int, ...], retries: int) -> None:
        names = list(self.oracle.tasks)
        chosen = dict.fromkeys(names[pick % len(names)] for pick in after if names)
        event = wants(
            f"task{len(names)}", priority=priority, slots=slots, after=tuple(chosen),
            retries=retries,
        )  # fmt: skip
        expected = self.oracle.submit(event)
        reply = self.ask(event)
        if expected == "refused":
            assert reply is None
            return
        assert isinstance(reply, Submitted)
        assert reply.is_new
        again = self.ask(event)
        assert isinstance(again, Submitted)
        assert not again.is_new

    @rule(claims=st.booleans())
    def start_what_is_next(self, claims: bool) -> None:
        expected = self.oracle.dispatch(CAPACITY)
        reply = self.ask(dispatch(capacity=CAPACITY))
        assert isinstance(reply, Dispatched)
        assert [task.task_id for task, _ in reply.started] == expected
        pending = [task for task in self.table.tasks.values() if task.state is TaskState.PENDING]
        check_order([task for task, _ in reply.started], pending)
        for task, attempt in reply.started if claims else ():
            right = self.oracle.claim(task.task_id, attempt.number)
            assert right
            self.says(ClaimAttempt(task_id=task.task_id, number=attempt.number, holder="h"), right)

    @precondition(has_tried)
    @rule(pick=picks, back=st.sampled_from([0, 0, 0, 1]))
    def claim(self, pick: int, back: int) -> None:
        name, number = self.attempt(pick, back)
        right = self.oracle.claim(name, number)
        self.says(ClaimAttempt(task_id=name, number=number, holder="here"), right)

    @precondition(has_tried)
    @rule(pick=picks, back=st.sampled_from([0, 0, 1]))
    def beat(self, pick: int, back: int) -> None:
        name, number = self.attempt(pick, back)
        self.says(BeatAttempt(task_id=name, number=number), self.oracle.beat(name, number))

    @precondition(has_tried)
    @rule(pick=picks, back=st.sampled_from([0, 0, 0, 1]))
    def succeed(self, pick: int, back: int) -> None:
        name, number = self.attempt(pick, back)
        self.says(FinishAttempt(task_id=name, number=number), self.oracle.succeed(name, number))

    @precondition(has_tried)
    @rule(pick=picks, is_retryable=st.sampled_from([True, True, False]))
    def fail(self, pick: int, is_retryable: bool) -> None:
        name, number = self.attempt(pick, 0)
        right = self.oracle.fail(name, number, "failed", is_retryable=is_retryable)
        event = FinishAttempt(task_id=name, number=number, error="no", is_retryable=is_retryable)
        self.says(event, right)

    @precondition(has_tried)
    @rule(pick=picks)
    def die(self, pick: int) -> None:
        name, number = self.attempt(pick, 0)
        right = self.oracle.fail(name, number, "lost", is_retryable=True)
        reply = self.ask(LoseAttempt(task_id=name, number=number, error="gone"))
        assert isinstance(reply, Stale) != right

    @precondition(has_tried)
    @rule(duration_ms=st.sampled_from([500, 1_000, 1_000, 2_000, 4_000, LEASE_MS]))
    def let_time_pass(self, duration_ms: int) -> None:
        self.oracle.at_ms += duration_ms
        self.oracle.expire()
        self.ask(ExpireAttempts())

    @precondition(has_tasks)
    @rule(pick=picks)
    def cancel(self, pick: int) -> None:
        name = self.name(pick)
        self.oracle.cancel(name)
        assert self.ask(CancelTask(task_id=name)) is not None

    @precondition(has_tasks)
    @rule(pick=picks)
    def retry(self, pick: int) -> None:
        name = self.name(pick)
        assert (self.ask(RetryTask(task_id=name)) is not None) == self.oracle.retry(name)

    @invariant()
    def states_are_those_of_the_rules(self) -> None:
        if not hasattr(self, "table"):
            return
        for name in self.oracle.tasks:
            task, expected = self.table.tasks[name], self.oracle.state(name)
            is_awake = task.wakes_at_ms is not None and task.wakes_at_ms <= self.oracle.at_ms
            assert str(task.state) == ("waiting" if is_awake else expected), name
            tries = [str(one.state) for one in self.table.attempts.get(name, {}).values()]
            assert tries == [one.state for one in self.oracle.tasks[name].tries]

    @invariant()
    def laws_hold(self) -> None:
        if not hasattr(self, "table"):
            return
        attempts = {name: list(own.values()) for name, own in self.table.attempts.items()}
        check_tasks(self.table.tasks.values(), attempts)
        check_capacity(self.table.open_attempts(), CAPACITY)
        over = {one.lock_owner for own in attempts.values() for one in own if one.state.is_over}
        assert set(self.freed) == over, "who is over has given back its locks, once"
        assert len(self.freed) == len(over)

    def ask(self, event: TaskEvent) -> TaskReply | None:
        try:
            decision: TaskDecision = decide(self.table, event, at_ms=self.oracle.at_ms)
        except CarnacError:
            return None
        self.table.apply(decision)
        self.freed += decision.freed
        return decision.reply

    def says(self, event: TaskEvent, right: bool) -> None:
        reply = self.ask(event)
        assert isinstance(reply, Current if right else Stale), reply

    def name(self, pick: int) -> str:
        names = list(self.oracle.tasks)
        return names[pick % len(names)]

    def attempt(self, pick: int, back: int) -> tuple[str, int]:
        tried = [name for name, task in self.oracle.tasks.items() if task.tries]
        name = tried[pick % len(tried)]
        return name, max(1, len(self.oracle.tasks[name].tries) - back)


TestTasks = TasksMachine.TestCase
