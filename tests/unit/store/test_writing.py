"""Writing through the store: idempotency, refusals, what is left behind when something fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from carnac.errors import Conflict, Invalid, NotFound, Unavailable
from carnac.store import Store
from tests.support.clock import FakeClock
from tests.support.faulty import Faults, unavailable
from tests.unit.store.conftest import OpenStore
from tests.unit.store.events import (
    TTL_MS,
    StampedPipeline,
    append,
    files_of,
    hour,
    ids,
    rows_of,
    spec,
)


class Counting(StampedPipeline):
    """Counts its jobs, and lets others work before each one returns."""

    jobs = 0
    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    def run_ingest(self, *args: Any, **more: Any) -> Any:
        self.jobs += 1
        result = super().run_ingest(*args, **more)
        self.meanwhile()
        return result

    def run_delete_where(self, *args: Any, **more: Any) -> Any:
        result = super().run_delete_where(*args, **more)
        self.meanwhile()
        return result


def pipeline_of(store: Store) -> Counting:
    found = store._pipeline()
    assert isinstance(found, Counting)
    return found


def test_a_spec_needs_no_input_where_rows_are_handed_over(open_store: OpenStore) -> None:
    store = open_store(pipeline=Counting)
    block = {"dataSource": "events", "timestampSpec": {"column": "t", "format": "millis"}}
    store.ingest(block, rows_of([(1, hour(1))]))
    store.ingest(json.dumps(block), rows_of([(2, hour(2))]))
    assert ids(store) == [1, 2]
    with pytest.raises(Invalid, match="input: is required"):
        store.ingest(block)


class TestIdempotency:
    def test_the_same_batch_is_published_once_and_runs_no_second_job(
        self, open_store: OpenStore, folder: Path, clock: FakeClock
    ) -> None:
        store = open_store(pipeline=Counting)
        batch = spec(writer="nightly", batch="2013-10-22")
        first = store.ingest(batch, rows_of([(1, hour(1))]))
        assert (first.revision, first.is_replay) == (1, False)
        again = store.ingest(batch, rows_of([(1, hour(1)), (2, hour(2))]))
        assert (again.revision, again.is_replay, again.report, again.segments_added) == (
            1,
            True,
            None,
            0,
        )
        elsewhere = spec("others", writer="nightly", batch="2013-10-22")
        assert store.ingest(elsewhere, rows_of([(3, hour(1))])).is_replay
        assert ids(store) == [1]
        assert [info.name for info in store.datasources()] == ["events"]
        assert (pipeline_of(store).jobs, len(files_of(folder))) == (1, 1)

    def test_also_when_its_commit_was_trimmed(
        self, open_store: OpenStore, clock: FakeClock
    ) -> None:
        store = open_store(pipeline=Counting)
        batch = spec(writer="nightly", batch="1")
        store.ingest(batch, rows_of([(1, hour(1))]))
        store.ingest(spec(mode="replace"), rows_of([(2, hour(1))]))
        clock.advance_ms(TTL_MS + 1)
        assert store.gc().revisions_trimmed == 1
        with pytest.raises(NotFound):
            store.show(1)
        again = store.ingest(batch, rows_of([(1, hour(1))]))
        assert (again.revision, again.is_replay) == (1, True)
        assert (ids(store), pipeline_of(store).jobs) == ([2], 2)

    def test_two_at_the_same_time_publish_once_and_the_loser_leaves_no_file(
        self, open_store: OpenStore, folder: Path
    ) -> None:
        slow, fast = open_store(pipeline=Counting), open_store()
        batch = spec(writer="nightly", batch="1")
        pipeline_of(slow).meanwhile = lambda: fast.ingest(batch, rows_of([(1, hour(1))]))
        outcome = slow.ingest(batch, rows_of([(1, hour(1))]))
        assert (outcome.revision, outcome.is_replay, outcome.segments_added) == (1, True, 0)
        assert ids(slow) == [1]
        assert len(files_of(folder)) == 1
        assert list(slow.verify()) == []

    def test_a_batch_without_rows_is_remembered_too(self, store: Store) -> None:
        batch = spec(writer="nightly", batch="empty")
        assert store.ingest(batch, []).revision == 1
        assert store.ingest(batch, rows_of([(1, hour(1))])).is_replay
        assert store.ingest(spec(), []).revision is None, "nothing to publish, nothing to remember"


class TestRefusals:
    def test_a_refused_replacement_names_the_commit_and_leaves_no_file(
        self, open_store: OpenStore, folder: Path
    ) -> None:
        slow, fast = open_store(pipeline=Counting), open_store()
        append(fast, (1, 1))
        before = files_of(folder)
        pipeline_of(slow).meanwhile = lambda: fast.delete(
            "events", interval="2013-10-22/2013-10-23"
        )
        with pytest.raises(Conflict, match=r"commit 2 changed segment \w+ of events"):
            slow.ingest(spec(mode="replace"), rows_of([(2, hour(1))]))
        assert files_of(folder) == before

    def test_so_does_a_refused_deletion_by_predicate(
        self, open_store: OpenStore, folder: Path
    ) -> None:
        slow, fast = open_store(pipeline=Counting), open_store()
        append(fast, (1, 1), (2, 2))
        before = files_of(folder)
        pipeline_of(slow).meanwhile = lambda: fast.delete(
            "events", interval="2013-10-22T02/2013-10-22T03"
        )
        with pytest.raises(Conflict, match="commit 2 changed segment"):
            slow.delete("events", where="id = 1")
        assert files_of(folder) == before
        assert ids(slow) == [1]

    def test_rows_appended_while_a_deletion_reads_stay(self, open_store: OpenStore) -> None:
        slow, fast = open_store(pipeline=Counting), open_store()
        append(fast, (1, 1), (2, 2))
        pipeline_of(slow).meanwhile = lambda: append(fast, (1, 3))
        outcome = slow.delete("events", where="id = 1")
        assert (outcome.rows_deleted, ids(slow)) == (1, [1, 2])

    def test_after_a_publish_that_may_have_happened_the_files_stay(
        self, open_store: OpenStore, folder: Path, clock: FakeClock
    ) -> None:
        """The database answered too late: the commit is there, and its files must be."""
        faults = Faults(unavailable)
        store = open_store(faults=faults)
        faults.arm(1, only=["publish"], after=True)
        with pytest.raises(Unavailable):
            append(store, (1, 1))
        assert ids(store) == [1]
        faults.arm(1, only=["publish"])
        with pytest.raises(Unavailable):
            append(store, (2, 1))
        assert ids(store) == [1]
        assert len(files_of(folder)) == 2, "nobody knew that this one was not published"
        clock.advance_ms(TTL_MS + 1)
        store.gc()
        assert len(files_of(folder)) == 1
        assert list(store.verify()) == []

    def test_a_published_write_succeeds_although_the_rest_fails(
        self, open_store: OpenStore
    ) -> None:
        """Whoever is told of a failure repeats the job, so nothing after the publish may fail it."""
        for method in ("release_lease", "put_settings"):
            faults = Faults(unavailable)
            store = open_store(faults=faults)
            pipeline = store._pipeline()
            run = pipeline.run_ingest

            def armed(*args: Any, **more: Any) -> Any:
                result = run(*args, **more)  # noqa: B023
                faults.arm(1, only=[method])  # noqa: B023
                return result

            pipeline.run_ingest = armed  # type: ignore[method-assign]
            revision = append(store, (1, 1), datasource=method)
            assert store.log()[0].revision == revision
            faults.disarm()

    def test_files_that_cannot_be_removed_do_not_hide_why(self, open_store: OpenStore) -> None:
        faults = Faults(unavailable)
        slow, fast = open_store(pipeline=Counting, faults=faults), open_store()
        append(fast, (1, 1))

        def others() -> None:
            fast.delete("events", interval="2013-10-22/2013-10-23")
            faults.arm(1, only=["delete"])

        pipeline_of(slow).meanwhile = others
        with pytest.raises(Conflict):
            slow.ingest(spec(mode="replace"), rows_of([(2, hour(1))]))


class TestDeletion:
    def test_of_nothing_publishes_nothing(self, store: Store) -> None:
        append(store, (1, 1))
        assert store.delete("events", interval="2014-01-01/2014-01-02").revision is None
        assert store.delete("events", where="id = 7").revision is None
        empty = store.delete("events", where="id = 7", interval="2014-01-01/2014-01-02")
        assert (empty.revision, empty.rows_deleted) == (None, 0)
        assert store.head().revision == 1

    def test_by_predicate_within_an_interval_touches_nothing_outside(self, store: Store) -> None:
        append(store, (1, 1), (2, 2), (3, 30), (4, 3))
        outcome = store.delete(
            "events", where="id > 0 -- all of them", interval="2013-10-22T02/2013-10-22T03"
        )
        assert (outcome.rows_deleted, ids(store)) == (1, [1, 3, 4])
        assert store.log()[0].message.startswith("delete where id > 0 -- all of them in 2013-10-22")

    def test_no_such_datasource(self, store: Store) -> None:
        with pytest.raises(NotFound, match="there is no datasource 'events'; there are none yet"):
            store.delete("events", interval="2013-10-22/2013-10-23")
        append(store, (1, 1))
        with pytest.raises(NotFound, match="there is no datasource 'evnts'; there are events"):
            store.delete("evnts", where="id = 1")

    def test_says_what_is_needed(self, store: Store) -> None:
        append(store, (1, 1))
        with pytest.raises(Invalid, match="say what to delete: an interval, a predicate, or both"):
            store.delete("events")

    def test_rows_that_stand_for_an_hour_are_not_cut(self, store: Store) -> None:
        append(store, (1, 1), (2, 2), query="hour")
        with pytest.raises(Invalid, match=r"granularity is HOUR; align it, .* 2013-10-22T01:00Z/"):
            store.delete("events", interval="2013-10-22T01:30/2013-10-22T03")
        store.delete("events", interval="2013-10-22T01/2013-10-22T02")
        assert ids(store) == [2]
        store.delete("events", interval="2013-10-23T00:30/2013-10-24")
        assert ids(store) == [2], "where nothing is, nothing is cut"


class TestCost:
    def test_an_ordinary_append_and_a_deletion_read_no_segment_they_do_not_touch(
        self, open_store: OpenStore
    ) -> None:
        """With a million live segments a scan of them all would be the cost of every write."""
        faults = Faults()
        store = open_store(faults=faults)
        append(store, *((number, number * 24) for number in range(5)))
        visible = store._metadata.visible
        asked: list[Any] = []

        def spied(name: str, **more: Any) -> Any:
            found = visible(name, **more)
            asked.append((more.get("intervals"), len(found)))
            return found

        store._metadata.visible = spied  # type: ignore[method-assign]
        append(store, (9, 1))
        assert asked == []
        store.delete("events", interval="2013-10-24/2013-10-25")
        store.ingest(spec(mode="replace"), rows_of([(10, hour(24 * 3))]))
        assert asked
        assert all(wanted is not None and found <= 2 for wanted, found in asked), asked

    def test_an_append_that_names_its_interval_reads_no_other_chunk(self, store: Store) -> None:
        append(store, *((number, number * 24) for number in range(5)))
        layouts = []
        pipeline = store._pipeline()
        run = pipeline.run_ingest

        def spied(spec: Any, layout: Any, **more: Any) -> Any:
            layouts.append([str(one)[:10] for one in layout.existing])
            return run(spec, layout, **more)

        pipeline.run_ingest = spied  # type: ignore[method-assign]
        append(store, (9, 25), granularity="month", intervals=["2013-10-23/2013-10-24"])
        append(store, (10, 49), intervals=["2013-10-24T00/2013-10-24T03"])
        assert layouts == [[f"2013-10-{day}" for day in range(22, 27)], ["2013-10-24"]]
        assert ids(store) == [0, 1, 2, 3, 4, 9, 10]
        assert [chunk.entries for chunk in store.chunks("events")] == [1, 2, 2, 1, 1]

    def test_late_rows_are_counted_against_the_newest_row(self, store: Store) -> None:
        append(store, (1, 50))
        outcome = store.ingest(spec(), rows_of([(2, hour(49)), (3, hour(50)), (4, hour(51))]))
        assert outcome.report is not None
        assert outcome.report.rows_late == 1
