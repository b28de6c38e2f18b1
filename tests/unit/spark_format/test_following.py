"""Following by the format: each appended row comes once, whatever rewrites, collects and restarts meanwhile."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from carnac.clock import RandomIds, SystemClock
from carnac.config import Settings
from carnac.errors import CarnacError, Invalid, NotFound
from carnac.metadata.sql import dialects
from carnac.spark_format.following import IDLE_REVISIONS, FollowingReader
from carnac.spark_format.source import CarnacSource
from carnac.store import Store
from tests.support.spark_format import frame, sent, source, write
from tests.support.stores import open_local_store
from tests.unit.spark_format.histories import START, random_interval
from tests.unit.store.events import fast_folder

FORGETFUL = Settings(
    retention_age_ms=0,
    retention_count=1,
    retention_daily=0,
    trash_period_ms=0,
    safety_period_ms=0,
)


@pytest.fixture
def store() -> Iterator[Store]:
    with (
        fast_folder() as folder,
        open_local_store(
            Path(folder), clock=SystemClock(), ids=RandomIds(), settings=FORGETFUL
        ) as opened,
    ):
        yield opened


class Query:
    """A streaming query as Spark runs it: its checkpoint outlives its process."""

    def __init__(self, store: Store, **options: object) -> None:
        self.made: tuple[CarnacSource, StructType] = frame(store, "events", **options)
        self.done: dict[str, Any] | None = None
        self.planned: dict[str, Any] | None = None
        self.given: Counter[int] = Counter()
        self.crashes = 0
        self.reader = self._started()

    def _started(self) -> FollowingReader:
        of, schema = self.made
        return sent(of).streamReader(schema)

    def restart(self, *, is_killed: bool = False) -> None:
        """Go on in another process, which hears nothing of the first."""
        if is_killed:
            self.crashes += 1
        else:
            self.reader.stop()
        self.reader = self._started()
        if self.done is None:
            return
        if self.planned is None:
            self.reader.latestOffset(self.done, ReadAllAvailable())
        else:
            self.reader.partitions(self.done, self.planned)

    def batch(self, *, dies: bool = False) -> list[int]:
        """Run a batch and return its rows; one that dies is run again by the next call."""
        begin = self.done or self.reader.initialOffset()
        self.done = begin
        limit: ReadLimit = self.reader.getDefaultReadLimit()
        end = self.planned or self.reader.latestOffset(begin, limit)
        if end == begin:
            return []
        self.planned = end
        read = sent(self.reader.read)
        rows = [
            row["n"]
            for one in self.reader.partitions(begin, end)
            for batch in read(sent(one))
            for row in batch.to_pylist()
        ]
        if dies:
            self.restart(is_killed=True)
            return []
        self.given.update(rows)
        self.reader.commit(end)
        self.done, self.planned = end, None
        return rows


class Rows:
    """Appends rows with a number of their own each."""

    def __init__(self, store: Store, rng: random.Random) -> None:
        self.store, self.rng = store, rng
        self.appended: list[int] = []

    def table(self) -> pa.Table:
        numbers = range(len(self.appended), len(self.appended) + self.rng.randint(1, 9))
        self.appended += numbers
        times = [START + timedelta(hours=self.rng.randrange(100)) for _ in numbers]
        return pa.table({"t": times, "n": pa.array(numbers, pa.int64())})

    def append(self) -> None:
        self.store.append("events", self.table())


LONG = pytest.mark.nightly("lives a hundred histories")


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(seed, marks=LONG) for seed in range(6, 100))]
)
def test_each_appended_row_comes_once(store: Store, seed: int) -> None:
    rng = random.Random(seed)
    rows = Rows(store, rng)
    rows.append()
    limits = {"maxRowsPerTrigger": rng.randint(1, 20)} if seed % 2 else {}
    query = Query(store, changes="skip", **limits)
    query.batch()
    for _ in range(40):
        what = rng.random()
        if what < 0.4:
            rows.append()
        elif what < 0.55:
            store.compact_interval("events")
        elif what < 0.6:
            store.delete("events", interval=random_interval(rng))
        elif what < 0.65:
            store.append("others", rows.store.sql("SELECT 1 AS n, now() AS t").arrow())
        elif what < 0.75:
            store.gc()
        elif what < 0.8:
            query.restart()
        else:
            query.batch(dies=rng.random() < 0.3)
    while query.batch():
        pass
    assert query.given == Counter(rows.appended)
    query.reader.stop()
    left = [one for one in store.leases() if "format carnac" in one.holder]
    assert len(left) <= query.crashes


def test_a_batch_has_no_more_rows_than_it_may_unless_a_commit_has(store: Store) -> None:
    rows = Rows(store, random.Random(1))
    rows.append()
    query = Query(store, maxRowsPerTrigger=9, startingRevision=1)
    for _ in range(10):
        rows.append()
    sizes = []
    while batch := query.batch():
        sizes.append(len(batch))
    assert max(sizes) <= 9
    assert query.given == Counter(rows.appended)


def test_a_query_begins_where_it_is_told(store: Store) -> None:
    rows = Rows(store, random.Random(1))
    counts = []
    for _ in range(3):
        rows.append()
        counts.append(len(rows.appended))
    assert sorted(Query(store).batch()) == rows.appended
    assert sorted(Query(store, startingRevision=1).batch()) == rows.appended
    assert sorted(Query(store, startingRevision=3).batch()) == rows.appended[counts[1] :]
    latest = Query(store, startingRevision="latest")
    assert latest.batch() == []
    rows.append()
    assert sorted(latest.batch()) == rows.appended[counts[2] :]


def test_what_is_there_at_first_is_what_is_visible(store: Store) -> None:
    rows = Rows(store, random.Random(1))
    rows.append()
    store.delete("events", interval=f"{START.isoformat()}/P9D")
    rows.append()
    first = len(rows.appended)
    query = Query(store)
    there = sorted(row["n"] for row in store.sql("SELECT n FROM events").rows())
    assert sorted(query.batch()) == there
    rows.append()
    assert sorted(query.batch()) == rows.appended[first:]


def test_commits_that_take_rows_back_end_a_query_that_has_not_said_more(store: Store) -> None:
    rows = Rows(store, random.Random(1))
    rows.append()
    query, skipping, adding = (
        Query(store, **more) for more in ({}, {"changes": "skip"}, {"changes": "added"})
    )
    for one in (query, skipping, adding):
        one.batch()
    first = len(rows.appended)
    rows.append()
    second = len(rows.appended)
    write(store, "events", rows.table(), is_overwrite=True, intervals="2024-01-01/P9D")
    third = len(rows.appended)
    rows.append()
    assert sorted(query.batch()) == rows.appended[first:second], "what is before it comes"
    with pytest.raises(Invalid, match=r"revision 3 \(replace\) takes back rows of events"):
        query.batch()
    assert sorted(skipping.batch()) == rows.appended[first:second] + rows.appended[third:]
    assert sorted(adding.batch()) == rows.appended[first:]


def test_a_replacement_of_nothing_is_an_append(store: Store) -> None:
    rows = Rows(store, random.Random(1))
    write(store, "events", rows.table(), is_overwrite=True)
    assert sorted(Query(store, startingRevision=1).batch()) == rows.appended


def test_what_is_kept_while_a_query_runs_is_missed_by_one_that_was_away(store: Store) -> None:
    rows = Rows(store, random.Random(1))
    rows.append()
    query = Query(store)
    query.batch()
    rows.append()
    store.compact_interval("events")
    store.gc()
    assert sorted(query.given + Counter(query.batch())) == rows.appended
    query.reader.stop()
    rows.append()
    rows.append()
    store._metadata.trim(keep=lambda heads: {heads[-1].revision}, dry_run=False)
    with pytest.raises(NotFound, match="would miss rows of events; begin again"):
        query.batch()


def test_a_query_is_told_of_a_restore(store: Store) -> None:
    rows = Rows(store, random.Random(1))
    rows.append()
    query = Query(store)
    query.batch()
    query.done = {"revision": 1}  # as an earlier version wrote it
    assert query.batch() == []
    query.done = {"revision": 2}
    with pytest.raises(NotFound, match="restored to a time before revision 2"):
        query.batch()
    rows.append()
    query.done = {"revision": 1}
    query.batch()
    other = dialects.statement("UPDATE commits SET at_ms = at_ms - 1")
    store._metadata._write(lambda session: session.run(other))
    rows.append()
    with pytest.raises(NotFound, match=r"restored to a time before revision 2.* new checkpoint"):
        query.batch()


def test_a_checkpoint_of_another_datasource_is_refused(store: Store) -> None:
    """Its revision says nothing of the rows that this one had before."""
    Rows(store, random.Random(1)).append()
    store.append("others", pa.table({"t": [START], "n": [1]}))
    query = Query(store)
    assert query.batch()
    other = frame(store, "others")
    reader = sent(other[0]).streamReader(other[1])
    with pytest.raises(
        Invalid, match="has followed events so far, and would miss the rows that others"
    ):
        reader.latestOffset(query.done, ReadAllAvailable())


def test_a_query_that_waits_at_the_newest_revision_keeps_what_is_to_come(store: Store) -> None:
    rows = Rows(store, random.Random(1))
    rows.append()
    query = Query(store)
    query.batch()
    query.restart()
    for _ in range(3):
        rows.append()
        store.compact_interval("events")
    store._leases.release_idle()
    store._metadata.trim(keep=lambda heads: {heads[-1].revision}, dry_run=False)
    query.batch()
    assert query.given == Counter(rows.appended)


def test_a_lease_is_renewed_after_the_clock_was_set_back(store: Store) -> None:
    Rows(store, random.Random(1)).append()
    query = Query(store)
    query.batch()
    held = query.reader._lease
    assert held is not None
    query.reader._lease = replace(held, expires_at_ms=held.expires_at_ms + 2 * held.ttl_ms)
    given = dialects.statement("UPDATE leases SET expires_at_ms = expires_at_ms + 2 * ttl_ms")
    store._metadata._write(lambda session: session.run(given))
    assert query.batch() == []
    assert "format carnac" in "".join(one.holder for one in store.leases())


def test_a_query_that_nothing_comes_to_lets_history_go(store: Store) -> None:
    rows = Rows(store, random.Random(1))
    rows.append()
    query = Query(store)
    query.batch()
    for number in range(IDLE_REVISIONS):
        store.set_lookup("names", {"a": str(number)})
    assert query.batch() == []
    assert query.done is not None
    assert query.done["revision"] == store.head().revision


def test_a_wider_type_is_told(store: Store) -> None:
    store.append("events", pa.table({"t": [START], "n": [1]}))
    query = Query(store)
    query.batch()
    store.append(
        "events",
        pa.table({"t": [START], "n": ["x"]}),
        spec='{"timestampSpec": {"column": "t"}, "dimensionsSpec": {"dimensions": ["n"]}}',
        allow_type_change=True,
    )
    with pytest.raises(Invalid, match="column 'n' of events is string now"):
        query.batch()


def test_a_query_of_what_is_there_ends(store: Store) -> None:
    rows = Rows(store, random.Random(1))
    rows.append()
    query = Query(store, startingRevision=1)
    query.reader.prepareForTriggerAvailableNow()
    rows.append()
    begin = query.reader.initialOffset()
    end = query.reader.latestOffset(begin, ReadAllAvailable())
    assert end["revision"] == 1
    assert query.reader.latestOffset(end, ReadAllAvailable()) == end


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"startingRevision": "soon"}, "startingRevision is a whole number"),
        ({"changes": "ignore"}, "option changes is refuse, skip or added, not 'ignore'"),
        ({"maxRowsPerTrigger": 0}, "maxRowsPerTrigger is a whole number"),
        ({"at": 1}, "a stream from carnac has no option 'at'"),
        ({"startingRevision": 9}, "there is no revision 9 yet; the newest is 1"),
    ],
)
def test_what_cannot_be_followed_is_told(
    store: Store, options: dict[str, object], sentence: str
) -> None:
    Rows(store, random.Random(1)).append()
    with pytest.raises(CarnacError) as caught:
        Query(store, **options).batch()
    assert sentence in caught.value.message
    with pytest.raises(CarnacError, match="there is no datasource"):
        source(store, "other").schema()
