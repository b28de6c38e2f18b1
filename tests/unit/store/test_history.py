"""Undoing, comparing, looking back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from carnac.core.time.intervals import Interval
from carnac.errors import Conflict, Invalid, NotFound
from carnac.store import Store
from tests.support.clock import FakeClock, SequentialIds
from tests.support.stores import open_local_store
from tests.unit.store.conftest import OpenStore
from tests.unit.store.events import (
    HASTY,
    HOUR_MS,
    NOW_MS,
    START_MS,
    TTL_MS,
    append,
    fast_folder,
    files_of,
    hour,
    ids,
    read,
    rows_of,
    spec,
)

times = st.lists(st.integers(0, 24 * 6), min_size=1, max_size=4)
spans = st.builds(
    lambda first, length: Interval(
        START_MS + first * HOUR_MS, START_MS + (first + length) * HOUR_MS
    ),
    st.integers(0, 24 * 6),
    st.sampled_from([2, 24, 72]),
)
writes = st.one_of(
    st.tuples(st.just("append"), times),
    st.tuples(st.just("replace"), st.tuples(spans, times)),
    st.tuples(st.just("delete"), spans),
    st.tuples(st.just("where"), st.integers(0, 2)),
)
STAYS = 500
"""The row that nothing deletes."""
appends = st.lists(st.tuples(times, st.sampled_from(["six_hour", "day", "month"])), max_size=3)


def write(store: Store, number: int, kind: str, what: object) -> int | None:
    """Do one thing with rows numbered from `number` thousand on; return the revision if it changed anything."""
    if kind == "append":
        assert isinstance(what, list)
        return append(store, *((1000 * number + n, at) for n, at in enumerate(what)))
    if kind == "replace":
        assert isinstance(what, tuple)
        span, at_hours = what
        rows = [(1000 * number + n, hour(at)) for n, at in enumerate(at_hours)]
        inside = rows_of(row for row in rows if span.holds(row[1]))
        return store.ingest(spec(mode="replace", intervals=[span]), inside).revision
    if kind == "delete":
        assert isinstance(what, Interval)
        return store.delete("events", interval=what).revision
    return store.delete("events", where=f"id % 3 = {what} AND id <> {STAYS}").revision


@settings(max_examples=max(2, settings().max_examples // 8))
@given(first=times, before=st.lists(writes, max_size=2), target=writes, later=appends)
def test_a_revert_after_later_appends_is_the_history_without_the_commit(
    first: list[int],
    before: list[tuple[str, object]],
    target: tuple[str, object],
    later: list[tuple[list[int], str]],
) -> None:
    results = []
    for is_reverted in (True, False):
        with fast_folder() as folder:
            clock, new_ids = FakeClock(NOW_MS), SequentialIds()
            with open_local_store(Path(folder), clock=clock, ids=new_ids, settings=HASTY) as store:
                append(store, *enumerate(first))
                append(store, (STAYS, 24 * 300))  # so that the datasource is never empty
                for number, (kind, what) in enumerate(before, start=1):
                    write(store, number, kind, what)
                revision = write(store, 8, *target) if is_reverted else None
                for number, (at_hours, granularity) in enumerate(later, start=20):
                    pairs = [(1000 * number + n, at) for n, at in enumerate(at_hours)]
                    append(store, *pairs, granularity=granularity)
                if revision is not None:
                    store.revert(revision)
                results.append(read(store))
                assert list(store.verify()) == []
    assert results[0] == results[1]


class TestRevert:
    def test_of_a_revert_brings_it_back(self, store: Store) -> None:
        append(store, (1, 1))
        append(store, (2, 2))
        store.revert(1)
        assert ids(store) == [2]
        store.revert(3)
        assert ids(store) == [1, 2]
        assert [str(line.kind) for line in store.log()] == ["revert", "revert", "append", "append"]

    def test_by_tag_and_by_time_names_the_commit(self, store: Store, clock: FakeClock) -> None:
        append(store, (1, 1))
        append(store, (2, 2))
        store.tag("bad")
        append(store, (3, 3))
        published = store.revert("bad")
        assert ids(store) == [1, 3]
        assert store.show(published.revision).message == "revert of commit 2"

    def test_names_the_commit_that_stands_in_the_way(self, store: Store) -> None:
        append(store, (1, 1))
        store.ingest(spec(mode="replace"), rows_of([(2, hour(1))]))
        stands = r"commit 2 changed segment \w+ of events, which commit 1 had brought; .*: carnac show 2$"
        with pytest.raises(Conflict, match=stands):
            store.revert(1)
        assert store.head().revision == 2

    def test_happens_once(self, store: Store) -> None:
        append(store, (1, 1))
        store.delete("events", interval="2013/2014")
        store.revert(2)
        with pytest.raises(Conflict, match=r"commit 3 .* reverted .*; see with: carnac show 3$"):
            store.revert(2)
        store.revert(1)
        with pytest.raises(Conflict, match=r"commit 4 changed .*; see with: carnac show 4$"):
            store.revert(1)
        assert store.head().revision == 4

    def test_of_what_was_trimmed_or_never_was(
        self, open_store: OpenStore, clock: FakeClock, folder: Path
    ) -> None:
        store = open_store()
        append(store, (1, 1))
        store.delete("events", interval="2013/2014")
        append(store, (2, 2))
        store.tag("deletion", at=2)
        clock.advance_ms(TTL_MS + 1)
        store.gc()
        with pytest.raises(NotFound, match="revision 1 was trimmed"):
            store.revert(1)
        with pytest.raises(NotFound, match="there is no revision 9 yet"):
            store.revert(9)
        with pytest.raises(NotFound, match="commit 2 cannot be reverted: the history before it"):
            store.revert("deletion")
        assert ids(store) == [2]
        assert len(files_of(folder)) == 1

    def test_of_what_is_in_the_trash(self, open_store: OpenStore, clock: FakeClock) -> None:
        store = open_store(settings={"trash_period_ms": 1000})
        append(store, (1, 1))
        store.delete("events", interval="2013/2014")
        clock.advance_ms(TTL_MS + 1)
        store.gc()
        with pytest.raises(NotFound, match="cannot come back into sight: its history was trimmed"):
            store.revert(2)


class TestDiff:
    def test_says_what_came_and_what_went(self, store: Store) -> None:
        append(store, (1, 1), (2, 30))
        append(store, (3, 2), datasource="others")
        store.ingest(spec(mode="replace"), rows_of([(4, hour(1)), (5, hour(2))]))
        before, after, (found,) = store.diff(2)
        assert (before.revision, after.revision, found.datasource) == (2, 3, "events")
        assert (len(found.added), len(found.removed)) == (1, 1)
        assert (found.rows_added, found.rows_removed) == (2, 1)
        assert found.interval == Interval(hour(1), hour(2) + 1)
        assert store.diff(3)[2] == ()

    def test_a_clip_takes_something_out_of_a_segment_that_stays(self, store: Store) -> None:
        append(store, (1, 1), (2, 5))
        store.delete("events", interval="2013-10-22T04/2013-10-22T06")
        (found,) = store.diff(1, 2)[2]
        assert (found.added, len(found.removed)) == ((), 1)
        assert (found.rows_added, found.rows_removed) == (0, 0), "whole segments are counted"
        (back,) = store.diff(2, 1)[2]
        assert (len(back.added), back.removed) == (1, ())

    def test_of_a_datasource_that_comes_or_goes(self, store: Store) -> None:
        append(store, (1, 1))
        append(store, (2, 1), datasource="others")
        store.delete("events", interval="2013/2014")
        assert [one.datasource for one in store.diff(0, 2)[2]] == ["events", "others"]
        assert [one.rows_removed for one in store.diff(1, 3)[2]] == [1, 0]
        assert store.diff(1, 1)[2] == ()

    def test_costs_what_was_changed_and_says_the_same_as_comparing_everything(
        self, store: Store, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        append(store, *((number, 24 * number) for number in range(12)))
        append(store, (20, 30))
        store.delete("events", interval="2013-10-24/2013-10-25")
        store.ingest(spec(mode="replace"), rows_of([(21, hour(24 * 5))]))
        store.revert(3)
        visible = store._metadata.visible
        loaded: list[int] = []

        def spied(*args: Any, **more: Any) -> Any:
            found = visible(*args, **more)
            loaded.append(len(found))
            return found

        store._metadata.visible = spied  # type: ignore[method-assign]
        pairs = [(first, second) for first in range(1, 6) for second in range(1, 6)]
        by_changes = [store.diff(*pair)[2] for pair in pairs]
        loaded.clear()
        store.diff(2, 3)
        assert loaded == [1, 0]
        monkeypatch.setattr("carnac.store.history.DIFF_COMMITS_MAX", -1)
        assert [store.diff(*pair)[2] for pair in pairs] == by_changes


def test_changes_tell_a_follower_everything(store: Store, clock: FakeClock) -> None:
    append(store, (1, 1))
    append(store, (2, 2))
    store.ingest(spec(mode="replace"), rows_of([(3, hour(1))]))
    assert [commit.revision for commit in store.changes(after=1)] == [2, 3]
    assert [commit.revision for commit in store.changes(after=0, limit=2)] == [1, 2]
    clock.advance_ms(TTL_MS + 1)
    store.gc()
    with pytest.raises(NotFound, match="not whole any more"):
        store.changes(after=0)


@pytest.mark.parametrize("mapping", [{"x": 1}, {1: "x"}, {"x": None}, {"x": b"y"}])
def test_a_lookup_of_other_things_than_texts_is_refused(
    open_store: OpenStore, mapping: Any
) -> None:
    store = open_store()
    store.set_lookup("good", {"k": "v"})
    with pytest.raises(Invalid, match="lookup 'bad' maps texts to texts"):
        store.set_lookup("bad", mapping)
    assert store.head().revision == 1
    assert store.lookups() == {"good": {"k": "v"}}


@pytest.mark.parametrize("at", [1.0, True, b"1", object()])
def test_a_revision_of_another_type_is_refused(open_store: OpenStore, at: Any) -> None:
    store = open_store()
    with pytest.raises(Invalid, match=r"\(at=…\) takes a revision, a time or the name of a tag"):
        store.resolve(at)
