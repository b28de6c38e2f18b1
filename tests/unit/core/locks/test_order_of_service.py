"""Priorities hold while a request waits: it is served in its order, and nothing is granted only to be taken back."""

from __future__ import annotations

import pytest

from carnac.core.locks.events import BeginPublish, EndPublish, Granted, ReleaseLocks, RequestLock
from carnac.core.locks.model import LockState
from tests.locks import Box, hours, wants
from tests.support.laws import locks as laws

SERVED_PAST = 300


@pytest.fixture
def box() -> Box:
    return Box()


def held(box: Box, request: RequestLock) -> int:
    reply = box(request)
    assert isinstance(reply, Granted), reply
    return reply.lock.lock_id


def states(box: Box, task_id: str) -> list[LockState]:
    return [lock.state for lock in box.table.of_task(task_id)]


def entangle(box: Box, *, priority: int, where: tuple[int, int] = (2, 4)) -> int:
    """Task a publishes in hour 1 and waits for c; `high` wants both, so it waits for a, which is behind it."""
    lock_id = held(box, wants("a", hours(1), priority=priority))
    held(box, wants("c", hours(where[1] - 1), priority=90))
    box(BeginPublish(task_id="a", lock_ids=(lock_id,)))
    box(wants("a", hours(*where), priority=priority))
    box(wants("high", hours(0, 3), priority=75))
    return lock_id


def test_who_can_take_the_place_of_what_is_granted_is_looked_at_again(box: Box) -> None:
    lock_id = entangle(box, priority=50, where=(2, 6))
    box(EndPublish(task_id="a", lock_ids=(lock_id,)))
    box(ReleaseLocks(task_id="c"))
    for lock in box.table:
        if lock.state is LockState.WAITING:
            laws.check_waits(list(box.table), lock, box.at_ms)
    assert states(box, "high") == [LockState.HELD]


def test_lower_ones_are_not_served_past_a_higher_one_that_waits(box: Box) -> None:
    entangle(box, priority=0)
    served = 0
    for number in range(SERVED_PAST):
        reply = box(wants(f"low{number}", hours(0), priority=25))
        served += isinstance(reply, Granted)
        box(ReleaseLocks(task_id=f"low{number}"))
    assert states(box, "high") == [LockState.WAITING]
    assert served == 0


def test_nobody_is_revoked_for_a_grant_that_is_taken_back_at_once(box: Box) -> None:
    held(box, wants("a", hours(1)))
    held(box, wants("c", hours(2), priority=90))
    held(box, wants("victim", hours(5), priority=25))
    box(wants("a", hours(2, 6)))
    box(wants("high", hours(0, 4), priority=75))
    box(ReleaseLocks(task_id="c"))
    assert states(box, "high") == [LockState.HELD]
    assert states(box, "victim") == [LockState.HELD]
