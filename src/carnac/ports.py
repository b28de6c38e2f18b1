"""What the shell must offer: protocols between services and adapters.

Every adapter of a port, and its in-memory fake, passes the one behaviour suite of that port in `tests/contract/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from carnac.core.commits import Commit, CommitSummary, Publication
from carnac.core.entries import Chunk, VisibleSegment
from carnac.core.intervals import Interval, IntervalSet
from carnac.core.segments import ColumnType, Segment

if TYPE_CHECKING:
    from carnac.specs.ingest import IngestSpec


class Clock(Protocol):
    """Where time comes from."""

    def now_ms(self) -> int:
        """Return epoch milliseconds, UTC. May repeat, and may step back a little."""
        ...

    def sleep_ms(self, duration_ms: int) -> None:
        """Wait for that long."""
        ...


class IdSource(Protocol):
    """Where ids come from."""

    def new_id(self) -> str:
        """Return an id never returned before: lower-case letters and digits, safe in file names."""
        ...


# ---------------------------------------------------------------------------------------------- metadata store


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The newest revision; 0 and the store's creation time before the first commit."""

    revision: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Outcome of a publish.

    Attributes:
        is_replay: The `(writer, batch)` had been published before; `revision` is that first commit's, and nothing was
            changed. Its commit may have been trimmed since.
        commit: None on a replay.
    """

    revision: int
    at_ms: int
    is_replay: bool
    commit: Commit | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A name for a revision; the revision stays readable while the tag exists."""

    name: str
    revision: int
    created_at_ms: int


class LeaseKind(StrEnum):
    """What a lease protects: revisions that are read, or files that are being written."""

    READER = "reader"
    WRITER = "writer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A promise of the store that ends by itself.

    Attributes:
        revision: Reader: every revision from this one on stays readable. Writer: the base revision.
        holder: Who, for people: host, process, command.
        expires_at_ms: After this instant the lease counts as gone.
    """

    lease_id: str
    kind: LeaseKind
    revision: int
    holder: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashedSegment:
    """A segment that no retained revision names, waiting for its file to be deleted."""

    segment: Segment
    trashed_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasourceInfo:
    """A datasource at a revision, in numbers."""

    name: str
    segments: int
    chunks: int
    rows: int
    size_bytes: int
    interval: Interval | None
    revision: int


class MetadataStore(Protocol):
    """The log and what is derived from it. Safe for use by many threads and processes at once.

    Errors, besides those named: Unavailable when the database does not answer; Corrupt when a record is not readable.
    """

    def close(self) -> None:
        """Release connections. Idempotent."""
        ...

    def settings(self) -> Mapping[str, str]:
        """Return the store's own settings (for example `deep_storage`)."""
        ...

    def put_settings(self, settings: Mapping[str, str]) -> None:
        """Add or overwrite settings."""
        ...

    def head(self) -> Head:
        """Return the newest revision."""
        ...

    def publish(self, publication: Publication) -> Published:
        """Publish in one transaction, or change nothing.

        Raises:
            Conflict: A requirement does not hold; names the commit in the way.
            Invalid: The publication contradicts itself.
            Revoked: Its lease is gone.
        """
        ...

    def find_batch(self, writer: str, batch: str) -> int | None:
        """Return the revision under which the batch was published; None if it was not."""
        ...

    def resolve(self, at: int | str | None) -> Head:
        """Return the retained revision that `at` means.

        Args:
            at: None: the newest. An int or a string of digits: that revision. A tag's name. Else a time as
                `parse_instant` takes it: the last revision published at or before it.

        Raises:
            NotFound: No such revision, tag or commit, or it has been trimmed; says what there is.
        """
        ...

    def datasources(self, revision: int | None = None) -> tuple[DatasourceInfo, ...]:
        """Return the datasources that have visible segments at the revision, by name."""
        ...

    def chunks(
        self, datasource: str, *, interval: Interval | None = None
    ) -> tuple[Chunk, ...]:
        """Return the live chunks that overlap `interval` (None: all), in order of time."""
        ...

    def visible(
        self, datasource: str, *, revision: int | None = None, intervals: IntervalSet | None = None
    ) -> Sequence[VisibleSegment]:
        """Return the entries visible at the revision, with their segments, in order of chunk and partition id.

        Args:
            revision: Must be retained; None is the newest.
            intervals: Only entries whose visible instants overlap these; None: all.
        """
        ...

    def changes(self, *, after: int, limit: int = 1000) -> tuple[Commit, ...]:
        """Return the commits after revision `after`, oldest first, whole.

        Raises:
            NotFound: A commit after `after` has been trimmed, so the changes are no longer whole: start anew.
        """
        ...

    def log(
        self, *, datasource: str | None = None, before: int | None = None, limit: int = 50
    ) -> tuple[CommitSummary, ...]:
        """Return the newest commits (before revision `before`), newest first."""
        ...

    def commit(self, revision: int) -> Commit:
        """Return one commit, whole.

        Raises:
            NotFound: No such commit, or trimmed.
        """
        ...

    def find_segment(self, segment_id: str) -> Segment | None:
        """Return a segment's record; None if the store does not know it."""
        ...

    def lookups(self, revision: int | None = None) -> Mapping[str, Mapping[str, str]]:
        """Return the lookups at the revision, by name."""
        ...

    # tags and leases

    def put_tag(self, name: str, revision: int) -> Tag:
        """Name a retained revision; moves the tag if it exists."""
        ...

    def remove_tag(self, name: str) -> None:
        """Remove a tag.

        Raises:
            NotFound: There is no such tag.
        """
        ...

    def tags(self) -> tuple[Tag, ...]:
        """Return all tags by name."""
        ...

    def acquire_lease(self, kind: LeaseKind, *, holder: str, ttl_ms: int, revision: int | None = None) -> Lease:
        """Return a new lease on `revision` (None: the newest) and later ones."""
        ...

    def renew_lease(self, lease_id: str, *, ttl_ms: int, revision: int | None = None) -> Lease:
        """Prolong a lease, and move it to a newer revision if one is given.

        Raises:
            Revoked: It has expired or was released.
        """
        ...

    def release_lease(self, lease_id: str) -> None:
        """End a lease. Idempotent."""
        ...

    def leases(self) -> tuple[Lease, ...]:
        """Return the leases that have not expired."""
        ...

    # retention and garbage collection

    def trim(self, *, keep: Callable[[Sequence[Head]], set[int]], dry_run: bool) -> TrimReport:
        """Forget revisions that are not kept, and mark as trash the segments that only they named.

        The newest revision, tagged revisions, and those from the oldest live reader lease on are always kept.

        Args:
            keep: Given all retained revisions, oldest first, returns those that the retention rules keep.
        """
        ...

    def trashed(self) -> tuple[TrashedSegment, ...]:
        """Return the segments in the trash."""
        ...

    def forget_segments(self, segment_ids: Iterable[str]) -> None:
        """Remove the records of trashed segments whose files are deleted."""
        ...

    def known_paths(self) -> frozenset[str]:
        """Return the paths of all segments that have a record, trash included."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimReport:
    """What a trim did, or would do.

    Attributes:
        trashed: Segments newly in the trash.
        reasons: For each retained, non-visible segment id: why it stays (for example `tag 'v1' at revision 7`).
    """

    revisions_kept: int
    revisions_trimmed: int
    oldest_revision: int
    trashed: tuple[Segment, ...]
    reasons: Mapping[str, str] = field(default_factory=dict)


# ------------------------------------------------------------------------------------------------ deep storage


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file in deep storage."""

    path: str
    size_bytes: int
    modified_at_ms: int


class DeepStorage(Protocol):
    """Where segment files live. Paths are relative to the root and `/`-separated."""

    @property
    def url(self) -> str:
        """The root as a URL that executors can open with fsspec (`file:///…`, `s3://…`)."""
        ...

    def list_files(self, prefix: str) -> Iterable[StoredFile]:
        """Yield the files below the folder `prefix`, in order of path."""
        ...

    def find_file(self, path: str) -> StoredFile | None:
        """Return a file's size and time; None if there is none."""
        ...

    def open_read(self, path: str) -> BinaryIO:
        """Open for reading.

        Raises:
            NotFound: There is no such file.
        """
        ...

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file, durably: it is there wholly or not at all."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file. Idempotent."""
        ...

    def local_path(self, path: str) -> Path | None:
        """Return where the file is on this machine; None if it is not on it."""
        ...

    def free_bytes(self) -> int | None:
        """Return the free space; None if there is no such limit."""
        ...


# ---------------------------------------------------------------------------------------------- data pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkLayout:
    """Into which time chunks a job cuts its rows.

    Attributes:
        segment_granularity: Canonical text; rows go to its buckets where no chunk is.
        existing: Live chunks that win over the buckets (empty for a replacement, which takes over).
        within: A replacement writes only rows inside these instants; rows outside are rejected. None: anywhere.
    """

    segment_granularity: str
    existing: tuple[Interval, ...] = ()
    within: IntervalSet | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentInput:
    """A segment to be read, and which of its instants are visible."""

    segment: Segment
    visible: IntervalSet


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRows:
    """Rows that could not be parsed: how many for each reason, and where they are kept.

    Attributes:
        by_reason: Count by reason, largest first.
        path: Folder in deep storage with the rejected rows (Parquet: file, line, byte_offset, raw, reason); None if
            there are none.
        examples: A few of them, for the report.
    """

    count: int = 0
    by_reason: Mapping[str, int] = field(default_factory=dict)
    path: str | None = None
    examples: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """What a data job did.

    Attributes:
        rows_read: Input rows seen, rejected and filtered ones included.
        rows_filtered: Taken out by the spec's filter, or outside of the intervals that it names.
        rows_written: Rows in the segments, after rollup.
        rows_late: Rows older than the newest row that was in the datasource before the job.
        seconds_by_phase: Wall seconds, in order of the phases.
    """

    rows_read: int
    rows_filtered: int
    rows_written: int
    rows_late: int
    rejected: RejectedRows
    segments: int
    size_bytes: int
    seconds_by_phase: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """Segment files written, not yet published."""

    segments: tuple[Segment, ...]
    report: JobReport


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """A moment of a running job.

    Attributes:
        phase: What it does now, in a word or two.
        done: Tasks finished of `total` in this phase.
        rows: Rows done so far in this phase; None if not known.
        eta_ms: Expected time to the end of the phase; None if not known.
    """

    phase: str
    done: int
    total: int
    rows: int | None = None
    eta_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRewrite:
    """A segment that a predicate delete touched: what was visible of it, and the segments that take its place.

    Attributes:
        rows_before: Visible rows before.
        replacements: Empty if no row is left.
    """

    source: SegmentInput
    replacements: tuple[Segment, ...]
    rows_before: int
    rows_deleted: int


class DataPipeline(Protocol):
    """Jobs over rows, run on Spark. Starts no JVM before the first job."""

    def run_ingest(
        self,
        spec: IngestSpec,
        layout: ChunkLayout,
        *,
        rows: object | None = None,
        newest_before_ms: int | None = None,
        on_progress: Callable[[JobProgress], None] | None = None,
    ) -> JobResult:
        """Read, parse, transform, roll up, partition, sort and write segment files.

        Args:
            rows: A Spark DataFrame, pandas DataFrame or Arrow table if the spec's input is in memory.
            newest_before_ms: Time of the newest row in the datasource, to count late rows; None if it is empty.

        Raises:
            Invalid: The spec does not fit the data, or more rows were rejected than `maxParseExceptions` allows.
                Nothing is left behind but the quarantined rows.
            NotFound: An input does not exist.
            Unavailable: Deep storage is full or does not answer.
        """
        ...

    def run_delete_where(
        self,
        datasource: str,
        inputs: Sequence[SegmentInput],
        predicate: str,
        *,
        on_progress: Callable[[JobProgress], None] | None = None,
    ) -> tuple[SegmentRewrite, ...]:
        """Rewrite the segments that hold rows matching the SQL predicate, and no others.

        Returns:
            One for each input that held a matching visible row.

        Raises:
            Invalid: The predicate is not valid SQL over the datasource's columns.
        """
        ...

    def read_spark(self, inputs: Sequence[SegmentInput]) -> object:
        """Return a Spark DataFrame over the visible rows, schemas united by name, sketches as binary."""
        ...

    def close(self) -> None:
        """Stop Spark if it was started here. Idempotent."""
        ...


# --------------------------------------------------------------------------------------------------- SQL query


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult:
    """Rows of a query, and what they were read from.

    Attributes:
        table: A `pyarrow.Table`.
        revision: The one revision that the query read.
        segments_total: Live segments of the datasources that it names.
        segments_read: Those left after pruning.
    """

    table: object
    revision: int
    segments_total: int
    segments_read: int


class Catalog(Protocol):
    """What a query may see: one revision of the store."""

    revision: int

    def datasource_names(self) -> Sequence[str]:
        """Return the datasources of the revision, by name."""
        ...

    def visible(self, datasource: str, intervals: IntervalSet | None) -> Sequence[VisibleSegment]:
        """Return the entries whose visible instants overlap `intervals` (None: all)."""
        ...

    def columns(self, datasource: str) -> Mapping[str, ColumnType]:
        """Return the united schema at the revision, without `__time`; empty if there is no such datasource."""
        ...

    def count_segments(self, datasource: str) -> int:
        """Return the number of visible entries."""
        ...

    def lookups(self) -> Mapping[str, Mapping[str, str]]:
        """Return the lookups of the revision."""
        ...


class QueryEngine(Protocol):
    """Reads SQL SELECT statements over the segments of a catalog, and can reach nothing else."""

    def run_query(self, sql: str, catalog: Catalog, *, parameters: Sequence[object] = ()) -> QueryResult:
        """Run one SELECT statement.

        Raises:
            Invalid: The SQL is not one SELECT statement, does not parse, or names what a query may not reach.
            NotFound: It names a datasource that is not in the revision.
        """
        ...
