"""What every metadata store promises of erasures: history names other segments, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from carnac.core.log.commits import CommitKind, LookupChange, Publication
from carnac.core.log.erasing import Erased, ErasedFile, Erasure
from carnac.core.segments.segment import Column, ColumnType, RangePartition, Scalar, Segment
from carnac.core.time.intervals import IntervalSet
from carnac.errors import Conflict, Invalid, NotFound, Revoked
from carnac.ports import LeaseKind
from tests.contract.conftest import Store
from tests.logs import (
    DATASOURCE,
    append,
    append_of,
    day,
    days,
    entries,
    folding,
    names,
    replacement,
    revert_of,
    segment,
)
from tests.support.clock import FakeClock


def write_history(store: Store) -> None:
    """Six revisions: a; a b; c (a, b folded); c d; d (c dropped); d e."""
    append(store, segment("a", day(1)))
    append(store, segment("b", day(1)))
    store.publish(folding(store, ("a", "b"), segment("c", day(1), rows=20)))
    append(store, segment("d", day(2)))
    store.publish(replacement(store, day(1), kind=CommitKind.DELETE))
    append(store, segment("e", day(3)))


def erasure(
    store: Store,
    *erased: Erased,
    texts: tuple[str, ...] = (),
    spans: str | None = None,
) -> Erasure:
    """An erasure that has searched all other segments of now."""
    lease = store.acquire_lease(LeaseKind.WRITER, holder="me", ttl_ms=10_000)
    segments = [*store.unshown_segments(DATASOURCE)]
    segments += [one.segment for one in store.visible(DATASOURCE)]
    return Erasure(
        datasource=DATASOURCE,
        segments=erased,
        searched={one.segment_id for one in segments} - {one.old.segment_id for one in erased},
        base_revision=store.head().revision,
        spans=IntervalSet() if spans is None else days(spans),
        texts=texts,
        message="asked for",
        lease_id=lease.lease_id,
    )


def instead_of(store: Store, name: str, new: str | None, *, rows: int = 9) -> Erased:
    old = store.find_segment(name)
    assert old is not None
    if new is None:
        return Erased(old=old, new=None)
    path = f"segments/{DATASOURCE}/{new}.parquet"
    made = replace(old, segment_id=new, path=path, rows=rows, size_bytes=rows * 10)
    return Erased(old=old, new=made)


def ranged(name: str, start: Scalar | None, end: Scalar | None, *, of: str = day(1)) -> Segment:
    """A segment of rows whose column `key` lies in a range."""
    partition = RangePartition(
        dimensions=("key",),
        start=None if start is None else (start,),
        end=None if end is None else (end,),
    )
    is_text = isinstance(start or end, str)
    columns = (Column(name="key", type=ColumnType.STRING if is_text else ColumnType.LONG),)
    return replace(segment(name, of), partition=partition, columns=columns)


def histories(store: Store) -> list[list[str]]:
    return [names(store, revision) for revision in range(1, store.head().revision + 1)]


class TestErasing:
    def test_history_names_the_new_segments_everywhere(
        self, store: Store, clock: FakeClock
    ) -> None:
        write_history(store)
        before = [entries(store, revision) for revision in range(1, 7)]
        asked = erasure(store, instead_of(store, "a", "A"), instead_of(store, "c", "C", rows=15))
        clock.advance_ms(5)
        published = store.erase(asked)
        assert published.revision == 7
        assert histories(store) == [
            ["A"],
            ["A", "b"],
            ["C"],
            ["C", "d"],
            ["d"],
            ["d", "e"],
            ["d", "e"],
        ]
        given = {"a": "A", "c": "C"}
        for revision, found in enumerate(before, start=1):
            there = [
                replace(one, segment_id=given.get(one.segment_id, one.segment_id)) for one in found
            ]
            assert entries(store, revision) == there
        assert store.find_segment("a") is None
        assert store.check() == ()
        files = [
            ErasedFile(path=f"segments/events/{one}.parquet", revision=7, at_ms=clock.now_ms())
            for one in "ac"
        ]
        assert store.erased_files() == tuple(files)
        assert {one.path for one in files} <= store.known_paths()

    def test_the_log_says_it_and_counts_what_is_left(self, store: Store, clock: FakeClock) -> None:
        write_history(store)
        asked = erasure(store, instead_of(store, "a", None), instead_of(store, "c", "C", rows=15))
        clock.advance_ms(-5)
        store.erase(asked)
        log = {one.revision: one for one in store.log()}
        assert log[7].at_ms == log[6].at_ms, "whoever set the clock back"
        assert (log[7].kind, log[7].message) == (CommitKind.ERASE, "asked for")
        assert [one.datasource for one in log[7].datasources] == [DATASOURCE]
        assert [one.revision for one in store.log(datasource=DATASOURCE)] == [7, 6, 5, 4, 3, 2, 1]
        counts = {
            revision: (one.segments, one.rows, one.entries_added, one.entries_dropped)
            for revision, summary in log.items()
            for one in summary.datasources
        }
        assert counts == {
            1: (0, 0, 0, 0),
            2: (1, 10, 1, 0),
            3: (1, 15, 1, 1),
            4: (1, 10, 1, 0),
            5: (0, 0, 0, 1),
            6: (1, 10, 1, 0),
            7: (0, 0, 0, 0),
        }
        assert [one.revision for one in store.changes(after=0)] == [1, 2, 3, 4, 5, 6, 7]
        assert store.check() == ()

    def test_a_segment_without_rows_is_named_no_more(self, store: Store) -> None:
        write_history(store)
        store.erase(erasure(store, instead_of(store, "a", None), instead_of(store, "b", None)))
        assert histories(store) == [[], [], ["c"], ["c", "d"], ["d"], ["d", "e"], ["d", "e"]]
        assert store.unshown_segments(DATASOURCE) == [store.find_segment("c")]
        log = {one.revision: one.datasources[0] for one in store.log()}
        assert (log[3].entries_added, log[3].entries_dropped) == (1, 0)
        assert store.check() == ()

    def test_reverts_bring_back_what_is_left(self, store: Store) -> None:
        write_history(store)
        store.erase(erasure(store, instead_of(store, "c", "C")))
        store.publish(revert_of(store, 5))
        assert names(store) == ["C", "d", "e"]
        with pytest.raises(Invalid, match="commit 7 is an erasure, which nothing takes back"):
            revert_of(store, 7)
        assert store.check() == ()

    def test_what_is_visible_is_not_erased(self, store: Store) -> None:
        write_history(store)
        asked = erasure(store, instead_of(store, "c", "C"), instead_of(store, "d", "D"))
        with pytest.raises(Conflict, match="is visible again"):
            store.erase(asked)
        assert (store.head().revision, names(store, 3), store.erased_files()) == (6, ["c"], ())

    def test_what_was_not_searched_is_not_passed_over(self, store: Store) -> None:
        """Others publish after it was searched what there is: only what they append holds none of what was there."""
        write_history(store)
        first = erasure(store, instead_of(store, "c", "C"))
        append(store, segment("f", day(4)))
        second = erasure(store, instead_of(store, "c", "D"))
        with pytest.raises(Conflict, match="segment f came while others were searched"):
            store.erase(replace(second, searched=second.searched - {"f"}))
        planned = revert_of(store, 5)
        assert store.erase(first).revision == 8
        with pytest.raises(Conflict, match="segment C came while others were searched"):
            store.erase(second)  # C may hold what the second one erases
        with pytest.raises(NotFound, match="segment c of events cannot come back"):
            store.publish(planned)
        third = erasure(store, instead_of(store, "C", None))
        store.publish(folding(store, ("d",), segment("g", day(2))))
        with pytest.raises(Conflict, match="segment g came while others were searched"):
            store.erase(third)
        assert (store.head().revision, names(store, 3), names(store)) == (9, ["C"], ["e", "f", "g"])

    def test_what_is_in_the_trash_is_left_to_garbage_collection(self, store: Store) -> None:
        write_history(store)
        asked = erasure(store, instead_of(store, "a", "A"), instead_of(store, "c", "C"))
        store.trim(keep=lambda _heads: {4}, dry_run=False)
        assert [one.segment.segment_id for one in store.trashed()] == ["a", "b"]
        store.erase(asked)
        assert (names(store, 4), store.find_segment("A")) == (["C", "d"], None)
        assert [one.path for one in store.erased_files()] == ["segments/events/c.parquet"]
        assert store.check() == ()

    def test_without_its_lease_nothing_is_erased(self, store: Store, clock: FakeClock) -> None:
        write_history(store)
        asked = erasure(store, instead_of(store, "a", "A"))
        clock.advance_ms(10_001)
        with pytest.raises(Revoked):
            store.erase(asked)
        with pytest.raises(NotFound, match="no datasource 'nix'"):
            store.erase(replace(erasure(store, instead_of(store, "a", "A")), datasource="nix"))
        assert (store.head().revision, names(store, 1)) == (6, ["a"])

    def test_files_are_forgotten_when_they_are_deleted(self, store: Store) -> None:
        write_history(store)
        store.erase(erasure(store, instead_of(store, "a", "A"), instead_of(store, "b", "B")))
        store.forget_erased_files(["segments/events/a.parquet"])
        store.forget_erased_files([])
        assert [one.path for one in store.erased_files()] == ["segments/events/b.parquet"]


class TestClips:
    """Rows of the morning are hidden by a deletion, the day's other rows by the next one."""

    @pytest.mark.parametrize(
        ("left", "shown"),
        [
            ("2013-01-01T00/2013-01-01T20", [["a"], ["a"], []]),  # the last rows go
            ("2013-01-01T14/2013-01-02", [["a"], ["a"], []]),  # the first
            ("2013-01-01T00/2013-01-01T12", [["a"], [], []]),  # all that the clip shows
        ],
    )
    def test_they_are_cut_to_what_is_left(
        self, store: Store, left: str, shown: list[list[str]]
    ) -> None:
        append(store, segment("a", day(1)))
        for hidden in ("2013-01-01T00/2013-01-01T12", "2013-01-01T12/2013-01-02"):
            store.publish(replacement(store, hidden, kind=CommitKind.DELETE))
        old = store.find_segment("a")
        assert old is not None
        new = replace(segment("A", left, rows=5), chunk=old.chunk)
        store.erase(erasure(store, Erased(old=old, new=new)))
        assert histories(store)[:3] == [[one.upper() for one in found] for found in shown]
        for entry in (one for revision in (1, 2) for one in entries(store, revision)):
            assert entry.span == new.span
            assert entry.clip is None or entry.clip == days("2013-01-01T12/2013-01-01T20")
        if shown[1]:
            store.publish(revert_of(store, 3))
            store.publish(revert_of(store, 2))
            assert names(store) == ["A"]
            assert store.check() == ()

    def test_a_segment_of_which_none_shows_anything_is_gone(self, store: Store) -> None:
        append(store, segment("a", day(1)))
        for hidden in ("2013-01-01T00/2013-01-01T12", "2013-01-01T12/2013-01-02"):
            store.publish(replacement(store, hidden, kind=CommitKind.DELETE))
        store.trim(keep=lambda _heads: {3}, dry_run=False)
        old = store.find_segment("a")
        assert old is not None
        new = replace(segment("A", "2013-01-01T00/2013-01-01T12"), chunk=old.chunk)
        store.erase(erasure(store, Erased(old=old, new=new)))
        assert (names(store, 3), store.find_segment("A")) == ([], None)
        assert store.check() == ()


class TestTexts:
    def test_messages_quote_no_erased_text(self, store: Store) -> None:
        write_history(store)
        append(store, segment("f", day(4)))
        deletion = replacement(store, day(4), kind=CommitKind.DELETE)
        store.publish(replace(deletion, message="delete where mail = 'ada@example.org'"))
        append(store, segment("g", day(5)))
        other = replacement(store, day(5), kind=CommitKind.DELETE)
        store.publish(replace(other, message="delete where mail = 'bob@example.org'"))
        append(store, segment("h", day(6)))
        told = replacement(store, day(6), kind=CommitKind.DELETE)
        store.publish(replace(told, message="as ADA@example.org asked"))
        texts = ("mail = 'ada@example.org'", "ada@example.org")
        assert store.is_quoted(DATASOURCE, texts, IntervalSet())
        store.erase(erasure(store, texts=texts))
        messages = {one.revision: one.message for one in store.log()}
        assert messages[8] == "delete where …"
        assert messages[10] == "delete where mail = 'bob@example.org'"
        assert messages[12] == "as … asked"
        assert not store.is_quoted(DATASOURCE, texts, IntervalSet())
        assert not store.is_quoted("nix", texts, IntervalSet())

    def test_only_messages_that_are_about_the_datasource_are_changed(self, store: Store) -> None:
        write_history(store)
        append(store, segment("f", day(4)))
        for number, message in enumerate(("Ada", "ADAM, ada_2, 'ada'", "Adamant")):
            append(store, segment(f"f{number}", day(4)))
            deletion = replacement(store, day(4), kind=CommitKind.DELETE)
            store.publish(replace(deletion, message=message))
        other = append_of(segment("x", day(1), datasource="other"), datasource="other")
        store.publish(replace(other, message="of Ada"))
        names_of_nobody = (LookupChange(name="names", mapping={"k": "v"}),)
        store.publish(
            Publication(kind=CommitKind.LOOKUP, lookups=names_of_nobody, message="without Ada")
        )
        store.erase(erasure(store, texts=("ada",)))
        messages = [one.message for one in store.log() if one.message]
        assert messages == [
            "asked for",
            "without …",
            "of Ada",
            "Adamant",
            "ADAM, …_2, '…'",
            "…",
        ]
        assert store.count_mentions(("ada",)) == {"messages of commits": 1}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("O'Brien", "delete where who = 'O''BRIEN'"),
            ("Élodie Łoś", "delete where who = 'élodie łoś'"),
            ('the "best"\\', "delete where who = 'The \"Best\"\\\\'"),
        ],
    )
    def test_texts_are_found_as_they_are_kept(self, store: Store, text: str, message: str) -> None:
        write_history(store)
        append(store, segment("f", day(4)))
        deletion = replacement(store, day(4), kind=CommitKind.DELETE)
        store.publish(replace(deletion, message=message))
        lookup = LookupChange(name="names", mapping={"1": text.upper()})
        store.publish(Publication(kind=CommitKind.LOOKUP, lookups=(lookup,)))
        assert store.count_mentions((text,)) == {"messages of commits": 1, "lookups": 1}
        store.erase(erasure(store, texts=(text,)))
        assert store.count_mentions((text,)) == {"lookups": 1}

    def test_what_mentions_them_is_counted_wherever_it_is(self, store: Store) -> None:
        write_history(store)
        published = replace(append_of(segment("f", day(4))), writer="ada", batch="ada-2013")
        store.publish(replace(published, offsets={"0": "7"}, after={}))
        store.put_tag("ada", store.head().revision)
        store.put_settings({"note": "of Ada"})
        store.put_rules(DATASOURCE, "[]", author="me", comment="ada's")
        assert store.count_mentions(("ada",)) == {
            "names and details of commits": 1,
            "batches of writers": 1,
            "positions of writers": 1,
            "tags": 1,
            "settings": 1,
            "comments on rules": 1,
        }

    def test_thousands_of_texts_are_looked_for_at_once(self, store: Store) -> None:
        append(store, segment("a", day(1)))
        texts = [f"user{number}@example.org" for number in range(2_500)]
        where = f"mail IN ({', '.join(map(repr, texts))})"
        assert store.count_mentions((where, *texts)) == {}
        store.erase(erasure(store, texts=(where, *texts)))

    def test_bounds_of_range_partitions_hold_no_erased_text(self, store: Store) -> None:
        append(store, ranged("a", None, "ada"), ranged("b", "ada", "bob"), ranged("c", "bob", None))
        append(store, segment("d", day(2)))
        store.publish(replacement(store, day(2), kind=CommitKind.DELETE))
        assert store.count_mentions(("ada",)) == {"segments": 2}
        store.erase(erasure(store, instead_of(store, "d", None), texts=("ada",)))
        assert store.count_mentions(("ada",)) == {}
        kept = [store.find_segment(name) for name in "abc"]
        assert [one and one.partition is None for one in kept] == [True, True, False]
        assert store.check() == ()

    def test_bounds_are_kept_by_no_segment_of_a_time_chunk_that_had_such_rows(
        self, store: Store
    ) -> None:
        """They may be values of an erased row, whatever column the condition names."""
        append(store, ranged("a", None, 17), ranged("b", 17, None))
        append(store, ranged("c", None, 17, of=day(2)), ranged("d", 17, None, of=day(2)))
        store.publish(folding(store, ("b",), ranged("B", 17, None), kind=CommitKind.DELETE))
        spans = "2013-01-01T05/2013-01-01T06"
        assert not store.is_quoted(DATASOURCE, (), IntervalSet())
        assert store.is_quoted(DATASOURCE, (), days(spans))
        store.erase(erasure(store, instead_of(store, "b", "N"), spans=spans))
        assert not store.is_quoted(DATASOURCE, (), days(spans))
        kept = {name: store.find_segment(name) for name in "aBNcd"}
        assert [name for name, one in kept.items() if one and one.partition] == ["c", "d"]
        assert store.check() == ()

    def test_mentions_are_counted_as_texts_not_as_patterns(self, store: Store) -> None:
        append(store, segment("a", day(1)))
        deletion = replacement(store, day(1), kind=CommitKind.DELETE)
        store.publish(replace(deletion, message="delete where n LIKE 'x!y%z_'"))
        for text in ("x!y", "y%z", "z_'"):
            assert store.count_mentions((text,)) == {"messages of commits": 1}
        for text in ("x%y", "y_z", "z!_"):
            assert store.count_mentions((text,)) == {}
        assert store.count_mentions(()) == {}

    def test_a_record_counts_once_whatever_it_holds(self, store: Store) -> None:
        for number, message in enumerate(("ada", "ada and bob", "bob"), start=1):
            append(store, segment(f"s{number}", day(number)))
            deletion = replacement(store, day(number), kind=CommitKind.DELETE)
            store.publish(replace(deletion, message=message))
        assert store.count_mentions(("ada", "bob")) == {"messages of commits": 3}


def test_purging_keeps_everything(store: Store) -> None:
    write_history(store)
    before = histories(store)
    store.purge()
    append(store, segment("z", day(9)))
    assert histories(store)[:-1] == before
    assert store.check() == ()


def test_a_store_without_commits_has_nothing_to_search(store: Store) -> None:
    assert (store.oldest_revision(), store.unshown_segments(DATASOURCE)) == (0, [])
    assert store.erased_files() == ()
