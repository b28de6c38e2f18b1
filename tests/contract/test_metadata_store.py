"""One behaviour for every metadata store: publishing, reading states, the log."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from carnac.core.log.commits import (
    Change,
    CommitKind,
    LookupChange,
    Publication,
    SegmentsVisible,
)
from carnac.core.segments.segment import Column, ColumnType, Segment
from carnac.core.time.intervals import IntervalSet, format_ms
from carnac.errors import Conflict, Corrupt, Invalid, NotFound
from carnac.metadata import open_metadata
from carnac.metadata.publish.settling import UNSETTLED_COMMITS
from carnac.ports import Head, LeaseKind
from tests.contract.conftest import Store
from tests.logs import (
    append,
    append_of,
    day,
    days,
    entries,
    folding,
    interval,
    names,
    replacement,
    revert_of,
    segment,
)
from tests.support.clock import DEFAULT_START_MS, FakeClock, SequentialIds
from tests.support.databases import table_counts

SPAN = "2013-01-01T05/2013-01-01T06"


def with_columns(found: Segment, **types: ColumnType) -> Segment:
    return replace(found, columns=tuple(Column(name=n, type=t) for n, t in types.items()))


class TestEmpty:
    def test_head_is_revision_0_at_the_time_of_creation(self, store: Store) -> None:
        assert store.head() == Head(revision=0, at_ms=DEFAULT_START_MS)
        assert store.resolve(None) == store.resolve(0) == store.head()

    def test_nothing_is_there(self, store: Store) -> None:
        assert store.datasources() == ()
        assert store.chunks("events") == ()
        assert tuple(store.visible("events")) == ()
        assert store.columns("events") == {}
        assert store.count_visible("events") == 0
        assert store.changes(after=0) == ()
        assert store.log() == ()
        assert store.log(datasource="events") == ()
        assert store.lookups() == {}
        assert store.find_segment("a") is None
        assert store.find_batch("w", "1") is None
        assert store.known_paths() == frozenset()
        assert set(table_counts(store).values()) <= {0, 1}

    def test_settings_are_added_and_overwritten(self, store: Store) -> None:
        store.put_settings({"a": "1", "b": "2"})
        store.put_settings({"b": "3"})
        assert store.settings() == {"a": "1", "b": "3"}


class TestPublish:
    def test_revisions_are_dense_and_times_never_decrease(
        self, store: Store, clock: FakeClock
    ) -> None:
        first = append(store, segment("a", SPAN))
        clock.advance_ms(-5_000)
        second = append(store, segment("b", SPAN))
        assert [first.revision, second.revision] == [1, 2]
        assert first.at_ms == second.at_ms == DEFAULT_START_MS
        assert store.head() == Head(revision=2, at_ms=DEFAULT_START_MS)

    def test_what_is_published_is_visible(self, store: Store) -> None:
        found = segment("a", SPAN)
        published = append(store, found)
        (one,) = store.visible("events")
        assert one.segment == found
        assert published.commit is not None
        assert published.commit.changes[0].adds == (one.entry,)
        assert one.entry.added_revision == published.revision
        assert store.find_segment("a") == found
        assert store.known_paths() == {found.path}

    def test_many_entries_of_one_commit_come_in_order_of_chunk_and_partition(
        self, store: Store
    ) -> None:
        append(store, *(segment(f"s{n}", day(3 - n % 3)) for n in range(30)))
        found = entries(store)
        assert [(one.chunk, one.partition_id) for one in found] == sorted(
            (one.chunk, one.partition_id) for one in found
        )
        assert len({one.entry_id for one in found}) == 30

    def test_a_commit_over_two_datasources_is_one_switch(self, store: Store) -> None:
        changes = tuple(
            Change(datasource=name, adds=(segment(f"{name}1", SPAN, datasource=name),))
            for name in ("views", "clicks")
        )
        published = store.publish(Publication(kind=CommitKind.APPEND, changes=changes))
        assert [info.name for info in store.datasources()] == ["clicks", "views"]
        assert store.commit(published.revision) == published.commit
        ids = [one.entry.entry_id for name in ("clicks", "views") for one in store.visible(name)]
        assert len(set(ids)) == 2

    def test_a_segment_id_is_used_once(self, store: Store) -> None:
        append(store, segment("a", SPAN))
        with pytest.raises(Invalid):
            append(store, segment("a", day(2)))
        with pytest.raises(Invalid):
            append(store, segment("b", SPAN), segment("b", SPAN))
        assert store.head().revision == 1
        append(store, segment("b", SPAN))
        assert names(store) == ["a", "b"]

    def test_a_base_from_the_future_is_refused(self, store: Store) -> None:
        with pytest.raises(Invalid, match="revision 7"):
            store.publish(replace(append_of(segment("a", SPAN)), base_revision=7))

    def test_an_invalid_publication_changes_nothing(self, store: Store) -> None:
        before = table_counts(store)
        with pytest.raises(Invalid):
            store.publish(replace(append_of(segment("a", SPAN)), writer="w"))
        with pytest.raises(Invalid):
            append(store, replace(segment("a", SPAN), datasource="others"))
        assert table_counts(store) == before

    def test_a_rewrite_that_loses_rows_is_refused(self, store: Store) -> None:
        append(store, segment("a", SPAN))
        good = folding(store, ("a",), segment("b", SPAN))
        assert good.proof is not None
        with pytest.raises(Corrupt):
            store.publish(replace(good, proof=replace(good.proof, rows_out=9)))
        assert names(store) == ["a"]


class TestConflicts:
    def test_a_replacement_whose_input_is_gone_names_the_commit(self, store: Store) -> None:
        append(store, segment("a", SPAN))
        late = replacement(store, day(1), segment("b", SPAN))
        store.publish(replacement(store, day(1), segment("c", SPAN)))
        append(store, segment("d", SPAN))
        with pytest.raises(Conflict, match="commit 2") as caught:
            store.publish(late)
        assert caught.value.ids["commit"] == 2
        assert names(store) == ["c", "d"]

    def test_what_was_appended_since_is_carried_forward(self, store: Store) -> None:
        append(store, segment("a", SPAN))
        late = replacement(store, day(1), segment("b", SPAN))
        append(store, segment("c", SPAN))
        published = store.publish(late)
        assert names(store) == ["b", "c"]
        assert len({one.version.major_ms for one in entries(store)}) == 1
        assert published.commit == store.commit(3)

    def test_segments_visible(self, store: Store) -> None:
        append(store, segment("a", SPAN))
        need = SegmentsVisible(datasource="events", segment_id="a", expected=days(SPAN))
        store.publish(replace(append_of(segment("b", day(2))), requirements=(need,)))
        store.publish(replacement(store, day(1), kind=CommitKind.DELETE))
        with pytest.raises(Conflict):
            store.publish(replace(append_of(segment("c", day(2))), requirements=(need,)))

    def test_a_conflict_leaves_nothing_behind(self, store: Store) -> None:
        append(store, segment("a", SPAN))
        late = replacement(store, day(1), segment("b", SPAN))
        store.publish(replacement(store, day(1), kind=CommitKind.DELETE))
        before = table_counts(store)
        with pytest.raises(Conflict):
            store.publish(replace(late, writer="w", batch="1"))
        assert table_counts(store) == before
        assert store.find_batch("w", "1") is None


class TestBatches:
    def test_a_replay_returns_the_first_commit_and_changes_nothing(
        self, store: Store, clock: FakeClock
    ) -> None:
        one = replace(append_of(segment("a", SPAN)), writer="w", batch="1")
        first = store.publish(one)
        clock.advance_ms(10)
        append(store, segment("b", SPAN))
        before = table_counts(store)
        again = store.publish(
            replace(
                append_of(segment("c", SPAN, datasource="x"), datasource="x"), writer="w", batch="1"
            )
        )
        assert again.is_replay
        assert again.commit is None
        assert (again.revision, again.at_ms) == (first.revision, first.at_ms)
        assert table_counts(store) == before
        assert store.find_batch("w", "1") == 1
        assert store.find_batch("w", "2") is None
        assert store.find_batch("v", "1") is None

    def test_a_replay_after_the_lease_has_ended_is_still_a_replay(self, store: Store) -> None:
        lease = store.acquire_lease(LeaseKind.WRITER, holder="test", ttl_ms=1000)
        one = replace(append_of(segment("a", SPAN)), writer="w", batch="1", lease_id=lease.lease_id)
        assert not store.publish(one).is_replay
        store.release_lease(lease.lease_id)
        assert store.publish(one).is_replay


class TestReading:
    def test_chunks_that_overlap(self, store: Store) -> None:
        append(store, segment("a", day(1)), segment("b", day(2)), segment("c", day(4)))
        found = store.chunks("events")
        assert [chunk.interval for chunk in found] == [interval(day(n)) for n in (1, 2, 4)]
        assert [chunk.entries for chunk in found] == [1, 1, 1]

        def starts(text: str) -> list[str]:
            chunks = store.chunks("events", interval=interval(text))
            return [format_ms(chunk.interval.start_ms)[8:10] for chunk in chunks]

        assert starts("2013-01-01T23/2013-01-02T01") == ["01", "02"]
        assert starts("2013-01-02/2013-01-03") == ["02"]
        assert starts("2013-01-03/2013-01-04") == []
        assert starts("2013-01-03T23:59/2013-01-09") == ["04"]

    def test_visible_within_intervals(self, store: Store) -> None:
        append(store, segment("a", day(1)), segment("b", day(2)), segment("c", day(4)))
        store.publish(replacement(store, "2013-01-02T06/2013-01-02T18", kind=CommitKind.DELETE))

        def within(*texts: str) -> list[str]:
            found = store.visible("events", intervals=days(*texts))
            return [one.segment.segment_id for one in found]

        assert within(day(2)) == ["b"]
        assert within("2013-01-02T07/2013-01-02T08") == []
        assert within("2013-01-01T23/2013-01-02T01") == ["a", "b"]
        assert within("2013-01-01/2013-01-01T01", day(4)) == ["a", "c"]
        minutes = [f"2013-01-04T{n // 5:02d}:{n % 5}" for n in range(120)]
        assert within(*(f"{minute}0/{minute}1" for minute in minutes)) == ["c"]
        assert within(day(3)) == []
        assert tuple(store.visible("events", intervals=IntervalSet())) == ()

    def test_every_revision_is_still_there(self, store: Store) -> None:
        append(store, segment("a", day(1)))
        append(store, segment("b", day(1)), segment("c", day(2)))
        store.publish(replacement(store, day(1), segment("d", day(1))))
        store.publish(replacement(store, day(2), kind=CommitKind.DELETE))
        assert [names(store, revision) for revision in range(5)] == [
            [],
            ["a"],
            ["a", "b", "c"],
            ["c", "d"],
            ["d"],
        ]
        assert [store.count_visible("events", revision=n) for n in range(5)] == [0, 1, 3, 2, 1]
        assert store.count_visible("events") == 1
        with pytest.raises(NotFound, match="newest is 4"):
            store.visible("events", revision=5)

    def test_what_is_read_together_is_of_one_state(self, store: Store) -> None:
        append(store, segment("a", day(1)))
        with store.one_state(), store.one_state():
            before = (store.head(), store.newest_ms("events"))
            with ThreadPoolExecutor(1) as others:
                others.submit(append, store, segment("b", day(3))).result()
            assert (store.head(), store.newest_ms("events")) == before, "though another came"
        assert store.head().revision == 2
        assert store.newest_ms("events") == interval(day(3)).end_ms - 1
        assert store.newest_ms("others") is None

    def test_datasources_in_numbers(self, store: Store) -> None:
        append(store, segment("a", day(1), rows=7), segment("b", day(3), rows=5))
        store.publish(replacement(store, day(3), kind=CommitKind.DELETE))
        store.publish(append_of(segment("z", day(9), datasource="others"), datasource="others"))
        (events, others) = store.datasources()
        assert (events.name, events.segments, events.chunks, events.rows) == ("events", 1, 1, 7)
        assert (events.size_bytes, events.interval) == (70, interval(day(1)))
        assert (events.revision, others.revision) == (2, 3)
        (before,) = store.datasources(1)
        assert (before.segments, before.chunks, before.rows, before.revision) == (2, 2, 12, 1)
        assert before.interval == interval("2013-01-01/2013-01-04")
        assert store.datasources(0) == ()

    def test_a_segment_in_two_chunks_counts_once(self, store: Store) -> None:
        append(store, segment("a", day(1)), segment("b", day(2)))
        append(store, segment("m", "2013-01-01T12/2013-01-02T12", chunk="2013-01-01/2013-02-01"))
        (info,) = store.datasources()
        assert (info.segments, info.chunks, info.rows) == (3, 2, 30)
        assert store.count_visible("events") == 4

    def test_each_append_is_counted_at_once(self, store: Store) -> None:
        """Also one that leaves it to a later commit to add it to the sums."""
        for number in range(2 * UNSETTLED_COMMITS + 5):
            name = "events" if number % 3 else "others"
            typed = with_columns(
                segment(f"s{number}", day(1), datasource=name),
                **{f"c{number % 40}": ColumnType.LONG},
            )
            store.publish(append_of(typed, datasource=name))
            told = {info.name: (info.segments, info.revision) for info in store.datasources()}
            done = [*range(number + 1)]
            expected = {
                each: (len(those), those[-1] + 1)
                for each, those in (
                    ("others", [n for n in done if n % 3 == 0]),
                    ("events", [n for n in done if n % 3]),
                )
                if those
            }
            assert told == expected
            log = [commit.revision for commit in store.log(datasource="others", limit=4)]
            assert log == [n + 1 for n in done if n % 3 == 0][::-1][:4]
            if number % 8 == 7:
                assert len(store.columns("others")) == len({n % 40 for n in done if n % 3 == 0})
                assert store.check() == ()
        past = {info.name: info.revision for info in store.datasources(UNSETTLED_COMMITS)}
        assert max(past.values()) == UNSETTLED_COMMITS

    @pytest.mark.parametrize("count", [1, UNSETTLED_COMMITS - 1, UNSETTLED_COMMITS + 1])
    def test_what_was_appended_is_dropped_and_comes_back(self, store: Store, count: int) -> None:
        for number in range(count):
            append(store, segment(f"s{number}", day(1), rows=number + 1))
        store.publish(replacement(store, day(1), segment("one", day(1), rows=7)))
        (info,) = store.datasources()
        assert (info.segments, info.rows, info.revision) == (1, 7, count + 1)
        store.publish(revert_of(store, count + 1))
        append(store, segment("last", day(1), rows=1))
        (info,) = store.datasources()
        assert info.segments == count + 1
        assert info.rows == count * (count + 1) // 2 + 1
        assert store.check() == ()

    def test_the_newest_commits_are_trimmed_before_they_are_settled(self, store: Store) -> None:
        for number in range(5):
            append(store, segment(f"s{number}", day(1)))
        store.trim(keep=lambda _: {1, 3}, dry_run=False)
        assert [commit.revision for commit in store.log(datasource="events")] == [5, 3, 1]
        (past,) = store.datasources(3)
        assert (past.segments, past.revision) == (3, 3)
        store.publish(replacement(store, day(1), kind=CommitKind.DELETE))
        assert [commit.revision for commit in store.log(datasource="events")] == [6, 5, 3, 1]
        assert store.check() == ()

    def test_columns_unite(self, store: Store) -> None:
        append(store, with_columns(segment("a", day(1)), x=ColumnType.LONG, y=ColumnType.STRING))
        append(store, with_columns(segment("b", day(2)), x=ColumnType.DOUBLE, z=ColumnType.HLL))
        assert dict(store.columns("events", revision=1)) == {
            "x": ColumnType.LONG,
            "y": ColumnType.STRING,
        }
        assert list(store.columns("events").items()) == [
            ("x", ColumnType.DOUBLE),
            ("y", ColumnType.STRING),
            ("z", ColumnType.HLL),
        ]
        store.publish(replacement(store, day(1), kind=CommitKind.DELETE))
        assert list(store.columns("events")) == ["x", "z"]
        assert list(store.columns("events", revision=2)) == ["x", "y", "z"]


class TestLog:
    def test_commits_read_back_whole(self, store: Store) -> None:
        append(store, segment("a", day(1)), segment("b", day(2)))
        fold = folding(store, ("a",), segment("c", day(1)))
        told = replace(
            fold,
            writer="compactor",
            batch="7",
            offsets={"topic/0": "42"},
            message="a bit of ünïcode",
            lookups=(
                LookupChange(name="codes", mapping={"JFK": "New York", "": "none"}),
                LookupChange(name="absent", mapping=None),
            ),
        )
        published = store.publish(told)
        assert published.commit is not None
        assert published.commit == store.commit(2)
        assert published.commit.proof == fold.proof
        assert store.changes(after=0) == (store.commit(1), store.commit(2))
        assert store.changes(after=1) == (published.commit,)
        assert store.changes(after=0, limit=1) == (store.commit(1),)
        assert store.changes(after=2) == ()
        for missing in (3, -1):
            with pytest.raises(NotFound):
                store.commit(missing)
        with pytest.raises(NotFound):
            store.changes(after=3)

    def test_the_log_in_short(self, store: Store) -> None:
        append(store, segment("a", day(1), rows=3), segment("b", day(2), rows=4))
        store.publish(append_of(segment("z", day(9), datasource="others"), datasource="others"))
        store.publish(replacement(store, day(1), segment("c", day(1))))
        newest, middle, oldest = store.log()
        assert [newest.revision, middle.revision, oldest.revision] == [3, 2, 1]
        (what,) = oldest.datasources
        assert (what.segments, what.entries_added, what.rows, what.size_bytes) == (2, 2, 7, 70)
        (what,) = newest.datasources
        assert (what.entries_added, what.entries_dropped, what.covers) == (1, 1, days(day(1)))
        assert [one.revision for one in store.log(datasource="events")] == [3, 1]
        assert [one.revision for one in store.log(before=3, limit=1)] == [2]
        assert store.log(datasource="nothing") == ()

    def test_lookups_at_every_revision(self, store: Store) -> None:
        def publish(**mappings: dict[str, str] | None) -> None:
            store.publish(
                Publication(
                    kind=CommitKind.LOOKUP,
                    lookups=tuple(
                        LookupChange(name=name, mapping=mapping)
                        for name, mapping in mappings.items()
                    ),
                )
            )

        publish(b={"1": "one"})
        publish(a={}, b={"1": "uno"})
        publish(b=None)
        assert store.lookups() == {"a": {}}
        assert [store.lookups(revision) for revision in range(4)] == [
            {},
            {"b": {"1": "one"}},
            {"a": {}, "b": {"1": "uno"}},
            {"a": {}},
        ]
        assert store.log()[1].lookups == ("a", "b")


class TestReopening:
    def test_a_store_is_the_same_after_reopening(
        self, store: Store, metadata_url: str, clock: FakeClock
    ) -> None:
        append(store, segment("a", day(1)))
        store.publish(replacement(store, day(1), segment("b", day(1))))
        clock.advance_ms(99)
        again = open_metadata(metadata_url, clock=clock, ids=SequentialIds("again"))
        assert again.head() == store.head()
        assert again.changes(after=0) == store.changes(after=0)
        assert again.resolve(0).at_ms == DEFAULT_START_MS
        append(again, segment("c", day(1)))
        assert names(store) == ["b", "c"]
        again.close()
        again.close()
