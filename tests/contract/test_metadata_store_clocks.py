"""One behaviour for every metadata store: clocks that were wrong, and are not any more.

Nothing that a process said while its clock was days ahead keeps anybody waiting after it is dead.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from carnac.core.locks.events import Granted
from carnac.core.tasks.events import ClaimAttempt, Dispatched, ExpireAttempts, FinishAttempt
from carnac.core.tasks.model import TaskState
from carnac.errors import Revoked
from carnac.ports import LeaseKind
from tests.contract.conftest import Store
from tests.locks import hours
from tests.locks import wants as wants_lock
from tests.logs import append_of, day, segment
from tests.support.clock import FakeClock
from tests.tasks import LEASE_MS, candidacy, dispatch, wants

JUMP_MS = 2 * 86_400_000


@pytest.fixture
def behind(store: Store, clock: FakeClock) -> FakeClock:
    """The clock, set right after a process two days ahead has led, and holds a lock and runs an attempt."""
    store.change_tasks(wants("a", retries=2))
    clock.advance_ms(JUMP_MS)
    led = store.lead(candidacy("far"))
    store.change_tasks(dispatch(led.fence))
    store.change_tasks(ClaimAttempt(task_id="a", number=1, holder="far"))
    store.change_locks(wants_lock("a/1", hours(0)))
    clock.advance_ms(-JUMP_MS)
    return clock


def state(store: Store) -> TaskState:
    task = store.find_task("a")
    assert task is not None
    return task.state


def test_another_one_leads_at_once_and_the_old_fence_is_refused(
    store: Store, behind: FakeClock
) -> None:
    leader = store.lead(candidacy("near"))
    assert (leader.leader_id, leader.fence) == ("near", 2)
    assert store.lead(candidacy("far")).leader_id == "near"
    assert not isinstance(store.change_tasks(dispatch(1)), Dispatched)


def test_a_leader_that_lives_on_leads_on_by_its_new_time(store: Store, behind: FakeClock) -> None:
    led = store.lead(candidacy("far"))
    assert (led.fence, led.heartbeat_at_ms) == (1, behind.now_ms())
    assert store.lead(candidacy("near")).leader_id == "far"
    behind.advance_ms(LEASE_MS)
    assert store.lead(candidacy("near")).leader_id == "near"


def test_the_attempt_is_lost_at_once(store: Store, behind: FakeClock) -> None:
    store.change_tasks(ExpireAttempts())
    assert state(store) is TaskState.WAITING
    assert store.locks() == ()


def test_its_locks_keep_nobody_out(store: Store, behind: FakeClock) -> None:
    assert isinstance(store.change_locks(wants_lock("b", hours(0))), Granted)


def test_a_pause_that_began_in_the_future_is_over(store: Store, behind: FakeClock) -> None:
    behind.advance_ms(JUMP_MS)
    store.change_tasks(FinishAttempt(task_id="a", number=1, error="x", is_retryable=True))
    behind.advance_ms(-JUMP_MS)
    fence = store.lead(candidacy("near")).fence
    reply = store.change_tasks(dispatch(fence))
    assert isinstance(reply, Dispatched)
    assert [task.task_id for task, _ in reply.started] == ["a"]


def test_leases_of_readers_and_writers_are_over(store: Store, clock: FakeClock) -> None:
    clock.advance_ms(JUMP_MS)
    store.acquire_lease(LeaseKind.READER, holder="far", ttl_ms=LEASE_MS)
    writer = store.acquire_lease(LeaseKind.WRITER, holder="far", ttl_ms=LEASE_MS)
    clock.advance_ms(-JUMP_MS)
    assert store.leases() == ()
    with pytest.raises(Revoked):
        store.renew_lease(writer.lease_id, ttl_ms=LEASE_MS)
    with pytest.raises(Revoked):
        store.publish(replace(append_of(segment("a", day(1))), lease_id=writer.lease_id))
