"""Reading through the store: revisions, times and tags, leases, joins, schemas that evolved, clips, lookups."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest

from carnac.core.log.commits import Publication
from carnac.core.time.intervals import IntervalSet, format_ms
from carnac.errors import Conflict, Invalid, NotFound, Unavailable
from carnac.ports import Published
from carnac.store import Store
from carnac.store.querying import RevisionCatalog
from tests.support.clock import FakeClock
from tests.unit.store.conftest import OpenStore
from tests.unit.store.events import TTL_MS, append, hour, ids, spec


class TestAt:
    @pytest.fixture
    def store(self, open_store: OpenStore, clock: FakeClock) -> Store:
        """Revision n was published n minutes after the store was made, and has the rows 1 to n."""
        opened = open_store()
        self.created_ms = clock.now_ms()
        for number in (1, 2, 3):
            clock.advance_ms(60_000)
            append(opened, (number, number))
        opened.tag("second", at=2)
        return opened

    @pytest.mark.parametrize(
        ("at", "expected"),
        [
            (None, [1, 2, 3]),
            (3, [1, 2, 3]),
            ("2", [1, 2]),
            (1, [1]),
            (0, []),
            ("second", [1, 2]),
        ],
    )
    def test_a_revision_or_a_tag(
        self, store: Store, at: int | str | None, expected: list[int]
    ) -> None:
        assert ids(store, at) == expected
        assert [info.rows for info in store.datasources(at=at)] == [len(expected)][: len(expected)]

    @pytest.mark.parametrize(
        ("after_ms", "expected"),
        [(0, []), (59_999, []), (60_000, [1]), (179_999, [1, 2]), (10**9, [1, 2, 3])],
    )
    def test_a_time(self, store: Store, after_ms: int, expected: list[int]) -> None:
        assert ids(store, format_ms(self.created_ms + after_ms)) == expected

    def test_what_was_read_of_a_revision_is_read_once(self, store: Store) -> None:
        """And is that of no other one, nor of another store."""
        metadata = store._metadata

        def read(revision: int) -> list[object]:
            catalog = RevisionCatalog(metadata, revision)
            seen = (catalog.visible("events", some) for some in (None, IntervalSet()))
            names, columns = catalog.datasource_names(), catalog.columns("events")
            return [*seen, names, columns, catalog.count_segments("events"), catalog.lookups()]

        before = [read(revision) for revision in (3, 2)]
        assert before[0] != before[1]
        store.close()
        assert [read(revision) for revision in (3, 2)] == before
        with pytest.raises(Unavailable):
            read(1)

    def test_what_is_not_there_says_what_is(self, store: Store, clock: FakeClock) -> None:
        with pytest.raises(NotFound, match="there is no revision 4 yet; the newest is 3"):
            store.sql("SELECT 1", at=4)
        with pytest.raises(
            NotFound, match=r"'first' is neither .*, nor a tag, .*; the tags are 'second'$"
        ):
            store.sql("SELECT 1", at="first")
        for far in (str(2**63), "9" * 5_000):
            with pytest.raises(Invalid, match=r"revision 9.* is out of range; the largest is 92"):
                store.sql("SELECT 1", at=far)
        assert store.sql("SELECT 1", at=f"{'0' * 30}3").revision == 3
        with pytest.raises(NotFound, match="the store was created at"):
            store.sql("SELECT 1", at=format_ms(self.created_ms - 1))

    def test_what_was_trimmed_says_what_is_left(self, store: Store, clock: FakeClock) -> None:
        clock.advance_ms(TTL_MS + 1)
        store.gc()
        with pytest.raises(NotFound, match="revision 1 was trimmed; the nearest retained are 2"):
            ids(store, 1)
        assert ids(store, "second") == [1, 2]
        with pytest.raises(NotFound, match="oldest retained revision is 2"):
            ids(store, format_ms(self.created_ms + 60_000))

    def test_one_query_reads_one_revision_while_others_publish(
        self, store: Store, open_store: OpenStore
    ) -> None:
        other, engine = open_store(), store._engine()
        run = engine.run_query

        def overtaken(*args: object, **more: object) -> object:
            append(other, (4, 4))
            return run(*args, **more)  # type: ignore[arg-type]

        engine.run_query = overtaken  # type: ignore[method-assign, assignment]
        result = store.sql("SELECT id FROM events")
        assert (result.revision, len(result)) == (3, 3)

    def test_a_query_holds_a_lease_that_ends_with_the_store(
        self, store: Store, open_store: OpenStore
    ) -> None:
        watcher, reader = open_store(), open_store()
        store._leases.release_idle()
        assert ids(reader, 2) == [1, 2]
        (lease,) = watcher.leases()
        assert (lease.revision, lease.holder) == (2, "test")
        ids(reader, 3)
        assert watcher.leases() == (lease,), "queries that follow share it"
        reader.close()
        assert watcher.leases() == ()


class TestTables:
    def test_a_join_reads_both_at_one_revision(self, store: Store) -> None:
        append(store, (1, 1), (2, 2))
        append(store, (1, 1), datasource="others")
        append(store, (2, 2), datasource="others")
        sql = "SELECT e.id FROM events AS e JOIN others AS o USING (id) ORDER BY id"
        assert [row["id"] for row in store.sql(sql).rows()] == [1, 2]
        assert [row["id"] for row in store.sql(sql, at=2).rows()] == [1]
        with pytest.raises(NotFound, match="others"):
            store.sql(sql, at=1)

    def test_a_datasource_that_was_emptied_is_gone_now_and_there_before(self, store: Store) -> None:
        append(store, (1, 1))
        store.delete("events", interval="2013/2014")
        with pytest.raises(NotFound, match="there is no datasource 'events'"):
            store.sql("SELECT id FROM events")
        assert store.sql("SELECT id FROM events", at=1).rows() == [{"id": 1}]
        assert store.datasources() == ()
        with pytest.raises(NotFound, match="there is no datasource 'events'; there are none yet"):
            store.chunks("events")

    def test_clips_hide_rows_also_of_a_segment_that_is_cut_twice(self, store: Store) -> None:
        append(store, *((number, number) for number in range(10)))
        store.delete("events", interval="2013-10-22T02/2013-10-22T04")
        store.delete("events", interval="2013-10-22T06/2013-10-22T07")
        assert ids(store) == [0, 1, 4, 5, 7, 8, 9]
        assert ids(store, 2) == [0, 1, 4, 5, 6, 7, 8, 9]
        (item,) = store.segments("events")
        assert len(item.entry.visible) == 3
        result = store.sql(
            "SELECT count(*) AS n FROM events WHERE __time >= '2013-10-22 02:00' AND __time < '2013-10-22 04:00'"
        )
        assert (result.rows(), result.segments_read) == ([{"n": 0}], 0)

    def test_segments_and_their_numbers_are_pruned_by_interval(self, store: Store) -> None:
        append(store, (1, 1), (2, 25), (3, 49))
        (found,) = store.segments("events", interval="2013-10-23/2013-10-24")
        assert found.segment.min_time_ms == hour(25)
        result = store.sql("SELECT id FROM events WHERE __time >= '2013-10-24'")
        assert (result.rows(), result.segments_total, result.segments_read) == ([{"id": 3}], 3, 1)


class TestSchemas:
    @pytest.fixture
    def store(self, open_store: OpenStore) -> Store:
        """A column that came, one that went, one that was widened twice."""
        opened = open_store()
        shapes = [
            {"old": "string", "size": "long"},
            {"new": "string", "size": "double"},
            {"new": "string", "size": "string"},
        ]
        rows = [
            {"t": hour(1), "old": "a", "size": 1},
            {"t": hour(2), "new": "b", "size": 2.5},
            {"t": hour(3), "new": "c", "size": "big"},
        ]
        for types, row in zip(shapes, rows, strict=True):
            dimensions = [{"name": name, "type": kind} for name, kind in types.items()]
            allowed = {"allowTypeChange": True}
            opened.ingest(spec(dimensionsSpec=dimensions, tuningConfig=allowed), [row])
        return opened

    def test_are_united_by_name_and_widened(self, store: Store) -> None:
        sql = "SELECT old, size, new FROM events ORDER BY __time"
        assert store.sql(sql).rows() == [
            {"old": "a", "size": "1", "new": None},
            {"old": None, "size": "2.5", "new": "b"},
            {"old": None, "size": "big", "new": "c"},
        ]

    def test_are_those_of_the_revision(self, store: Store) -> None:
        assert store.sql("SELECT size FROM events ORDER BY 1", at=2).rows() == [
            {"size": 1.0},
            {"size": 2.5},
        ]
        assert store.sql("SELECT * FROM events", at=1).arrow().column_names == [
            "__time",
            "old",
            "size",
        ]
        with pytest.raises(NotFound, match="there is no column 'new'"):
            store.sql("SELECT new FROM events", at=1)

    def test_a_predicate_sees_the_united_ones(self, store: Store) -> None:
        outcome = store.delete("events", where="new IS NULL OR size = '2.5'")
        assert outcome.rows_deleted == 2
        assert store.sql("SELECT size FROM events").rows() == [{"size": "big"}]
        store.revert(outcome.revision or 0)
        assert len(store.sql("SELECT size FROM events")) == 3


class TestLookups:
    SQL = "SELECT l.v FROM events JOIN lookup.countries AS l ON l.k = CAST(id AS VARCHAR)"

    def test_are_versioned_with_the_data(self, store: Store) -> None:
        append(store, (1, 1))
        store.set_lookup("countries", {"1": "Gaul"})
        store.set_lookup("countries", {"1": "France"})
        store.set_lookup("countries", None)
        assert [store.sql(self.SQL, at=at).rows()[0]["v"] for at in (2, 3)] == ["Gaul", "France"]
        for at in (1, 4):
            with pytest.raises(NotFound, match="countries"):
                store.sql(self.SQL, at=at)
        assert [dict(store.lookups(at=at)) for at in (1, 2, 4)] == [
            {},
            {"countries": {"1": "Gaul"}},
            {},
        ]

    def test_a_revert_brings_the_one_before_back(self, store: Store) -> None:
        store.set_lookup("countries", {"1": "Gaul"})
        store.set_lookup("countries", {"1": "France"})
        store.revert(2)
        assert store.lookups() == {"countries": {"1": "Gaul"}}
        store.revert(3)
        assert store.lookups() == {"countries": {"1": "France"}}

    def test_a_revert_of_what_was_changed_again_is_refused(self, store: Store) -> None:
        store.set_lookup("countries", {"1": "Gaul"})
        store.set_lookup("countries", {"1": "France"})
        with pytest.raises(Conflict, match="commit 2 set lookup 'countries' again; nothing"):
            store.revert(1)
        assert store.head().revision == 2
        store.set_lookup("countries", None)
        with pytest.raises(Conflict, match="a later commit removed lookup 'countries' again"):
            store.revert(2)
        store.revert(3)
        assert store.lookups() == {"countries": {"1": "France"}}

    def test_whoever_sets_it_while_it_is_reverted_wins(
        self, store: Store, open_store: OpenStore
    ) -> None:
        """The check is part of the publish: nothing that was set meanwhile is lost."""
        other = open_store()
        store.set_lookup("countries", {"1": "Gaul"})
        metadata = store._metadata
        publish = metadata.publish

        def overtaken(publication: Publication) -> Published:
            other.set_lookup("countries", {"1": "France"})
            return publish(publication)

        metadata.publish = overtaken  # type: ignore[method-assign]
        with pytest.raises(Conflict, match="commit 2 set lookup 'countries' again"):
            store.revert(1)
        assert store.lookups() == {"countries": {"1": "France"}}

    def test_removing_what_is_not_there_is_refused(self, store: Store) -> None:
        with pytest.raises(NotFound, match="there is no lookup 'countries'"):
            store.set_lookup("countries", None)

    def test_asking_for_one_where_there_are_none_says_how_to_make_it(self, store: Store) -> None:
        with pytest.raises(NotFound, match="make it with carnac lookups set countries FILE"):
            store.sql("SELECT * FROM lookup.countries")


class TestShapesOfResults:
    def test_arrow_pandas_polars_rows(self, store: Store) -> None:
        append(store, (1, 1), (2, 2))
        result = store.sql("SELECT id, __time FROM events WHERE id > ? ORDER BY id", parameters=[0])
        assert result.arrow().column("id").to_pylist() == [1, 2]
        assert list(result.pandas()["id"]) == [1, 2]
        assert result.polars()["id"].to_list() == [1, 2]
        assert [row["id"] for row in result.rows()] == [1, 2]
        assert result.rows()[0]["__time"].timestamp() * 1000 == hour(1)  # type: ignore[attr-defined]

    def test_writes_are_refused(self, store: Store) -> None:
        append(store, (1, 1))
        with pytest.raises(Invalid):
            store.sql("DELETE FROM events")
        with pytest.raises(Invalid):
            store.sql("SELECT * FROM read_parquet('/etc/passwd')")


@pytest.mark.parametrize(
    "read",
    [
        lambda store, at: store.sql("SELECT count(*) AS n FROM events", at=at).revision,
        lambda store, at: store.resolve(at).revision,
        lambda store, at: store.show(at).revision,
        lambda store, at: store.diff(at)[0].revision,
        lambda store, at: store.late("events", at=at).revision,
        lambda store, at: store.tag("then", at=at).revision,
        lambda store, at: max(one.entry.added_revision for one in store.segments("events", at=at)),
        lambda store, at: store.datasources(at=at)[0].revision,
        lambda store, at: len(store.columns("events", at=at)),
        lambda store, at: 1 + len(store.lookups(at=at)),
        lambda store, at: store.export("SELECT 1 AS n", io.BytesIO(), format="csv", at=at).revision,
        lambda store, at: store.revert(at).revision - 2,
    ],
)
def test_at_takes_a_datetime_that_has_a_zone_wherever_at_is_taken(
    store: Store, clock: FakeClock, read: Callable[[Store, datetime], int]
) -> None:
    append(store, (1, 0))
    clock.advance_ms(10_000)
    append(store, (2, 0))
    first = store.show(1).at_ms
    zone = timezone(timedelta(hours=5, minutes=30))
    at = datetime.fromtimestamp(first / 1000, tz=UTC).astimezone(zone) + timedelta(seconds=1)
    assert read(store, at) == 1
    naive = at.replace(tzinfo=None)
    with pytest.raises(Invalid, match=r"has no time zone.*at\.replace\(tzinfo=timezone\.utc\)"):
        read(store, naive)


def test_a_datetime_before_all_years_is_refused(store: Store) -> None:
    with pytest.raises(Invalid, match="outside years 1 to 9999"):
        store.resolve(datetime.min.replace(tzinfo=timezone(timedelta(hours=14))))
