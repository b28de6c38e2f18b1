"""One behaviour for every metadata store: the lockbox, and publishing under its locks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from carnac.core.locks.events import (
    BeginPublish,
    BreakLock,
    EndPublish,
    ExpireLocks,
    Granted,
    LockEvent,
    Lost,
    ReleaseLocks,
    RenewLocks,
    Standing,
    Waits,
)
from carnac.core.locks.machine import decide
from carnac.core.locks.model import Lock, LockState, LockType
from carnac.core.log.commits import LockHeld
from carnac.core.time.intervals import ETERNITY
from carnac.errors import CarnacError, Invalid, NotFound, Revoked
from carnac.metadata import open_metadata
from tests.contract.conftest import Store
from tests.locks import LEASE_MS, hours, wants
from tests.logs import append, append_of, day, segment
from tests.support.clock import FakeClock, SequentialIds
from tests.support.lock_table import LockTable

DAY = hours(0, 24)


def granted(store: Store, task: str, priority: int = 50) -> Lock:
    reply = store.change_locks(wants(task, DAY, priority=priority))
    assert isinstance(reply, Granted), reply
    return reply.lock


def fence_of(lock: Lock) -> LockHeld:
    return LockHeld(lock_id=lock.lock_id, fence=lock.fence)


class TestLockbox:
    def test_a_new_store_has_no_locks(self, store: Store) -> None:
        assert store.locks() == ()
        assert store.change_locks(RenewLocks(task_id="a")) == Standing(locks=())
        assert store.change_locks(ReleaseLocks(task_id="a")) == Standing(locks=())
        assert store.change_locks(ExpireLocks()) == Standing(locks=())

    def test_what_was_decided_is_what_is_stored(self, store: Store, clock: FakeClock) -> None:
        first = granted(store, "a", priority=25)
        clock.advance_ms(5)
        second = granted(store, "b", priority=75)
        third = store.change_locks(wants("c", hours(3), 1, 2, 3, 7, type=LockType.REPLACE))
        fourth = store.change_locks(wants("d", ETERNITY, is_new=True, datasource="others"))
        assert isinstance(third, Waits)
        assert isinstance(fourth, Granted)
        (gone, *rest) = store.locks()
        assert rest == [second, third.lock, fourth.lock]
        assert third.blockers == (second,)
        assert (gone.lock_id, gone.state) == (first.lock_id, LockState.REVOKED)
        assert store.locks("others") == (fourth.lock,)
        assert store.locks("nothing") == ()

    def test_signs_of_life_are_of_all_locks_of_a_task(self, store: Store, clock: FakeClock) -> None:
        store.change_locks(wants("a", hours(1)))
        store.change_locks(wants("a", hours(2)))
        store.change_locks(wants("b", hours(3)))
        at_ms = clock.advance_ms(LEASE_MS - 1)
        reply = store.change_locks(RenewLocks(task_id="a"))
        assert isinstance(reply, Standing)
        assert [lock.heartbeat_at_ms for lock in reply.locks] == [at_ms, at_ms]
        assert store.locks()[:2] == reply.locks
        clock.advance_ms(1)
        ended = store.change_locks(ExpireLocks())
        assert isinstance(ended, Standing)
        assert [lock.task_id for lock in ended.locks] == ["b"]

    def test_mistakes_change_nothing(self, store: Store) -> None:
        with pytest.raises(NotFound):
            store.change_locks(BreakLock(lock_id=1))
        with pytest.raises(Invalid):
            store.change_locks(replace(wants("a", DAY), lease_ms=0))
        assert store.locks() == ()

    def test_a_hundred_thousand_segments_are_one_lock(self, store: Store) -> None:
        all_ids = wants("a", DAY, *range(100_000), type=LockType.REPLACE)
        reply = store.change_locks(all_ids)
        assert isinstance(reply, Granted)
        assert store.locks()[0].partitions == all_ids.partitions
        assert isinstance(store.change_locks(wants("b", hours(3), 99_999)), Waits)
        assert isinstance(store.change_locks(wants("b", hours(3), 100_000)), Granted)


class TestRestart:
    """A store decides the same, however often it is closed and opened, as one lockbox in memory."""

    @pytest.fixture
    def reopened(self, metadata_url: str, clock: FakeClock, store: Store) -> Iterator[list[Store]]:
        """Two handles of the store, used by turns."""
        other = open_metadata(metadata_url, clock=clock, ids=SequentialIds())
        yield [store, other]
        other.close()

    @pytest.mark.parametrize("seed", range(6))
    def test_two_processes_and_a_table_decide_the_same(
        self, reopened: list[Store], clock: FakeClock, seed: int
    ) -> None:
        rng, table, seen = random.Random(seed), LockTable(), set()
        for number in range(120):
            event = random_event(rng, table)
            clock.advance_ms(rng.choice([0, 10, 5_000, LEASE_MS // 2]))
            mine = answer(reopened[number % 2], event)
            assert mine == answer_of(table, event, clock.now_ms())
            seen.add(type(mine))
        assert reopened[0].locks() == tuple(sorted(table, key=lambda lock: lock.lock_id))
        assert seen >= {Granted, Waits, Standing}


def answer_of(table: LockTable, event: LockEvent, at_ms: int) -> object:
    try:
        decision = decide(table, event, at_ms=at_ms)
    except CarnacError as error:
        return error.message
    if decision.is_change:
        table.apply(decision)
    return decision.reply


def answer(store: Store, event: LockEvent) -> object:
    try:
        return store.change_locks(event)
    except CarnacError as error:
        return error.message


def random_event(rng: random.Random, table: LockTable) -> LockEvent:
    task = rng.choice("abcdef")
    known = [lock.lock_id for lock in table.of_task(task)]
    kind = rng.randrange(10)
    if kind < 5:
        start = rng.randrange(4)
        ids = rng.choice([(), (), (1,), (1, 2), (3,)])
        return wants(
            task,
            hours(start, start + rng.choice([1, 1, 3])),
            *ids,
            type=rng.choice(list(LockType)),
            priority={"a": 25, "b": 75}.get(task, 50),
            group="g" if task in "ef" else None,
            is_new=rng.random() < 0.2,
            timeout_ms=20_000,
        )
    if kind == 5:
        return ReleaseLocks(task_id=task, lock_ids=tuple(known[:1]) if rng.random() < 0.7 else None)
    if kind == 6:
        return RenewLocks(task_id=task)
    if kind == 7:
        return BeginPublish(task_id=task, lock_ids=tuple(known[:1]))
    if kind == 8:
        return EndPublish(task_id=task, lock_ids=tuple(known))
    return rng.choice([ExpireLocks(), BreakLock(lock_id=rng.choice(known) if known else 1)])


class TestFences:
    def test_who_holds_the_lock_publishes_under_it(self, store: Store) -> None:
        lock = granted(store, "a")
        publication = append_of(segment("s", day(1)))
        published = store.publish(replace(publication, requirements=(fence_of(lock),)))
        assert published.revision == 1
        assert store.locks() == (lock,), "publishing takes no lock away"

    def test_who_was_preempted_does_not(self, store: Store) -> None:
        lock = granted(store, "a", priority=25)
        granted(store, "b", priority=75)
        self.refuse(store, lock, "preempted at 2014-01-01T00:00:00.000Z by lock 3")

    def test_nor_after_its_lock_was_broken_or_released(self, store: Store) -> None:
        broken = granted(store, "a")
        store.change_locks(BreakLock(lock_id=broken.lock_id))
        self.refuse(store, broken, "broken by an operator")
        released = granted(store, "b")
        store.change_locks(ReleaseLocks(task_id="b"))
        self.refuse(store, released, "is not there any more")

    def test_nor_after_its_lease_when_somebody_came(self, store: Store, clock: FakeClock) -> None:
        lock = granted(store, "a")
        clock.advance_ms(LEASE_MS)
        granted(store, "b")
        self.refuse(store, lock, f"not heard of for {LEASE_MS} ms")

    def test_who_is_late_but_was_not_missed_does(self, store: Store, clock: FakeClock) -> None:
        lock = granted(store, "a")
        clock.advance_ms(10 * LEASE_MS)
        publication = append_of(segment("s", day(1)))
        store.publish(replace(publication, requirements=(fence_of(lock),)))
        assert store.head().revision == 1

    def test_a_fence_is_of_one_grant(self, store: Store) -> None:
        lock = granted(store, "a")
        self.refuse(store, replace(lock, fence=lock.fence + 1), "is not the one that was granted")

    def test_one_lost_lock_of_many_is_enough(self, store: Store) -> None:
        kept = granted(store, "a", priority=25)
        other = store.change_locks(wants("a", hours(48), priority=25))
        assert isinstance(other, Granted)
        store.change_locks(wants("b", hours(48), priority=75))
        publication = append_of(segment("s", day(1)))
        both = (fence_of(kept), fence_of(other.lock))
        with pytest.raises(Revoked) as caught:
            store.publish(replace(publication, requirements=both))
        assert caught.value.ids == {"lock_id": other.lock.lock_id, "fence": other.lock.fence}
        assert store.head().revision == 0

    def test_what_was_published_before_is_a_replay_all_the_same(self, store: Store) -> None:
        """The writer that died after its commit learns that it is done, whatever became of its lock."""
        lock = granted(store, "a")
        publication = replace(
            append_of(segment("s", day(1))), writer="w", batch="1", requirements=(fence_of(lock),)
        )
        store.publish(publication)
        store.change_locks(BreakLock(lock_id=lock.lock_id))
        assert store.publish(publication).is_replay

    @staticmethod
    def refuse(store: Store, lock: Lock, why: str) -> None:
        publication = append_of(segment("refused", day(1)))
        head = store.head()
        with pytest.raises(Revoked, match=why):
            store.publish(replace(publication, requirements=(fence_of(lock),)))
        assert store.head() == head
        assert store.find_segment("refused") is None


def test_a_publish_without_fences_asks_nothing_of_the_lockbox(metadata_url: str) -> None:
    texts: list[str] = []
    store = open_metadata(
        metadata_url, clock=FakeClock(), ids=SequentialIds(), on_statement=texts.append
    )
    lock = granted(store, "a")
    append(store, segment("first", day(1)))
    texts.clear()
    append(store, segment("second", day(1)))
    fenced = replace(append_of(segment("third", day(1))), requirements=(fence_of(lock),) * 2)
    assert not [text for text in texts if "locks" in text.split()]
    store.publish(fenced)
    assert len([text for text in texts if "locks" in text.split()]) == 1
    store.close()


def test_a_lost_request_says_why(store: Store, clock: FakeClock) -> None:
    granted(store, "a")
    request = wants("b", DAY, timeout_ms=1_000)
    assert isinstance(store.change_locks(request), Waits)
    clock.advance_ms(1_000)
    assert isinstance(store.change_locks(request), Lost)
