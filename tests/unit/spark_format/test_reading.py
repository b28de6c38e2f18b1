"""Reading by the format: the rows of one revision, whatever happens meanwhile."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

import carnac
from carnac.errors import CarnacError
from carnac.ports import Lease
from carnac.spark_format.source import CarnacSource
from carnac.store import Store
from tests.nightly import IS_NIGHTLY
from tests.support.spark_format import (
    frame,
    read_frame,
    rows,
    sent,
    source,
    sql_rows,
)
from tests.unit.spark_format.histories import START, random_history, random_interval
from tests.unit.store.events import fast_folder


@pytest.fixture
def store() -> Iterator[Store]:
    with fast_folder() as folder, carnac.open(folder, create=True) as opened:
        yield opened


def leases(store: Store) -> list[Lease]:
    """Return the leases of the format."""
    return [one for one in store.leases() if "format carnac" in one.holder]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8 if IS_NIGHTLY else 4))
def test_every_revision_reads_as_sql_shows_it(store: Store, seed: int) -> None:
    rng = random.Random(seed)
    random_history(store, rng, 8)
    for revision in range(1, store.head().revision + 1):
        if "events" not in {one.name for one in store.datasources(at=revision)}:
            continue
        found, _ = read_frame(frame(store, "events", at=revision))
        assert rows(found) == rows(sql_rows(store, "events", revision)), revision
        within = random_interval(rng)
        found, _ = read_frame(frame(store, "events", at=revision, interval=within))
        start, end = within.split("/")
        expected = store.sql(
            f"SELECT count(*) AS n FROM events WHERE __time >= TIMESTAMPTZ '{start}'"
            f" AND __time < TIMESTAMPTZ '{end}'",
            at=revision,
        ).rows()
        assert found.num_rows == expected[0]["n"]


def test_an_interval_leaves_segments_out_and_small_ones_share_a_task(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in range(4):
        times = [START + timedelta(days=day, hours=hour) for hour in range(24)]
        store.append("events", pa.table({"t": times}))
    for task_bytes, shares in ((1 << 20, [2]), (1, [1, 1])):
        monkeypatch.setattr("carnac.spark_format.reading.TASK_BYTES", task_bytes)
        within = frame(store, "events", interval="2024-01-02T20/2024-01-03T02")
        found, partitions = read_frame(within)
        assert found.num_rows == 6
        assert [len(one.value) for one in partitions] == shares


def test_a_frame_keeps_its_revision_and_its_files(store: Store) -> None:
    store.append("events", pa.table({"t": [START], "n": [1]}))
    made = frame(store, "events")
    store.delete("events", interval="2024-01-01/P1D")
    store.append("events", pa.table({"t": [START], "n": [2]}))
    (lease,) = leases(store)
    assert lease.revision == 1
    assert lease.ttl_ms == 120 * 60_000
    store.gc()
    for _ in range(2):
        assert read_frame(made)[0]["n"].to_pylist() == [1]
    assert [one.lease_id for one in leases(store)] == [lease.lease_id]
    assert read_frame(frame(store, "events"))[0]["n"].to_pylist() == [2]


def test_some_columns_are_read_alone(store: Store) -> None:
    store.append("events", pa.table({"t": [START], "n": [1], "k": ["a"]}))
    found, _ = read_frame(frame(store, "events", columns="k, n"))
    assert found.column_names == ["n", "k"]
    assert found.to_pylist() == [{"n": 1, "k": "a"}]


@pytest.mark.parametrize(
    ("datasource", "options", "sentence"),
    [
        ("event", {}, "there is no datasource 'event'"),
        ("events", {"at": 7}, "there is no revision 7 yet"),
        ("events", {"at": "no-tag"}, "no-tag"),
        ("events", {"aat": 1}, "maxRowsPerTrigger; did you mean 'at'?"),
        ("events", {"store": "not/there"}, "there is no store at"),
        ("events", {"columns": "m"}, "has no column 'm'"),
        ("events", {"interval": "today"}, "'today' is not an interval"),
        ("events", {"leaseMinutes": "soon"}, "whole number from 1 to 1,440, not 'soon'"),
        ("", {}, "name the datasource"),
        ("events", {"provider": "carnac"}, "make a view: CREATE TEMPORARY VIEW edits USING carnac"),
        ("", {"paths": '["a", "b"]'}, "takes one datasource at a time; load each"),
    ],
)
def test_what_cannot_be_read_is_told(
    store: Store, datasource: str, options: dict[str, object], sentence: str
) -> None:
    store.append("events", pa.table({"t": [START], "n": [1]}))
    with pytest.raises(CarnacError) as caught:
        source(store, datasource, **options).schema()
    assert sentence in caught.value.message
    assert not any("format carnac" in one.holder for one in store.leases()), "no file is kept"


def test_a_schema_of_somebody_else_is_refused(store: Store) -> None:
    store.append("events", pa.table({"t": [START], "n": [1]}))
    _, schema = frame(store, "events")
    with pytest.raises(CarnacError, match="leave out"):
        sent(source(store, "events")).reader(schema)


def test_a_revision_that_is_not_kept_is_told(store: Store) -> None:
    store.append("events", pa.table({"t": [START], "n": [1]}))
    made = frame(store, "events")
    with pytest.raises(CarnacError, match="revision 1"):
        forget(store, made)


def forget(store: Store, made: tuple[CarnacSource, StructType]) -> None:
    """Release the lease of a frame, have its revision trimmed, and run the frame."""
    for lease in leases(store):
        store._metadata.release_lease(lease.lease_id)
    store.append("events", pa.table({"t": [START], "n": [2]}))
    store._metadata.trim(keep=lambda heads: {heads[-1].revision}, dry_run=False)
    read_frame(made)
