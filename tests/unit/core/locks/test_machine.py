"""The lockbox by example: the sentences of the sources, one after the other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from carnac.core.locks.events import (
    BeginPublish,
    BreakLock,
    EndPublish,
    ExpireLocks,
    Granted,
    Lost,
    Refused,
    ReleaseLocks,
    RenewLocks,
    RequestLock,
    Standing,
    Waits,
)
from carnac.core.locks.laws import check_locks
from carnac.core.locks.machine import REVOKED_KEPT_MS, decide
from carnac.core.locks.model import BESIDE, Lock, LockState, LockType, Reason, may_publish
from carnac.core.time.intervals import ETERNITY
from carnac.errors import Invalid, InvariantError, NotFound
from tests.locks import HOUR_MS, LEASE_MS, Box, hours, wants
from tests.support.lock_table import LockTable

DAY = hours(0, 24)


@pytest.fixture
def box() -> Box:
    return Box()


def granted(box: Box, request: RequestLock) -> Lock:
    reply = box(request)
    assert isinstance(reply, Granted), reply
    return reply.lock


def waits(box: Box, request: RequestLock) -> list[str]:
    """The tasks that it waits for."""
    reply = box(request)
    assert isinstance(reply, Waits), reply
    return [lock.task_id for lock in reply.blockers]


def lost(box: Box, request: RequestLock) -> Reason:
    reply = box(request)
    assert isinstance(reply, Lost), reply
    assert reply.lock.revocation is not None
    return reply.lock.revocation.reason


def states(box: Box) -> dict[str, LockState]:
    return {lock.task_id: lock.state for lock in box.table}


class TestSharing:
    def test_two_tasks_do_not_hold_one_time_chunk(self, box: Box) -> None:
        granted(box, wants("a", hours(3)))
        assert waits(box, wants("b", hours(3))) == ["a"]
        granted(box, wants("c", hours(4)))

    def test_intervals_conflict_where_they_overlap_and_not_where_they_touch(self, box: Box) -> None:
        granted(box, wants("a", hours(0, 2)))
        granted(box, wants("b", hours(2, 4)))
        assert waits(box, wants("c", hours(1, 3))) == ["a", "b"]
        assert waits(box, wants("d", ETERNITY)) == ["a", "b", "c"]

    def test_datasources_do_not_conflict(self, box: Box) -> None:
        granted(box, wants("a", DAY))
        granted(box, wants("b", DAY, datasource="others"))

    def test_two_tasks_lock_different_segments_of_one_chunk(self, box: Box) -> None:
        granted(box, wants("a", hours(3), 1, 2))
        granted(box, wants("b", hours(3), 3))
        assert waits(box, wants("c", hours(3), 2, 3)) == ["a", "b"]

    def test_a_time_chunk_lock_covers_every_segment_and_those_to_come(self, box: Box) -> None:
        granted(box, wants("a", hours(3)))
        assert waits(box, wants("b", hours(3), 7)) == ["a"]
        assert waits(box, wants("c", hours(3), is_new=True)) == ["a"]

    def test_new_segments_conflict_with_no_segment_lock(self, box: Box) -> None:
        granted(box, wants("a", hours(3), 1, 2))
        granted(box, wants("b", hours(3), is_new=True))
        granted(box, wants("c", hours(3), is_new=True))
        assert waits(box, wants("d", hours(3))) == ["a", "b", "c"]

    def test_which_types_stand_side_by_side(self) -> None:
        for one in LockType:
            for other in LockType:
                box = Box()
                granted(box, wants("a", hours(3), type=one))
                reply = box(wants("b", hours(3), type=other))
                assert isinstance(reply, Granted) == (other in BESIDE[one])
                assert (other in BESIDE[one]) == (one in BESIDE[other])

    def test_appends_and_a_compaction_of_other_segments_never_meet(self, box: Box) -> None:
        granted(box, wants("compact", hours(3), 1, 2, 3, type=LockType.REPLACE, priority=25))
        for number in range(5):
            granted(box, wants(f"stream{number}", DAY, type=LockType.APPEND, priority=75))
        granted(box, wants("compact2", hours(3), 4, 5, type=LockType.REPLACE, priority=25))
        assert set(states(box).values()) == {LockState.HELD}


class TestGroups:
    def test_tasks_of_one_group_share(self, box: Box) -> None:
        granted(box, wants("a1", DAY, group="a"))
        granted(box, wants("a2", DAY, group="a"))
        assert waits(box, wants("b", DAY)) == ["a1", "a2"]

    def test_the_last_one_out_lets_the_next_one_in(self, box: Box) -> None:
        granted(box, wants("a1", DAY, group="a"))
        granted(box, wants("a2", DAY, group="a"))
        waits(box, wants("b", DAY))
        box(ReleaseLocks(task_id="a1"))
        assert states(box)["b"] is LockState.WAITING
        box(ReleaseLocks(task_id="a2"))
        assert states(box)["b"] is LockState.HELD

    def test_who_joins_its_group_queues_behind_nobody(self, box: Box) -> None:
        granted(box, wants("a1", DAY, group="a"))
        waits(box, wants("b", DAY))
        granted(box, wants("a2", hours(3), group="a"))
        assert waits(box, wants("c", hours(4), group="c")) == ["a1", "b"]

    def test_who_waits_joins_when_it_asks_after_another_of_its_group_got_there(
        self, box: Box
    ) -> None:
        """Found by the state machine: b passes the queue, and a waits for the same."""
        box(wants("e", hours(0, 2), is_new=True, priority=75))
        waits(box, wants("b", hours(0), group="g"))
        waits(box, wants("c", hours(0)))
        waits(box, wants("c", hours(1)))
        waits(box, wants("a", hours(1), is_new=True, group="g"))
        granted(box, wants("b", hours(1), is_new=True, group="g"))
        granted(box, wants("a", hours(1), is_new=True, group="g"))

    def test_preemption_takes_the_lock_from_the_whole_group(self, box: Box) -> None:
        low = {"group": "a", "priority": 25}
        first, second = wants("a1", DAY, **low), wants("a2", DAY, **low)
        granted(box, first)
        granted(box, second)
        granted(box, wants("b", hours(3), priority=75))
        assert lost(box, first) is lost(box, second) is Reason.PREEMPTED


class TestIdempotency:
    def test_the_same_request_gives_the_same_lock(self, box: Box) -> None:
        first = granted(box, wants("a", DAY))
        assert granted(box, wants("a", DAY)) == first
        assert granted(box, wants("a", hours(3))) == first, "it holds more than it asks for"
        assert len(box.table) == 1

    def test_another_type_or_granularity_is_another_lock(self, box: Box) -> None:
        granted(box, wants("a", DAY))
        granted(box, wants("a", DAY, 1))
        granted(box, wants("a", DAY, type=LockType.APPEND))
        assert len(box.table) == 3

    def test_asking_again_keeps_the_place_in_the_queue(self, box: Box) -> None:
        granted(box, wants("a", DAY))
        waits(box, wants("b", DAY))
        waits(box, wants("c", DAY))
        assert waits(box, wants("b", DAY)) == ["a"]
        assert waits(box, wants("c", DAY)) == ["a", "b"]
        assert len(box.table) == 3

    def test_asking_again_writes_a_sign_of_life_down_now_and_then(self, box: Box) -> None:
        granted(box, wants("a", DAY))
        box.at_ms = LEASE_MS // 3 - 1
        granted(box, wants("a", DAY))
        assert box.last is not None
        assert not box.last.is_change
        box.at_ms += 1
        assert granted(box, wants("a", DAY)).heartbeat_at_ms == box.at_ms

    def test_a_revocation_stands_until_it_is_released(self, box: Box) -> None:
        low = wants("a", DAY, priority=25)
        first = granted(box, low)
        granted(box, wants("b", DAY, priority=75))
        box(ReleaseLocks(task_id="b"))
        assert lost(box, low) is Reason.PREEMPTED, "there is no silent new grant"
        assert lost(box, low) is Reason.PREEMPTED
        box(ReleaseLocks(task_id="a"))
        assert granted(box, low).fence > first.fence

    def test_releasing_what_one_does_not_have_is_no_error(self, box: Box) -> None:
        assert box(ReleaseLocks(task_id="nobody", lock_ids=(7,))) == Standing(locks=())


class TestPriority:
    def test_at_equal_priority_who_came_first_stays(self, box: Box) -> None:
        granted(box, wants("a", DAY))
        assert waits(box, wants("b", DAY)) == ["a"]

    def test_a_lower_one_waits(self, box: Box) -> None:
        granted(box, wants("a", DAY, priority=75))
        assert waits(box, wants("b", DAY, priority=25)) == ["a"]

    def test_a_higher_one_preempts_all_that_are_in_its_way_and_no_others(self, box: Box) -> None:
        for hour in (1, 2, 9):
            granted(box, wants(f"a{hour}", hours(hour), priority=25))
        granted(box, wants("b", hours(0, 4), priority=75))
        assert states(box) == {
            "a1": LockState.REVOKED,
            "a2": LockState.REVOKED,
            "a9": LockState.HELD,
            "b": LockState.HELD,
        }

    def test_nobody_is_revoked_for_a_request_that_waits_all_the_same(self, box: Box) -> None:
        granted(box, wants("low", hours(1), priority=25))
        granted(box, wants("equal", hours(2), priority=75))
        assert waits(box, wants("b", hours(0, 4), priority=75)) == ["low", "equal"]
        assert states(box)["low"] is LockState.HELD
        box(ReleaseLocks(task_id="equal"))
        assert states(box) == {"low": LockState.REVOKED, "b": LockState.HELD}

    def test_locks_that_may_stand_beside_survive_a_preemption(self, box: Box) -> None:
        granted(box, wants("append", DAY, type=LockType.APPEND, priority=25))
        granted(box, wants("replace", DAY, type=LockType.REPLACE, priority=75))
        assert set(states(box).values()) == {LockState.HELD}


class TestPublishingSection:
    def test_nobody_preempts_inside_and_somebody_does_right_after(self, box: Box) -> None:
        lock = granted(box, wants("a", DAY, priority=25))
        box(BeginPublish(task_id="a", lock_ids=(lock.lock_id,)))
        assert waits(box, wants("b", DAY, priority=75)) == ["a"]
        box(EndPublish(task_id="a", lock_ids=(lock.lock_id,)))
        assert states(box) == {"a": LockState.REVOKED, "b": LockState.HELD}

    def test_it_is_entered_with_all_locks_or_none(self, box: Box) -> None:
        kept = granted(box, wants("a", hours(1), priority=25))
        gone = granted(box, wants("a", hours(2), priority=25))
        granted(box, wants("b", hours(2), priority=75))
        reply = box(BeginPublish(task_id="a", lock_ids=(kept.lock_id, gone.lock_id)))
        assert isinstance(reply, Standing)
        assert [lock.state for lock in reply.locks] == [LockState.HELD, LockState.REVOKED]
        assert not any(lock.is_publishing for lock in box.table)

    def test_nobody_enters_with_another_task_s_lock(self, box: Box) -> None:
        lock = granted(box, wants("a", DAY))
        assert box(BeginPublish(task_id="b", lock_ids=(lock.lock_id,))) == Standing(locks=())
        assert not any(lock.is_publishing for lock in box.table)

    def test_who_dies_inside_blocks_for_one_lease(self, box: Box) -> None:
        lock = granted(box, wants("a", DAY, priority=25))
        box(BeginPublish(task_id="a", lock_ids=(lock.lock_id,)))
        box.at_ms = LEASE_MS - 1
        assert waits(box, wants("b", DAY, priority=75)) == ["a"]
        box.at_ms = LEASE_MS
        granted(box, wants("b", DAY, priority=75))
        assert not may_publish(box.table.get(lock.lock_id), lock.fence)


class TestQueue:
    def test_by_priority_then_arrival(self, box: Box) -> None:
        granted(box, wants("a", DAY, priority=90))
        for task, priority in (("b", 25), ("c", 50), ("d", 50), ("e", 75)):
            waits(box, wants(task, DAY, priority=priority))
        order = []
        held = "a"
        while len(box.table) > 1:
            box(ReleaseLocks(task_id=held))
            (held,) = [task for task, state in states(box).items() if state is LockState.HELD]
            order.append(held)
        assert order == ["e", "c", "d", "b"]

    def test_a_wide_request_is_not_starved_by_narrow_ones(self, box: Box) -> None:
        granted(box, wants("a", hours(3)))
        assert waits(box, wants("wide", ETERNITY)) == ["a"]
        assert waits(box, wants("narrow", hours(5))) == ["wide"]
        box(ReleaseLocks(task_id="a"))
        assert states(box) == {"wide": LockState.HELD, "narrow": LockState.WAITING}

    def test_one_release_lets_in_all_who_can(self, box: Box) -> None:
        granted(box, wants("a", DAY))
        for hour in range(4):
            waits(box, wants(f"b{hour}", hours(hour)))
        box(ReleaseLocks(task_id="a"))
        assert set(states(box).values()) == {LockState.HELD}

    def test_taking_a_request_back_lets_those_behind_it_go_on(self, box: Box) -> None:
        granted(box, wants("a", hours(3)))
        waits(box, wants("wide", DAY))
        waits(box, wants("b", hours(5)))
        box(ReleaseLocks(task_id="wide"))
        assert states(box)["b"] is LockState.HELD

    def test_waiting_ends_after_its_timeout(self, box: Box) -> None:
        granted(box, wants("a", DAY))
        request = wants("b", DAY, timeout_ms=1_000)
        waits(box, request)
        box.at_ms = 999
        assert waits(box, request) == ["a"]
        box.at_ms = 1_000
        assert lost(box, request) is Reason.TIMED_OUT
        box(ReleaseLocks(task_id="b"))
        assert waits(box, request) == ["a"], "a new request waits anew"

    def test_who_can_be_granted_at_the_last_moment_is(self, box: Box) -> None:
        granted(box, wants("a", DAY))
        request = wants("b", DAY, timeout_ms=LEASE_MS)
        waits(box, request)
        box.at_ms = LEASE_MS
        granted(box, request)

    def test_a_negative_timeout_or_no_lease_is_invalid(self, box: Box) -> None:
        with pytest.raises(Invalid, match="timeout"):
            box(wants("a", DAY, timeout_ms=-1))


class TestCircles:
    def test_the_request_that_would_close_one_is_refused_and_changes_nothing(
        self, box: Box
    ) -> None:
        granted(box, wants("a", hours(1)))
        granted(box, wants("b", hours(2)))
        waits(box, wants("a", hours(2)))
        before = list(box.table)
        assert box(wants("b", hours(1))) == Refused(circle=("b", "a"))
        assert list(box.table) == before
        box(ReleaseLocks(task_id="b"))
        assert [lock.state for lock in box.table.of_task("a")] == [LockState.HELD] * 2

    def test_through_many_tasks(self, box: Box) -> None:
        count = 12
        for number in range(count):
            granted(box, wants(f"t{number:02}", hours(number)))
        for number in range(count - 1):
            waits(box, wants(f"t{number:02}", hours(number + 1)))
        reply = box(wants(f"t{count - 1:02}", hours(0)))
        assert isinstance(reply, Refused)
        assert len(reply.circle) == count

    def test_who_is_waited_for_passes_the_queue(self, box: Box) -> None:
        """Fairness alone must not stop the task that the one in front waits for."""
        granted(box, wants("a", hours(1)))
        waits(box, wants("wide", DAY))
        granted(box, wants("a", hours(2)))

    def test_nobody_passes_those_who_do_not_wait_for_it(self, box: Box) -> None:
        granted(box, wants("a", hours(1)))
        granted(box, wants("b", hours(3)))
        waits(box, wants("other", hours(2, 4)))
        waits(box, wants("wide", hours(1, 3)))
        assert box(wants("a", hours(2))) == Refused(circle=("a", "wide"))

    def test_a_lower_one_that_publishes_closes_no_circle(self, box: Box) -> None:
        """It will be done soon, whatever else it waits for, and then the higher one takes its place."""
        lock = granted(box, wants("a", hours(1), priority=50))
        granted(box, wants("c", hours(2), priority=90))
        box(BeginPublish(task_id="a", lock_ids=(lock.lock_id,)))
        waits(box, wants("a", hours(2), priority=50))
        assert waits(box, wants("high", DAY, priority=75)) == ["a", "c"]
        box(ReleaseLocks(task_id="c"))
        box(EndPublish(task_id="a", lock_ids=(lock.lock_id,)))
        assert states(box)["high"] is LockState.HELD


class TestLeases:
    def test_a_dead_holder_blocks_for_one_lease(self, box: Box) -> None:
        granted(box, wants("a", DAY))
        box.at_ms = LEASE_MS - 1
        assert waits(box, wants("b", DAY)) == ["a"]
        box.at_ms = LEASE_MS
        granted(box, wants("b", DAY))

    def test_a_dead_waiter_blocks_nobody_behind_it(self, box: Box) -> None:
        granted(box, wants("a", hours(3)))
        waits(box, wants("wide", DAY))
        box.at_ms = LEASE_MS // 2
        waits(box, wants("b", hours(4)))
        box(RenewLocks(task_id="a"))
        box.at_ms = LEASE_MS
        granted(box, wants("b", hours(4)))

    def test_a_grant_is_no_sign_of_life(self, box: Box) -> None:
        granted(box, wants("a", DAY))
        waits(box, wants("b", DAY))
        box.at_ms = LEASE_MS - 1
        box(ReleaseLocks(task_id="a"))
        assert states(box)["b"] is LockState.HELD
        box.at_ms = LEASE_MS
        granted(box, wants("c", DAY))

    def test_signs_of_life_keep_a_lock(self, box: Box) -> None:
        lock = granted(box, wants("a", DAY))
        for _ in range(4):
            box.at_ms += LEASE_MS - 1
            box(RenewLocks(task_id="a"))
            assert waits(box, wants("b", DAY)) == ["a"]
        assert may_publish(box.table.get(lock.lock_id), lock.fence)

    def test_a_late_sign_of_life_keeps_what_nobody_wanted(self, box: Box) -> None:
        lock = granted(box, wants("a", DAY))
        box.at_ms = 10 * LEASE_MS
        reply = box(RenewLocks(task_id="a"))
        assert isinstance(reply, Standing)
        assert reply.locks[0].state is LockState.HELD
        assert waits(box, wants("b", DAY)) == ["a"]
        assert may_publish(box.table.get(lock.lock_id), lock.fence)

    def test_expiry_ends_what_is_due_and_forgets_old_revocations(self, box: Box) -> None:
        granted(box, wants("a", DAY))
        waits(box, wants("b", DAY))
        box.at_ms = LEASE_MS
        reply = box(ExpireLocks())
        assert isinstance(reply, Standing)
        assert {lock.task_id for lock in reply.locks} == {"a", "b"}
        box.at_ms += REVOKED_KEPT_MS
        box(ExpireLocks())
        assert len(box.table) == 0

    def test_a_sign_of_life_counts_by_the_clock_that_gives_it(self, box: Box) -> None:
        box.at_ms = 10 * LEASE_MS
        granted(box, wants("a", DAY))
        box.at_ms = 9 * LEASE_MS + 1
        assert waits(box, wants("b", DAY)) == ["a"]
        box.at_ms = 0
        box(RenewLocks(task_id="a"))
        assert [lock.heartbeat_at_ms for lock in box.table.of_task("a")] == [0]
        box(ExpireLocks())
        assert states(box) == {"a": LockState.HELD, "b": LockState.REVOKED}

    def test_one_from_further_ahead_than_a_lease_is_not_believed(self, box: Box) -> None:
        box.at_ms = 48 * HOUR_MS
        lock = granted(box, wants("a", DAY))
        box(BeginPublish(task_id="a", lock_ids=(lock.lock_id,)))
        box.at_ms = 0
        granted(box, wants("b", DAY))


class TestBreaking:
    def test_the_next_one_gets_it_and_the_old_one_cannot_publish(self, box: Box) -> None:
        lock = granted(box, wants("a", DAY))
        box(BeginPublish(task_id="a", lock_ids=(lock.lock_id,)))
        waits(box, wants("b", DAY))
        box(BreakLock(lock_id=lock.lock_id))
        assert states(box)["b"] is LockState.HELD
        assert not may_publish(box.table.get(lock.lock_id), lock.fence)
        assert lost(box, wants("a", DAY)) is Reason.BROKEN

    def test_a_wait_can_be_broken(self, box: Box) -> None:
        granted(box, wants("a", DAY))
        waits(box, wants("b", DAY))
        (waiting,) = box.table.of_task("b")
        box(BreakLock(lock_id=waiting.lock_id))
        assert lost(box, wants("b", DAY)) is Reason.BROKEN

    def test_what_is_not_there_is_not_found(self, box: Box) -> None:
        with pytest.raises(NotFound, match="lock 7"):
            box(BreakLock(lock_id=7))


class TestFences:
    def test_a_lock_granted_later_has_a_higher_fence(self, box: Box) -> None:
        first = granted(box, wants("a", DAY))
        waits(box, wants("b", DAY))
        granted(box, wants("c", hours(30)))
        box(ReleaseLocks(task_id="a"))
        fences = {lock.task_id: lock.fence for lock in box.table}
        assert first.fence < fences["c"] < fences["b"]

    def test_who_may_publish(self, box: Box) -> None:
        lock = granted(box, wants("a", DAY, priority=25))
        assert may_publish(box.table.get(lock.lock_id), lock.fence)
        assert not may_publish(box.table.get(lock.lock_id), lock.fence - 1)
        assert not may_publish(None, lock.fence)
        granted(box, wants("b", DAY, priority=75))
        assert not may_publish(box.table.get(lock.lock_id), lock.fence)


def test_a_circle_among_stored_locks_is_named_in_the_order_of_waiting() -> None:
    """No event makes one: somebody has written the rows."""
    at_ms = 0
    rows = []
    for number, (name, mine, other) in enumerate([("a", 0, 1), ("b", 1, 2), ("c", 2, 0)]):
        for place, hour in enumerate((mine, other)):
            made = decide(LockTable(), wants(name, hours(hour)), at_ms=at_ms).puts[0]
            waits = replace(made, state=LockState.WAITING, fence=0, granted_at_ms=None)
            rows.append(replace(waits if place else made, lock_id=1 + number + 10 * place))
    with pytest.raises(InvariantError, match=r"LK-4.*tasks (a, b, c|b, c, a|c, a, b) wait"):
        check_locks(rows)
    check_locks([one for one in rows if one.lock_id != 13])
