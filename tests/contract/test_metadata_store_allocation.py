"""One behaviour for every metadata store: places kept for segments, and what publishing makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from carnac.core.locks.events import ReleaseLocks
from carnac.core.locks.model import LockGranularity, LockState, LockType
from carnac.core.log.allocation import (
    AllocationLock,
    AllocationRequest,
    Denied,
    LockWaits,
    PendingSegment,
)
from carnac.core.log.commits import Numbered, Place, Publication, Reserved
from carnac.core.segments.segment import Segment
from carnac.core.tasks.events import CancelTask, ClaimAttempt
from carnac.core.time.intervals import IntervalSet, parse_instant, parse_interval
from carnac.errors import Conflict, Invalid, Revoked
from carnac.metadata.names import RESERVATION_MAX_MS
from carnac.metadata.records import allocation
from carnac.ports import LeaseKind
from tests import tasks
from tests.contract.conftest import Store
from tests.locks import LEASE_MS, wants
from tests.logs import append, append_of, day, entries, folding, replacement, segment
from tests.support.behind import called_behind
from tests.support.clock import FakeClock
from tests.support.databases import table_counts
from tests.tasks import candidacy

NOON = "2013-01-01T12:00"
DAY = parse_interval("2013-01-01/2013-01-02")
MONTH = "2013-01-01/2013-02-01"
SEGMENT_LOCK = AllocationLock(
    group_id="g",
    type=LockType.EXCLUSIVE,
    granularity=LockGranularity.SEGMENT,
    priority=50,
    timeout_ms=300_000,
    lease_ms=LEASE_MS,
)


def asks(sequence: str = "s", at: str = NOON, **others: object) -> AllocationRequest:
    return replace(
        AllocationRequest(
            datasource="events",
            at_ms=parse_instant(at),
            segment_granularity="day",
            sequence=sequence,
            owner="task",
        ),
        **others,  # type: ignore[arg-type]
    )


def place(store: Store, request: AllocationRequest) -> PendingSegment:
    (reply,) = store.allocate([request])
    assert isinstance(reply, PendingSegment), reply
    return reply


def placed(publication: Publication, *places: Place) -> Publication:
    (change,) = publication.changes
    return replace(publication, changes=(replace(change, places=places),))


def append_into(store: Store, *pairs: tuple[Segment, PendingSegment]) -> None:
    places = [Reserved(segment_id=s.segment_id, pending_id=p.pending_id) for s, p in pairs]
    store.publish(placed(append_of(*(s for s, _ in pairs)), *places))


def where(store: Store) -> dict[str, tuple[str, int, int]]:
    """By segment: chunk, major version and partition id."""
    return {
        e.segment_id: (str(e.chunk), e.version.major_ms, e.partition_id) for e in entries(store)
    }


class TestWhere:
    def test_the_bucket_where_nothing_is(self, store: Store, clock: FakeClock) -> None:
        first, second = store.allocate([asks("a"), asks("b")])
        assert isinstance(first, PendingSegment)
        assert isinstance(second, PendingSegment)
        assert (first.chunk, first.major_ms) == (DAY, clock.now_ms())
        assert [first.partition_id, second.partition_id] == [0, 1]
        assert store.pending_segments() == (first, second)
        assert store.pending_segments(datasource="others") == ()

    def test_a_late_row_for_a_compacted_month_lands_in_the_month(self, store: Store) -> None:
        append(store, segment("m", "2013-01-03/2013-01-30", chunk=MONTH), granularity="month")
        found = place(store, asks())
        assert found.chunk == parse_interval(MONTH)
        append_into(store, (segment("late", "2013-01-01T10/2013-01-01T20", chunk=MONTH), found))
        assert where(store)["late"] == (str(found.chunk), found.major_ms, found.partition_id)

    def test_among_finer_chunks_the_largest_that_fits(self, store: Store) -> None:
        hour = "2013-01-01T03/2013-01-01T04"
        append(store, segment("h", hour, chunk=hour))
        found = place(store, asks())
        assert found.chunk == parse_interval("2013-01-01T08/2013-01-01T16")
        assert place(store, asks("u", "2013-01-01T03:30")).chunk.duration_ms == 3_600_000

    def test_where_others_have_reserved(self, store: Store) -> None:
        first = place(store, asks(segment_granularity="month"))
        assert place(store, asks("t")).chunk == first.chunk
        assert place(store, asks("u", "2013-02-01")).chunk.duration_ms == 86_400_000

    def test_numbers_go_on_where_segments_are(self, store: Store) -> None:
        append(store, segment("a", day(1)), segment("b", day(1)))
        first = place(store, asks())
        assert first.partition_id == 2
        append(store, segment("c", day(1)))
        assert where(store)["c"][2] == 3, "what is reserved is used up"
        append_into(store, (segment("d", day(1)), first))
        assert where(store)["d"][2] == 2
        assert place(store, asks("t")).partition_id == 4


class TestAskingAgain:
    def test_the_same_question_has_the_same_answer(self, store: Store) -> None:
        first = place(store, asks())
        second = place(store, asks(previous_id=first.pending_id))
        assert second.partition_id == 1
        assert place(store, asks()) == first
        assert place(store, asks(previous_id=first.pending_id, owner="another")) == second
        assert len(store.pending_segments()) == 2
        both = store.allocate([asks("t"), asks("t")])
        assert both[0] == both[1]

    def test_of_a_moment_elsewhere_is_denied_and_others_are_not(self, store: Store) -> None:
        place(store, asks())
        denied, fine = store.allocate([asks(at="2013-03-01"), asks("t", "2013-03-01")])
        assert isinstance(denied, Denied)
        assert isinstance(denied.error, Conflict)
        assert "sequence s" in denied.error.message
        assert isinstance(fine, PendingSegment)

    def test_nonsense_changes_nothing(self, store: Store) -> None:
        with pytest.raises(Invalid):
            store.allocate([asks(), asks("t", segment_granularity="fortnight-ish")])
        assert store.pending_segments() == ()


class TestPublishing:
    def test_gives_the_places_in_any_order(self, store: Store) -> None:
        first, second = place(store, asks("a")), place(store, asks("b"))
        append_into(store, (segment("second", day(1)), second))
        append(store, segment("other", day(1)))
        append_into(store, (segment("first", day(1)), first))
        major_ms = first.major_ms
        assert {name: spot[1:] for name, spot in where(store).items()} == {
            "first": (major_ms, 0),
            "second": (major_ms, 1),
            "other": (major_ms, 2),
        }
        assert store.pending_segments() == ()
        counts = table_counts(store)
        assert (counts["pending_segments"], counts["pending_chunks"]) == (0, 0)

    def test_a_place_lapses_when_the_chunk_is_taken_over(self, store: Store) -> None:
        append(store, segment("old", day(1)))
        first = place(store, asks())
        store.publish(replacement(store, day(1), segment("new", day(1))))
        append_into(store, (segment("late", day(1)), first))
        spots = where(store)
        assert spots["late"][1:] == (spots["new"][1], 2)
        assert spots["new"][1] > first.major_ms

    def test_a_place_in_a_chunk_to_be_lapses_when_others_make_it(self, store: Store) -> None:
        first = place(store, asks())
        append(store, segment("quick", day(1)))
        assert where(store)["quick"][1] > first.major_ms, "never the reserved version"
        append_into(store, (segment("slow", day(1)), first))
        assert where(store)["slow"][1:] == (where(store)["quick"][1], 1)

    def test_months_made_of_days_meanwhile(self, store: Store) -> None:
        append(store, segment("a", day(2)))
        first, second = place(store, asks()), place(store, asks("b", "2013-01-02"))
        store.publish(replacement(store, MONTH, segment("m", MONTH, chunk=MONTH)))
        append_into(store, (segment("x", day(1)), first), (segment("y", day(2)), second))
        assert {spot[0] for spot in where(store).values()} == {str(parse_interval(MONTH))}

    def test_a_minor_compaction_goes_into_reserved_places(self, store: Store) -> None:
        append(store, segment("a", day(1)), segment("b", day(1)))
        found = place(store, asks())
        append(store, segment("c", day(1)))
        fold = folding(store, ("a", "b"), segment("ab", day(1)))
        store.publish(placed(fold, Reserved(segment_id="ab", pending_id=found.pending_id)))
        (entry,) = [one for one in entries(store) if one.segment_id == "ab"]
        assert (entry.partition_id, entry.version.minor, str(entry.overshadowed_ids)) == (
            found.partition_id,
            1,
            "0-1",
        )

    def test_an_id_that_nobody_knows_is_no_harm(self, store: Store) -> None:
        one = Reserved(segment_id="a", pending_id="gone")
        store.publish(placed(append_of(segment("a", day(1))), one))
        assert where(store)["a"][2] == 0

    def test_own_numbers_are_taken_unless_they_are_used(self, store: Store) -> None:
        own = [
            Numbered(segment_id=name, chunk=DAY, partition_id=n) for name, n in (("a", 3), ("b", 1))
        ]
        store.publish(placed(append_of(segment("a", day(1)), segment("b", day(1))), *own))
        taken = Numbered(segment_id="c", chunk=DAY, partition_id=3)
        store.publish(placed(append_of(segment("c", day(1))), taken))
        assert {name: spot[2] for name, spot in where(store).items()} == {"a": 3, "b": 1, "c": 4}

    def test_own_numbers_of_a_take_over(self, store: Store) -> None:
        append(store, segment("old", day(1)))
        change = replacement(store, day(1), segment("a", day(1)), segment("b", day(1)))
        own = [
            Numbered(segment_id=name, chunk=DAY, partition_id=n) for name, n in (("a", 2), ("b", 0))
        ]
        store.publish(placed(change, *own))
        assert {name: spot[2] for name, spot in where(store).items()} == {"a": 2, "b": 0}

    @pytest.mark.parametrize("segments", [("a", "a"), ("a", "zz")])
    def test_places_must_be_of_new_segments(self, store: Store, segments: tuple[str, str]) -> None:
        places = [Reserved(segment_id=name, pending_id=f"p{n}") for n, name in enumerate(segments)]
        with pytest.raises(Invalid):
            store.publish(placed(append_of(segment("a", day(1)), segment("b", day(1))), *places))

    def test_two_segments_do_not_get_one_place(self, store: Store) -> None:
        places = [Reserved(segment_id=name, pending_id="p") for name in ("a", "b")]
        with pytest.raises(Invalid):
            store.publish(placed(append_of(segment("a", day(1)), segment("b", day(1))), *places))


class TestTogether:
    def asked_together(
        self, store: Store, asked: Sequence[Sequence[AllocationRequest]]
    ) -> list[Any]:
        """Have each asked for by a thread of its own while a transaction is made; return answers, or errors."""
        calls = [partial(store.allocate, requests) for requests in asked]
        return [one.exception() or one.result() for one in called_behind(store, calls)]

    def test_callers_are_decided_at_once_and_each_gets_its_own(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sizes: list[int] = []
        decide = allocation.decide_allocations

        def counted(view: Any, requests: Sequence[Any], *more: Any, **named: Any) -> Any:
            sizes.append(len(requests))
            return decide(view, requests, *more, **named)

        monkeypatch.setattr(allocation, "decide_allocations", counted)
        asked = [[asks("a")], [asks("b"), asks("c")], [asks("a")]]
        first, second, again = self.asked_together(store, asked)
        assert sizes == [4]
        assert again == first
        assert [one.sequence for one in (*first, *second)] == ["a", "b", "c"]
        assert {one.partition_id for one in (*first, *second)} == {0, 1, 2}

    def test_a_request_that_is_wrong_fails_for_its_caller_alone(self, store: Store) -> None:
        wrong = asks("b", segment_granularity="fortnight")
        first, error, last = self.asked_together(store, [[asks("a")], [wrong], [asks("c")]])
        assert isinstance(error, Invalid)
        assert [one.sequence for one in (*first, *last)] == ["a", "c"]
        assert len(store.pending_segments()) == 2


class TestTheEnd:
    def test_of_an_owner(self, store: Store) -> None:
        place(store, asks(owner="a"))
        kept = place(store, asks("t", owner="b"))
        assert store.release_pending("a") == 1
        assert store.release_pending("a") == 0
        assert store.pending_segments() == (kept,)
        assert store.pending_segments(owner="a") == ()

    def test_of_a_lease(self, store: Store, clock: FakeClock) -> None:
        lease = store.acquire_lease(LeaseKind.WRITER, holder="x", ttl_ms=1000)
        other = store.acquire_lease(LeaseKind.WRITER, holder="y", ttl_ms=1000)
        place(store, asks(lease_id=lease.lease_id))
        place(store, asks("t", lease_id=other.lease_id))
        store.release_lease(lease.lease_id)
        assert [one.sequence for one in store.pending_segments()] == ["t"]
        clock.advance_ms(1001)
        store.acquire_lease(LeaseKind.WRITER, holder="z", ttl_ms=1000)
        assert store.pending_segments() == ()
        assert table_counts(store)["pending_chunks"] == 0

    def test_an_id_that_was_given_up_is_not_honoured(self, store: Store) -> None:
        append(store, segment("a", day(1)))
        first = place(store, asks())
        store.release_pending("task")
        append_into(store, (segment("late", day(1)), first))
        assert where(store)["late"][2] == 2


class TestOwnersThatAreOver:
    """An attempt that is over, and has not heard of it, may ask for anything: it gets nothing that stays."""

    def attempt(self, store: Store, *, ends: bool) -> str:
        """Return the owner of an attempt, the first of the task `work`."""
        store.lead(candidacy())
        store.change_tasks(tasks.wants("work", retries=1))
        store.change_tasks(tasks.dispatch())
        store.change_tasks(ClaimAttempt(task_id="work", number=1, holder="process 17"))
        if ends:
            store.change_tasks(CancelTask(task_id="work", error="cancelled"))
        return "work/1"

    def test_get_no_places_and_no_locks(self, store: Store) -> None:
        owner = self.attempt(store, ends=True)
        replies = store.allocate(
            [
                asks("a", owner=owner, lock=SEGMENT_LOCK),
                asks("b", owner=owner),
                asks("c", owner="work/2"),
                asks("d", owner="forgotten/1", lock=SEGMENT_LOCK),
                asks("e", owner="another", lock=SEGMENT_LOCK),
            ]
        )
        for reply in replies[:4]:
            assert isinstance(reply, Denied), reply
            assert isinstance(reply.error, Revoked)
        assert isinstance(replies[4], PendingSegment), "who asks beside it is not kept out"
        assert store.pending_segments() == (replies[4],)
        assert [one.task_id for one in store.locks()] == ["another"]

    def test_are_told_of_what_they_had_no_more(self, store: Store) -> None:
        owner = self.attempt(store, ends=False)
        first = place(store, asks(owner=owner, lock=SEGMENT_LOCK))
        assert place(store, asks(owner=owner, lock=SEGMENT_LOCK)) == first
        store.change_tasks(CancelTask(task_id="work", error="cancelled"))
        (reply,) = store.allocate([asks(owner=owner, lock=SEGMENT_LOCK)])
        assert isinstance(reply, Denied)
        assert store.pending_segments() == ()
        assert store.locks() == ()

    @pytest.mark.parametrize("owner", ["work/1", "work/2", "forgotten/1"])
    def test_get_no_locks_when_they_ask_for_them(self, store: Store, owner: str) -> None:
        self.attempt(store, ends=True)
        with pytest.raises(Revoked, match=f"{owner} is "):
            store.change_locks(wants(owner, DAY))
        assert store.locks() == ()

    def test_leave_nothing_that_no_lease_ends(self, store: Store, clock: FakeClock) -> None:
        """What belongs to nobody that ends, and what stores from before hold, is swept once it is old."""
        owner = self.attempt(store, ends=False)
        place(store, asks("mine", owner="me"))
        kept = place(store, asks("its", owner=owner))
        clock.advance_ms(RESERVATION_MAX_MS)
        store.acquire_lease(LeaseKind.WRITER, holder="z", ttl_ms=1000)
        assert len(store.pending_segments()) == 2
        clock.advance_ms(1)
        store.acquire_lease(LeaseKind.WRITER, holder="z", ttl_ms=1000)
        assert store.pending_segments() == (kept,), "the attempt is not over"


class TestLocks:
    def test_come_with_the_place(self, store: Store) -> None:
        first = place(store, asks(lock=SEGMENT_LOCK))
        (lock,) = store.locks()
        assert (lock.task_id, lock.interval, lock.granularity) == ("task", first.chunk, "segment")
        place(store, asks(previous_id=first.pending_id, lock=SEGMENT_LOCK))
        assert store.locks() == (lock,)

    def test_that_wait_keep_nothing(self, store: Store) -> None:
        store.change_locks(wants("alone", DAY, datasource="events"))
        waits, elsewhere = store.allocate(
            [asks(lock=SEGMENT_LOCK), asks("t", "2013-05-05", lock=SEGMENT_LOCK)]
        )
        assert isinstance(waits, LockWaits)
        assert [lock.task_id for lock in waits.blockers] == ["alone"]
        assert isinstance(elsewhere, PendingSegment)
        assert store.pending_segments() == (elsewhere,)
        store.change_locks(ReleaseLocks(task_id="alone"))
        assert place(store, asks(lock=SEGMENT_LOCK)).chunk == DAY

    def test_of_several_owners_in_one_transaction_see_one_another(self, store: Store) -> None:
        alone = replace(SEGMENT_LOCK, granularity=LockGranularity.TIME_CHUNK)
        owners = ("one", "two", "three", "two")
        *replies, last = store.allocate(
            [
                asks(f"s{n}", owner=owner, lock=replace(alone, group_id=owner, priority=priority))
                for n, (owner, priority) in enumerate(zip(owners, (50, 51, 52, 51), strict=True))
            ]
        )
        assert all(isinstance(one, PendingSegment) for one in replies)
        assert isinstance(last, Denied), "the third has taken its lock"
        assert [(one.task_id, one.state) for one in store.locks()] == [
            ("one", LockState.REVOKED), ("two", LockState.REVOKED), ("three", LockState.HELD),
        ]  # fmt: skip
        equal = [asks(f"e{n}", "2013-05-05", owner=f"e{n}", lock=replace(alone, group_id=f"e{n}"))
                 for n in range(3)]  # fmt: skip
        first, *others = store.allocate(equal)
        assert isinstance(first, PendingSegment)
        assert all(isinstance(one, LockWaits) for one in others)

    def test_that_are_lost_deny_it(self, store: Store) -> None:
        first = place(store, asks(lock=SEGMENT_LOCK))
        store.change_locks(wants("high", DAY, priority=90, datasource="events"))
        for request in (
            asks(lock=SEGMENT_LOCK),
            asks(previous_id=first.pending_id, lock=SEGMENT_LOCK),
        ):
            (denied,) = store.allocate([request])
            assert isinstance(denied, Denied)
            assert isinstance(denied.error, Revoked)
        assert [lock.state for lock in store.locks()] == [LockState.REVOKED, LockState.HELD]


def test_a_cut_segment_is_entered_where_its_rows_are(store: Store) -> None:
    """A place is for a segment of one chunk; one that the layout has cut since is settled as ever."""
    first = place(store, asks(segment_granularity="month"))
    append(store, segment("h", "2013-01-05T01/2013-01-05T02", chunk="2013-01-05T01/2013-01-05T02"))
    append_into(store, (segment("m", "2013-01-04/2013-01-06", chunk=MONTH), first))
    shown = IntervalSet()
    for entry in entries(store):
        shown = shown.union(entry.visible) if entry.segment_id == "m" else shown
    assert shown == IntervalSet((parse_interval("2013-01-04/2013-01-06"),))
