"""One behaviour for every metadata store: names for revisions, leases, trimming, the trash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from carnac.core.log.commits import CommitKind, LookupChange, NotCovered, Publication
from carnac.errors import Conflict, Invalid, NotFound, Revoked
from carnac.ports import Head, LeaseKind
from tests.contract.conftest import Store
from tests.logs import (
    append,
    append_of,
    day,
    days,
    folding,
    interval,
    names,
    replacement,
    revert_of,
    segment,
)
from tests.support.clock import DEFAULT_START_MS, FakeClock
from tests.support.databases import table_counts

YEAR_MS = 365 * 86_400_000


def keep(*revisions: int) -> Callable[[Sequence[Head]], set[int]]:
    """A retention rule that wants these."""
    return lambda heads: set(revisions) & {head.revision for head in heads}


def write_history(store: Store, clock: FakeClock) -> None:
    """Five revisions, a second apart: a; a b; c (a, b folded); c d; d (c deleted)."""
    append(store, segment("a", day(1)))
    clock.advance_ms(1000)
    append(store, segment("b", day(1)))
    clock.advance_ms(1000)
    store.publish(folding(store, ("a", "b"), segment("c", day(1))))
    clock.advance_ms(1000)
    append(store, segment("d", day(2)))
    clock.advance_ms(1000)
    store.publish(replacement(store, day(1), kind=CommitKind.DELETE))


class TestNamesOfRevisions:
    def test_tags(self, store: Store, clock: FakeClock) -> None:
        write_history(store, clock)
        store.put_tag("v2", 4)
        store.put_tag("v1", 1)
        clock.advance_ms(5)
        moved = store.put_tag("v1", 2)
        assert [(tag.name, tag.revision) for tag in store.tags()] == [("v1", 2), ("v2", 4)]
        assert store.tags()[0] == moved
        assert store.resolve("v1").revision == 2
        store.remove_tag("v1")
        with pytest.raises(NotFound, match="v1"):
            store.remove_tag("v1")
        with pytest.raises(NotFound, match="v2"):
            store.resolve("v1")
        with pytest.raises(NotFound):
            store.put_tag("v3", 9)
        for name in ("", "12", " x", "2013-05-01", "2013-05-01T12:00"):
            with pytest.raises(Invalid):
                store.put_tag(name, 1)

    def test_times(self, store: Store, clock: FakeClock) -> None:
        clock.advance_ms(500)
        write_history(store, clock)
        assert store.resolve("2014-01-01T00:00:00.500Z").revision == 1
        assert store.resolve("2014-01-01T00:00:00.499Z").revision == 0
        assert store.resolve("2014-01-01T00:00:02.5Z").revision == 3
        assert store.resolve("2015-01").revision == 5
        assert store.resolve(" 3 ").revision == store.resolve(3).revision == 3
        with pytest.raises(NotFound, match="created"):
            store.resolve("2013-12-31")
        with pytest.raises(NotFound, match="neither"):
            store.resolve("yesterday")
        with pytest.raises(NotFound, match="newest is 5"):
            store.resolve(6)
        for nonsense in ("", "  ", -1):
            with pytest.raises(Invalid):
                store.resolve(nonsense)

    def test_of_commits_at_one_time_the_last_counts(self, store: Store) -> None:
        append(store, segment("a", day(1)))
        append(store, segment("b", day(1)))
        assert store.resolve("2014-01").revision == 2


class TestLeases:
    def test_a_lease_ends_by_itself(self, store: Store, clock: FakeClock) -> None:
        lease = store.acquire_lease(LeaseKind.READER, holder="me", ttl_ms=100)
        assert (lease.revision, lease.expires_at_ms) == (0, DEFAULT_START_MS + 100)
        clock.advance_ms(60)
        renewed = store.renew_lease(lease.lease_id, ttl_ms=100)
        assert renewed.expires_at_ms == DEFAULT_START_MS + 160
        assert renewed.acquired_at_ms == DEFAULT_START_MS
        clock.advance_ms(99)
        assert store.leases() == (renewed,)
        clock.advance_ms(1)
        assert store.leases() == ()
        with pytest.raises(Revoked):
            store.renew_lease(lease.lease_id, ttl_ms=100)

    def test_a_lease_moves_forward_only(self, store: Store, clock: FakeClock) -> None:
        write_history(store, clock)
        lease = store.acquire_lease(LeaseKind.READER, holder="me", ttl_ms=100, revision=2)
        assert store.renew_lease(lease.lease_id, ttl_ms=100, revision=4).revision == 4
        with pytest.raises(Invalid):
            store.renew_lease(lease.lease_id, ttl_ms=100, revision=3)
        with pytest.raises(NotFound):
            store.renew_lease(lease.lease_id, ttl_ms=100, revision=9)
        with pytest.raises(NotFound):
            store.acquire_lease(LeaseKind.READER, holder="me", ttl_ms=100, revision=9)
        store.release_lease(lease.lease_id)
        store.release_lease(lease.lease_id)
        with pytest.raises(Revoked):
            store.renew_lease(lease.lease_id, ttl_ms=100)

    def test_abandoned_leases_do_not_pile_up(self, store: Store, clock: FakeClock) -> None:
        for _ in range(20):
            store.acquire_lease(LeaseKind.WRITER, holder="crashed", ttl_ms=10)
            clock.advance_ms(10)
        assert table_counts(store)["leases"] == 1


class TestWriterLeases:
    def test_a_lease_is_published_under_until_it_is_released(self, store: Store) -> None:
        lease = store.acquire_lease(LeaseKind.WRITER, holder="test", ttl_ms=1000)
        for name in ("a", "b"):
            store.publish(replace(append_of(segment(name, day(1))), lease_id=lease.lease_id))
        assert store.leases() == (lease,)
        store.release_lease(lease.lease_id)
        with pytest.raises(Revoked, match=lease.lease_id):
            store.publish(replace(append_of(segment("c", day(1))), lease_id=lease.lease_id))
        assert names(store) == ["a", "b"]

    def test_an_expired_lease_revokes(self, store: Store, clock: FakeClock) -> None:
        lease = store.acquire_lease(LeaseKind.WRITER, holder="test", ttl_ms=1000)
        clock.advance_ms(1000)
        with pytest.raises(Revoked):
            store.publish(replace(append_of(segment("a", day(1))), lease_id=lease.lease_id))
        assert store.head().revision == 0

    def test_a_readers_lease_is_no_writers_lease(self, store: Store) -> None:
        lease = store.acquire_lease(LeaseKind.READER, holder="test", ttl_ms=1000)
        with pytest.raises(Revoked):
            store.publish(replace(append_of(segment("a", day(1))), lease_id=lease.lease_id))

    def test_a_conflict_leaves_the_lease_for_the_retry(self, store: Store) -> None:
        append(store, segment("a", day(1)))
        late = replacement(store, day(1), segment("b", day(1)))
        store.publish(replacement(store, day(1), kind=CommitKind.DELETE))
        lease = store.acquire_lease(LeaseKind.WRITER, holder="test", ttl_ms=1000)
        with pytest.raises(Conflict):
            store.publish(replace(late, lease_id=lease.lease_id))
        assert store.leases() == (lease,)


class TestTrim:
    def test_a_dry_run_tells_and_changes_nothing(self, store: Store, clock: FakeClock) -> None:
        write_history(store, clock)
        before = table_counts(store)
        told = store.trim(keep=keep(), dry_run=True)
        assert table_counts(store) == before
        assert store.trashed() == ()
        done = store.trim(keep=keep(), dry_run=False)
        assert told == done
        assert (done.revisions_kept, done.revisions_trimmed, done.oldest_revision) == (1, 4, 5)
        assert [found.segment_id for found in done.trashed] == ["a", "b", "c"]
        assert done.reasons == {}

    def test_the_newest_stays_and_the_rest_is_gone(self, store: Store, clock: FakeClock) -> None:
        write_history(store, clock)
        live = tuple(store.visible("events"))
        newest = store.commit(5)
        store.trim(keep=keep(), dry_run=False)
        assert tuple(store.visible("events")) == live
        assert store.head().revision == 5
        assert store.commit(5) == newest
        assert [one.revision for one in store.log()] == [5]
        assert store.changes(after=4) == (newest,)
        for gone in (1, 4):
            with pytest.raises(NotFound, match="trimmed"):
                store.commit(gone)
            with pytest.raises(NotFound, match="nearest retained are 5"):
                store.visible("events", revision=gone)
            with pytest.raises(NotFound):
                store.resolve(gone)
        with pytest.raises(NotFound, match="not whole"):
            store.changes(after=2)
        assert table_counts(store)["entries"] == 2  # d, and c which commit 5 dropped

    def test_sparse_revisions_stay_readable(self, store: Store, clock: FakeClock) -> None:
        write_history(store, clock)
        states = {
            revision: tuple(store.visible("events", revision=revision)) for revision in (2, 4)
        }
        commits = {revision: store.commit(revision) for revision in (2, 4, 5)}
        done = store.trim(keep=keep(2, 4), dry_run=False)
        assert done.trashed == ()
        assert done.reasons == {
            "a": "revision 2 is retained",
            "b": "revision 2 is retained",
            "c": "revision 4 is retained",
        }
        for revision, state in states.items():
            assert tuple(store.visible("events", revision=revision)) == state
        for revision, commit in commits.items():
            assert store.commit(revision) == commit
        with pytest.raises(NotFound, match="nearest retained are 2 and 4"):
            store.resolve(3)
        with pytest.raises(NotFound):
            store.changes(after=1)
        assert store.changes(after=3) == (commits[4], commits[5])

    def test_times_between_sparse_revisions(self, store: Store, clock: FakeClock) -> None:
        write_history(store, clock)
        store.trim(keep=keep(2), dry_run=False)
        assert store.resolve("2014-01-01T00:00:01.999Z").revision == 2
        for trimmed in ("2014-01-01T00:00:02Z", "2014-01-01T00:00:03.999Z"):
            with pytest.raises(NotFound, match="nearest retained are 2 and 5"):
                store.resolve(trimmed)
        assert store.resolve("2014-01-01T00:00:04Z").revision == 5
        with pytest.raises(NotFound, match="oldest retained revision is 2"):
            store.resolve("2014-01-01T00:00:00.5Z")

    def test_trimming_again_and_again(self, store: Store, clock: FakeClock) -> None:
        write_history(store, clock)
        state = tuple(store.visible("events", revision=3))
        done = store.trim(keep=keep(1, 3), dry_run=False)
        assert [found.segment_id for found in done.trashed] == ["b"]
        assert tuple(store.visible("events", revision=3)) == state
        done = store.trim(keep=keep(3), dry_run=False)
        assert [found.segment_id for found in done.trashed] == ["a"]
        assert tuple(store.visible("events", revision=3)) == state
        assert store.resolve("2014-01-01T00:00:02.5Z").revision == 3
        done = store.trim(keep=keep(), dry_run=False)
        assert [found.segment_id for found in done.trashed] == ["c"]
        assert store.trim(keep=keep(), dry_run=False).revisions_trimmed == 0

    def test_tags_and_readers_hold_revisions(self, store: Store, clock: FakeClock) -> None:
        write_history(store, clock)
        store.put_tag("first", 1)
        lease = store.acquire_lease(LeaseKind.READER, holder="me", ttl_ms=100, revision=4)
        store.acquire_lease(LeaseKind.WRITER, holder="me", ttl_ms=100, revision=2)
        done = store.trim(keep=keep(), dry_run=False)
        assert done.revisions_kept == 3
        assert [one.revision for one in store.log()] == [5, 4, 1]
        assert done.reasons == {"a": "tag 'first' at revision 1", "c": "revision 4 is retained"}
        assert [found.segment_id for found in done.trashed] == ["b"]
        store.release_lease(lease.lease_id)
        assert store.trim(keep=keep(), dry_run=False).revisions_kept == 2
        store.remove_tag("first")
        clock.advance_ms(1000)
        assert store.trim(keep=keep(), dry_run=False).revisions_kept == 1

    def test_a_reader_that_has_died_holds_nothing(self, store: Store, clock: FakeClock) -> None:
        write_history(store, clock)
        store.acquire_lease(LeaseKind.READER, holder="me", ttl_ms=100, revision=4)
        clock.advance_ms(100)
        assert store.trim(keep=keep(), dry_run=False).revisions_kept == 1

    def test_a_chunk_that_came_and_went_unseen_is_not_made_again_as_it_was(
        self, store: Store
    ) -> None:
        append(store, segment("a", day(2)))
        append(store, segment("b", day(1)))
        [before] = store.chunks("events", interval=interval(day(1)))
        store.publish(replacement(store, day(1), kind=CommitKind.DELETE))
        append(store, segment("c", day(2)))
        store.trim(keep=keep(1), dry_run=False)
        append(store, segment("d", day(1)))
        [after] = store.chunks("events", interval=interval(day(1)))
        assert after.version > before.version

    def test_the_told_revision_stays_until_a_later_one_is_told(
        self, store: Store, clock: FakeClock
    ) -> None:
        write_history(store, clock)
        for told in (2, 4):
            store.tell(told, fence=1)
            store.trim(keep=keep(4), dry_run=False)
            assert [one.revision for one in store.log()] == sorted({5, 4, told}, reverse=True)

    def test_wanting_what_is_gone_is_an_error(self, store: Store, clock: FakeClock) -> None:
        write_history(store, clock)
        with pytest.raises(Invalid, match="9"):
            store.trim(keep=lambda _heads: {9}, dry_run=False)

    def test_an_empty_store(self, store: Store) -> None:
        done = store.trim(keep=keep(), dry_run=False)
        assert (done.revisions_kept, done.revisions_trimmed, done.oldest_revision) == (0, 0, 0)

    def test_lookups_stay_while_a_kept_revision_shows_them(self, store: Store) -> None:
        for mapping in ({"1": "a"}, {"1": "b"}, {"1": "c"}, None):
            change = LookupChange(name="codes", mapping=mapping)
            store.publish(Publication(kind=CommitKind.LOOKUP, lookups=(change,)))
        store.trim(keep=keep(2), dry_run=False)
        assert store.lookups(2) == {"codes": {"1": "b"}}
        assert store.lookups() == {}
        assert store.commit(4).lookups == (LookupChange(name="codes", mapping=None),)
        assert table_counts(store)["lookups"] == 1

    def test_a_year_of_minute_commits_stays_flat(self, store: Store, clock: FakeClock) -> None:
        """Replacing one chunk over and over with retention leaves the same number of rows at every round."""
        seen = []
        for round_number in range(4):
            for number in range(10):
                clock.advance_ms(60_000)
                name = f"s{round_number}x{number}"
                store.publish(replacement(store, day(1), segment(name, day(1))))
            done = store.trim(keep=keep(), dry_run=False)
            store.forget_segments([found.segment_id for found in done.trashed])
            seen.append(table_counts(store))
        assert seen[1] == seen[2] == seen[3]


class TestBatches:
    def test_old_ones_are_forgotten_but_the_newest_of_a_writer_never(
        self, store: Store, clock: FakeClock
    ) -> None:
        for number, writer in enumerate(["stream", "stream", "once", "stream"]):
            one = append_of(segment(f"s{number}", day(1)))
            store.publish(replace(one, writer=writer, batch=str(number)))
            clock.advance_ms(10)
        before_ms = clock.now_ms() - 10
        told = store.trim(keep=keep(), dry_run=True, batches_before_ms=before_ms)
        assert told.batches_forgotten == 2
        assert store.find_batch("stream", "0") == 1, "a dry run forgets nothing"
        done = store.trim(keep=keep(), dry_run=False, batches_before_ms=before_ms)
        assert done == told
        assert table_counts(store)["batches"] == 2
        found = [store.find_batch("stream", batch) for batch in "013"]
        assert (found, store.find_batch("once", "2")) == ([None, None, 4], 3)
        again = store.trim(keep=keep(), dry_run=False, batches_before_ms=clock.now_ms() + 1)
        assert again.batches_forgotten == 0

    def test_one_that_was_forgotten_and_comes_again_is_appended_anew(
        self, store: Store, clock: FakeClock
    ) -> None:
        for number in range(2):
            one = append_of(segment(f"s{number}", day(1)))
            store.publish(replace(one, writer="w", batch=str(number)))
        clock.advance_ms(1)
        store.trim(keep=keep(), dry_run=False, batches_before_ms=clock.now_ms())
        again = replace(append_of(segment("again", day(1))), writer="w", batch="0")
        first, second = store.publish(again), store.publish(again)
        assert (first.revision, first.is_replay) == (3, False)
        assert (second.revision, second.is_replay) == (3, True)
        assert names(store) == ["again", "s0", "s1"]

    def test_all_are_kept_where_nobody_says_how_long(self, store: Store, clock: FakeClock) -> None:
        for number in range(2):
            one = append_of(segment(f"s{number}", day(1)))
            store.publish(replace(one, writer="w", batch=str(number)))
        clock.advance_ms(10**12)
        assert store.trim(keep=keep(), dry_run=False).batches_forgotten == 0
        assert store.find_batch("w", "0") == 1


class TestTrash:
    def test_forgotten_segments_are_unknown(self, store: Store, clock: FakeClock) -> None:
        write_history(store, clock)
        clock.advance_ms(7)
        store.trim(keep=keep(), dry_run=False)
        trash = store.trashed()
        assert [one.segment.segment_id for one in trash] == ["a", "b", "c"]
        assert {one.trashed_at_ms for one in trash} == {clock.now_ms()}
        assert len(store.known_paths()) == 4
        store.forget_segments(["a", "b", "d", "unknown"])
        assert [one.segment.segment_id for one in store.trashed()] == ["c"]
        assert store.find_segment("a") is None
        assert store.find_segment("d") is not None, "what is visible is not in the trash"
        assert len(store.known_paths()) == 2
        assert store.commit(5).changes[0].drops[0].segment_id == "c"

    def test_a_segment_in_the_trash_cannot_come_back(self, store: Store, clock: FakeClock) -> None:
        write_history(store, clock)
        back = revert_of(store, 5)
        store.trim(keep=keep(), dry_run=False)
        with pytest.raises(NotFound, match="segment c"):
            store.publish(back)
        store.forget_segments(["c"])
        with pytest.raises(NotFound, match="segment c"):
            store.publish(back)
        assert names(store) == ["d"]

    def test_a_datasource_without_anything_is_forgotten(
        self, store: Store, clock: FakeClock
    ) -> None:
        write_history(store, clock)
        store.publish(replacement(store, day(2), kind=CommitKind.DELETE))
        store.publish(append_of(segment("z", day(1), datasource="others"), datasource="others"))
        assert [info.name for info in store.datasources()] == ["others"]
        done = store.trim(keep=keep(), dry_run=False)
        store.forget_segments([found.segment_id for found in done.trashed])
        counts = table_counts(store)
        assert (counts["chunks"], counts["schemas"], counts["segments"]) == (1, 1, 1)
        assert (counts["covers"], counts["datasources"]) == (0, 1)
        append(store, segment("new", day(1)))
        assert [info.name for info in store.datasources()] == ["events", "others"]


class TestConflictsAcrossTrims:
    def test_a_forgotten_replacement_still_stands_in_the_way_of_a_revert(
        self, store: Store, clock: FakeClock
    ) -> None:
        """Commit 2 is forgotten, but it covered what a revert of commit 1's deletion would bring back."""
        append(store, segment("a", day(1)))
        store.publish(replacement(store, day(1), kind=CommitKind.DELETE))
        revert = revert_of(store, 2)
        store.publish(replacement(store, "2013-01-01/2013-01-20", segment("b", day(3))))
        store.publish(replacement(store, "2013-01-01/2013-01-02", segment("c", day(1))))
        append(store, segment("d", day(9)))
        store.put_tag("before", 1)
        store.put_tag("after", 2)
        store.trim(keep=keep(), dry_run=False)
        with pytest.raises(Conflict) as caught:
            store.publish(revert)
        assert caught.value.ids["commit"] == 4, "of the forgotten, the newest that covers it"

    def test_requirements_older_than_all_history_are_refused(
        self, store: Store, clock: FakeClock
    ) -> None:
        write_history(store, clock)
        store.trim(keep=keep(), dry_run=False)
        need = NotCovered(datasource="events", pieces=days(day(5)), revision=3)
        with pytest.raises(Conflict, match="trimmed"):
            store.publish(replace(append_of(segment("x", day(5))), requirements=(need,)))
        recent = replace(need, revision=4)
        store.publish(replace(append_of(segment("x", day(5))), requirements=(recent,)))
