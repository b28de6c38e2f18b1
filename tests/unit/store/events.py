"""What the tests of the store service share: rows that are an id and a time, specs for them, and reading them back."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from carnac.bootstrap.store import open_store
from carnac.config import Settings
from carnac.core.segments.segment import Segment
from carnac.deep_storage import open_deep_storage
from carnac.errors import CarnacError, NotFound
from carnac.ports import (
    ChunkLayout,
    Clock,
    DeepStorage,
    IdSource,
    JobResult,
    RewriteJob,
    RewriteResult,
    SegmentRewrite,
)
from carnac.specs.ingest.spec import IngestSpec
from carnac.specs.load import load_spec
from carnac.store import Store
from tests.support.pipeline import LocalPipeline

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
START_MS = 16_000 * DAY_MS
"""2013-10-22: the first hour that has rows."""
NOW_MS = 4_000_000_000_000
"""2096: later than every file that a test writes, so that a file is as old as a test says and no older."""
FOREVER_MS = 3 * 10**12
TTL_MS = 60_000
HASTY = Settings(
    retention_age_ms=0,
    retention_count=1,
    retention_daily=0,
    trash_period_ms=0,
    safety_period_ms=0,
    lease_ttl_ms=TTL_MS,
)
"""Garbage collection that waits for nothing."""

Rows = Counter[tuple[int, int]]


def fast_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder in memory where the machine has such: flushing files is not what these tests are about."""
    shared = Path("/dev/shm")
    return tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None)


def hour(number: int) -> int:
    """The time of a row in the `number`-th hour."""
    return START_MS + number * HOUR_MS + 1


def spec(datasource: str = "events", *, granularity: str = "day", **more: Any) -> IngestSpec:
    """A spec for rows with an id and a time; `intervals` and `query` go into its granularity."""
    block: dict[str, Any] = {
        "segmentGranularity": granularity,
        "queryGranularity": more.pop("query", "none"),
    }
    intervals = more.pop("intervals", ())
    if intervals:
        block["intervals"] = [str(one) for one in intervals]
    return load_spec(
        {
            "dataSource": datasource,
            "input": {"type": "frame", "frame": "arrow"},
            "timestampSpec": {"column": "t", "format": "millis"},
            "granularitySpec": block,
            **more,
        }
    )


def rows_of(pairs: Iterable[tuple[int, int]]) -> list[dict[str, Any]]:
    """Rows to ingest, of (id, time)."""
    return [{"id": identity, "t": at_ms} for identity, at_ms in pairs]


def append(store: Store, *pairs: tuple[int, int], datasource: str = "events", **more: Any) -> int:
    """Append rows, (id, hour) each; return the revision."""
    timed = rows_of((identity, hour(number)) for identity, number in pairs)
    revision = store.ingest(spec(datasource, **more), timed).revision
    assert revision is not None
    return revision


def read(store: Store, at: int | str | None = None, datasource: str = "events") -> Rows:
    """The rows of a revision, by SQL; none if it has no such datasource."""
    try:
        found = store.sql(f'SELECT id, epoch_ms(__time) AS t FROM "{datasource}"', at=at)
    except NotFound as error:
        if error.ids.get("datasource") != datasource:
            raise
        return Counter()
    return Counter((row["id"], row["t"]) for row in found.rows())


def ids(store: Store, at: int | str | None = None, datasource: str = "events") -> list[int]:
    """The ids of the rows of a revision, sorted."""
    return sorted(identity for identity, _ in read(store, at, datasource).elements())


def files_of(folder: Path) -> set[str]:
    """The paths of all files in the deep storage of a store in `folder`."""
    storage = open_deep_storage(str(folder / "deep-storage"))
    return {file.path for prefix in ("segments", "staging") for file in storage.list_files(prefix)}


def open_stamped(settings: Settings, *, clock: Clock, ids: IdSource) -> Store:
    """Make a store at the test's clock, whose files are as old as that says."""
    return open_store(
        create=True,
        settings=settings,
        clock=clock,
        ids=ids,
        pipeline=lambda root: StampedPipeline(root, clock=clock, ids=ids),
    )


class StampedPipeline(LocalPipeline):
    """A pipeline whose files are as old as the test's clock says, once it hands them over: until then they are ancient.

    Who has garbage collected beside it keeps files without a record: `FOREVER_MS` as the safety period.
    """

    def __init__(self, storage: DeepStorage, *, clock: Clock, ids: IdSource) -> None:
        super().__init__(storage, clock=clock, ids=ids)
        self._storage, self._clock = storage, clock

    def run_ingest(self, spec: IngestSpec, layout: ChunkLayout, **more: Any) -> JobResult:
        result = super().run_ingest(spec, layout, **more)
        self._stamp(result.segments)
        return result

    def run_delete_where(self, *args: Any, **more: Any) -> tuple[SegmentRewrite, ...]:
        rewrites = super().run_delete_where(*args, **more)
        self._stamp([segment for rewrite in rewrites for segment in rewrite.replacements])
        return rewrites

    def run_rewrites(
        self,
        jobs: Sequence[RewriteJob],
        *,
        on_end: Callable[[RewriteJob, RewriteResult | CarnacError], None],
        **more: Any,
    ) -> None:
        def stamp(job: RewriteJob, end: RewriteResult | CarnacError) -> None:
            if not isinstance(end, CarnacError):
                self._stamp(end.segments)
            on_end(job, end)

        super().run_rewrites(jobs, on_end=stamp, **more)

    def _stamp(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            place = self._storage.local_path(segment.path)
            assert place is not None
            os.utime(place, ns=(self._clock.now_ms() * 1_000_000,) * 2)
