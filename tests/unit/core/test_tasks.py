"""Rules of tasks in single steps: pauses between attempts, and late words."""

from __future__ import annotations

from dataclasses import replace

from carnac.core.tasks.events import (
    CancelTask,
    ClaimAttempt,
    Dispatched,
    FinishAttempt,
    Stale,
    TaskEvent,
    TaskReply,
)
from carnac.core.tasks.leadership import decide_leader, decide_resignation
from carnac.core.tasks.machine import decide
from carnac.core.tasks.model import RetryPolicy, TaskState
from tests.support.task_table import TaskTable
from tests.tasks import LEASE_MS, candidacy, dispatch, wants


class Box:
    """Tasks in memory: every decision is written down at once."""

    def __init__(self) -> None:
        leader = decide_leader(None, candidacy(), at_ms=0)
        self.table = TaskTable(lambda _: leader)
        self.at_ms = 0

    def __call__(self, event: TaskEvent) -> TaskReply:
        decision = decide(self.table, event, at_ms=self.at_ms)
        self.table.apply(decision)
        return decision.reply

    def start(self) -> list[str]:
        reply = self(dispatch())
        assert isinstance(reply, Dispatched)
        return [attempt.lock_owner for _, attempt in reply.started]


def test_pauses_double_up_to_the_longest() -> None:
    policy = RetryPolicy(limit=9, delay_ms=1_000, longest_delay_ms=5_000)
    assert [policy.pause_ms(failures) for failures in (1, 2, 3, 4, 1_000)] == [
        1_000, 2_000, 4_000, 5_000, 5_000,
    ]  # fmt: skip


def test_a_task_is_tried_as_often_as_its_policy_says_after_pauses_that_double() -> None:
    box = Box()
    box(wants("a", retries=3))
    pauses = []
    for number in range(1, 5):
        assert box.start() == [f"a/{number}"]
        box(ClaimAttempt(task_id="a", number=number, holder="here"))
        box(FinishAttempt(task_id="a", number=number, error="no", is_retryable=True))
        task = box.table.tasks["a"]
        if task.wakes_at_ms is not None:
            pauses.append(task.wakes_at_ms - box.at_ms)
            box.at_ms = task.wakes_at_ms - 1
            assert box.start() == []
            box.at_ms += 1
    assert pauses == [1_000, 2_000, 4_000]
    assert task.state is TaskState.FAILED
    assert task.error == "no"


def test_what_was_cancelled_stays_so_whatever_its_attempt_says_but_its_report_is_kept() -> None:
    box = Box()
    box(wants("a"))
    box.start()
    box(ClaimAttempt(task_id="a", number=1, holder="here"))
    box(CancelTask(task_id="a"))
    assert isinstance(box(FinishAttempt(task_id="a", number=1, report="{}")), Stale)
    assert box.table.tasks["a"].state is TaskState.CANCELLED
    assert box.table.reports == {("a", 1): "{}"}


def test_nobody_claims_success_for_an_attempt_that_nobody_began() -> None:
    box = Box()
    box(wants("a"))
    box.start()
    assert isinstance(box(FinishAttempt(task_id="a", number=1)), Stale)
    assert box.table.tasks["a"].state is TaskState.RUNNING


def test_a_leader_that_resigned_and_comes_back_leads_under_a_new_fence() -> None:
    first = decide_leader(None, candidacy("one"), at_ms=0)
    gone = decide_resignation(first, "one")
    assert decide_resignation(first, "two") == first
    again = decide_leader(gone, candidacy("one"), at_ms=1)
    assert (again.fence, again.since_ms) == (2, 1)
    assert decide_leader(again, candidacy("two"), at_ms=LEASE_MS).leader_id == "one"
    assert decide_leader(again, candidacy("two"), at_ms=LEASE_MS + 1).fence == 3


def test_who_leads_gets_a_fence_above_one_that_was_heard_and_nobody_else_does() -> None:
    first = decide_leader(None, candidacy("one"), at_ms=0)
    for at_ms, leader_id, above, fence in (
        (1, "one", 0, 1),
        (1, "one", 7, 8),
        (1, "two", 7, 1),
        (LEASE_MS, "two", 0, 2),
        (LEASE_MS, "two", 7, 8),
    ):
        asked = replace(candidacy(leader_id), above=above)
        leader = decide_leader(first, asked, at_ms=at_ms)
        assert leader.fence == fence, (at_ms, leader_id, above)
