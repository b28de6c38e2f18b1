"""The lockbox as a service: waiting, giving up, publishing sections, signs of life."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from carnac.core.locks.choice import LockContext
from carnac.core.locks.model import Lock, LockGranularity, LockState, LockType, Reason
from carnac.errors import Conflict, Invalid, NotFound, Revoked, Unavailable
from carnac.metadata import open_metadata
from carnac.metadata.store import MetadataStore
from carnac.overlord import Lockbox, LockKeeper
from tests.locks import LEASE_MS, hours, wants
from tests.logs import append_of, day, segment
from tests.support.clock import FakeClock, SequentialIds

DAY = hours(0, 24)


class ActingClock(FakeClock):
    """A clock that lets something happen while somebody sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self.while_asleep: Callable[[], None] = lambda: None

    def sleep_ms(self, duration_ms: int) -> None:
        super().sleep_ms(duration_ms)
        self.while_asleep()


@pytest.fixture
def clock() -> ActingClock:
    return ActingClock()


@pytest.fixture
def metadata(clock: ActingClock) -> Iterator[MetadataStore]:
    with closing(open_metadata("memory://", clock=clock, ids=SequentialIds())) as store:
        yield store


@pytest.fixture
def lockbox(metadata: MetadataStore, clock: ActingClock) -> Lockbox:
    return Lockbox(metadata, clock, holder="test, process 1", lease_ms=LEASE_MS)


class TestAcquire:
    def test_what_is_free_is_there_at_once(self, lockbox: Lockbox, clock: ActingClock) -> None:
        lock = lockbox.acquire(wants("a", DAY))
        assert (lock.state, lock.holder) == (LockState.HELD, "test, process 1")
        assert clock.slept_ms == []

    def test_it_waits_for_a_release(self, lockbox: Lockbox, clock: ActingClock) -> None:
        lockbox.acquire(wants("a", DAY))

        def release_soon() -> None:
            if len(clock.slept_ms) == 4:
                lockbox.release("a")

        clock.while_asleep = release_soon
        assert lockbox.acquire(wants("b", DAY)).task_id == "b"
        assert clock.slept_ms == [20, 40, 80, 160]

    def test_it_waits_for_a_dead_holder_no_longer_than_a_lease(
        self, lockbox: Lockbox, clock: ActingClock
    ) -> None:
        lockbox.acquire(wants("dead", DAY))
        began_ms = clock.now_ms()
        lockbox.acquire(wants("b", DAY))
        assert LEASE_MS <= clock.now_ms() - began_ms <= LEASE_MS + 1_000

    def test_it_gives_up_after_its_timeout_and_says_who_has_it(
        self, lockbox: Lockbox, clock: ActingClock
    ) -> None:
        lockbox.acquire(wants("a", DAY))
        clock.while_asleep = lambda: [lockbox.renew("a"), None][1]
        with pytest.raises(Unavailable, match=r"waited 5000 ms .* lock 1 of a \(test, process 1\)"):
            lockbox.acquire(wants("b", DAY, timeout_ms=5_000))
        assert sum(clock.slept_ms) == 5_000
        assert [one.lock.task_id for one in lockbox.explain()] == ["a"], "nothing is left behind"

    def test_a_timeout_of_nothing_asks_once(self, lockbox: Lockbox, clock: ActingClock) -> None:
        lockbox.acquire(wants("a", DAY))
        with pytest.raises(Unavailable, match="waited 0 ms"):
            lockbox.acquire(wants("b", DAY, timeout_ms=0))
        assert clock.slept_ms == []

    def test_a_broken_wait_says_stop(self, lockbox: Lockbox, clock: ActingClock) -> None:
        lockbox.acquire(wants("a", DAY))

        def break_it() -> None:
            lockbox.break_lock(lockbox.explain()[-1].lock.lock_id)

        clock.while_asleep = break_it
        with pytest.raises(Revoked, match="broken by an operator"):
            lockbox.acquire(wants("b", DAY))
        assert len(lockbox.explain()) == 1

    def test_a_circle_is_a_conflict(self, lockbox: Lockbox) -> None:
        lockbox.acquire(wants("a", hours(1)))
        lockbox.acquire(wants("b", hours(2)))
        lockbox.request(wants("a", hours(2)))
        with pytest.raises(Conflict, match="wait for a, then for itself") as caught:
            lockbox.acquire(wants("b", hours(1)))
        assert caught.value.ids["circle"] == ["b", "a"]

    def test_interrupted_it_takes_its_request_back(
        self, lockbox: Lockbox, clock: ActingClock
    ) -> None:
        lockbox.acquire(wants("a", DAY))

        def interrupt() -> None:
            raise KeyboardInterrupt

        clock.while_asleep = interrupt
        with pytest.raises(KeyboardInterrupt):
            lockbox.acquire(wants("b", DAY))
        assert [one.lock.task_id for one in lockbox.explain()] == ["a"]


class TestAcquireAll:
    def test_in_one_order_for_all_tasks(self, lockbox: Lockbox) -> None:
        locks = lockbox.acquire_all([wants("a", hours(hour)) for hour in (5, 1, 3)])
        assert [lock.interval for lock in locks] == [hours(1), hours(3), hours(5)]

    def test_all_or_none(self, lockbox: Lockbox) -> None:
        lockbox.acquire(wants("other", hours(3), priority=90))
        wanted = [wants("a", hours(hour), timeout_ms=100) for hour in (5, 1, 3)]
        with pytest.raises(Unavailable):
            lockbox.acquire_all(wanted)
        assert [one.lock.task_id for one in lockbox.explain()] == ["other"]


class TestPublishing:
    def test_it_yields_what_the_publication_requires(
        self, lockbox: Lockbox, metadata: MetadataStore
    ) -> None:
        lock = lockbox.acquire(wants("a", DAY, priority=25))
        with lockbox.publishing([lock]) as fences:
            assert lockbox.explain()[0].lock.is_publishing
            with pytest.raises(Unavailable):
                lockbox.acquire(wants("b", DAY, priority=75, timeout_ms=50))
            publication = replace(append_of(segment("s", day(1))), requirements=fences)
            assert metadata.publish(publication).revision == 1
        assert not lockbox.explain()[0].lock.is_publishing
        assert lockbox.acquire(wants("b", DAY, priority=75)).state is LockState.HELD
        with pytest.raises(Revoked, match="preempted"):
            metadata.publish(replace(append_of(segment("t", day(1))), requirements=fences))

    def test_who_was_revoked_does_not_enter(self, lockbox: Lockbox) -> None:
        lock = lockbox.acquire(wants("a", DAY, priority=25))
        lockbox.acquire(wants("b", DAY, priority=75))
        with pytest.raises(Revoked, match="nothing was published"), lockbox.publishing([lock]):
            raise AssertionError("not reached")

    def test_an_error_inside_leaves_the_section(self, lockbox: Lockbox) -> None:
        lock = lockbox.acquire(wants("a", DAY))
        with pytest.raises(KeyError), lockbox.publishing([lock]):
            raise KeyError
        assert not lockbox.explain()[0].lock.is_publishing


class TestKeeper:
    def test_it_keeps_locks_and_gives_them_back(self, lockbox: Lockbox, clock: FakeClock) -> None:
        keeper = LockKeeper(lockbox, "a", on_lost=lambda _lock: None, wait=lambda _seconds: True)
        with keeper.keeping():
            lockbox.acquire(wants("a", DAY))
            for _ in range(5):
                clock.advance_ms(LEASE_MS - 1)
                keeper.renew_once()
            with pytest.raises(Unavailable):
                lockbox.acquire(wants("b", DAY, timeout_ms=0))
        assert lockbox.explain() == ()

    def test_it_tells_once_of_a_lost_lock(self, lockbox: Lockbox) -> None:
        told: list[Lock] = []
        keeper = LockKeeper(lockbox, "a", on_lost=told.append, wait=lambda _seconds: True)
        with keeper.keeping():
            lock = lockbox.acquire(wants("a", DAY))
            keeper.renew_once()
            lockbox.break_lock(lock.lock_id)
            keeper.renew_once()
            keeper.renew_once()
        assert [one.revocation.reason for one in told if one.revocation] == [Reason.BROKEN]


class TestOperators:
    def test_who_waits_for_whom(self, lockbox: Lockbox) -> None:
        lockbox.acquire(wants("a", DAY, 1, 2))
        lockbox.request(wants("b", DAY))
        lockbox.request(wants("c", DAY, 1))
        lockbox.acquire(wants("d", DAY, datasource="others"))
        shown = {one.lock.task_id: one for one in lockbox.explain()}
        assert [lock.task_id for lock in shown["a"].waiters] == ["b", "c"]
        assert [lock.task_id for lock in shown["c"].waits_for] == ["a", "b"]
        assert shown["d"].waiters == shown["d"].waits_for == ()
        assert [one.lock.task_id for one in lockbox.explain("others")] == ["d"]

    def test_expiry_ends_what_is_overdue(self, lockbox: Lockbox, clock: FakeClock) -> None:
        lockbox.acquire(wants("a", DAY))
        assert lockbox.expire() == ()
        clock.advance_ms(LEASE_MS)
        assert [lock.task_id for lock in lockbox.expire()] == ["a"]

    def test_what_is_not_there_cannot_be_broken(self, lockbox: Lockbox) -> None:
        with pytest.raises(NotFound):
            lockbox.break_lock(3)


def test_the_service_s_setting_is_for_tasks_that_say_nothing(
    metadata: MetadataStore, clock: ActingClock
) -> None:
    forcing = Lockbox(metadata, clock, holder="t", lease_ms=LEASE_MS, force_time_chunk_lock=True)
    choice = forcing.choose(LockContext(), is_append=True)
    assert (choice.granularity, choice.type) == (LockGranularity.TIME_CHUNK, LockType.EXCLUSIVE)
    own = LockContext(force_time_chunk_lock=False)
    choice = forcing.choose(own, is_append=False)
    assert choice.granularity is LockGranularity.SEGMENT
    with pytest.raises(Invalid):
        forcing.choose(LockContext(lock_type=LockType.APPEND), is_append=False)
