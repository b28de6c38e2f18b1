"""SQL queries over one revision."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from carnac.core.answers.receipts import etag_of, segments_digest, statement_digest

if TYPE_CHECKING:
    from carnac.core.access import DatasourcePatterns
    from carnac.core.log.entries import VisibleSegment
    from carnac.core.segments.segment import ColumnType, Segment
    from carnac.core.time.intervals import IntervalSet


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult:
    """Rows of a query, and the data that they were read from.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """The report of an export: the rows written, and the segments read.

    Attributes:
        rows: Written.
        is_cut: There were more than were asked for.
        revision: The one revision that the query read.
        segments_total: Live segments of the datasources that it names.
        segments_read: Those left after pruning.
    """

    rows: int
    is_cut: bool
    revision: int
    segments_total: int
    segments_read: int


@dataclass(frozen=True, kw_only=True)
class QueryBasis:
    """The basis of a statement's answer at one revision; known before it runs.

    Attributes:
        statement: As the parser prints it: statements that differ by spaces, comments and the like only are one.
        slices: Segment ids with the instants of each that are visible (None: all), after pruning, in order of id.
        columns: The columns that the statement may see of each datasource, by datasource, with their types: those that
            it names, all if it says `*`.
        tables: Small tables that it reads, as columns, in order of use: lookups, tables about tables.
        is_volatile: Its answer depends on the time, on chance or on the engine as well.
        sums: Places of the columns that are counts and sums, where all others are groups: the answer over some rows and
            more is the sum of both answers. None: it is of another kind.
        segments_total: Live segments of the datasources that it names.
    """

    statement: str
    slices: Sequence[tuple[str, IntervalSet | None]]
    columns: Mapping[str, Mapping[str, ColumnType]]
    tables: Sequence[Mapping[str, Sequence[object]]]
    is_volatile: bool
    segments_total: int
    sums: Sequence[int] | None = None

    @cached_property
    def segments_read(self) -> int:
        """Number of segments left after pruning."""
        return len({segment_id for segment_id, _ in self.slices})

    @cached_property
    def segments_digest(self) -> str:
        """The digest of the slices."""
        return segments_digest(self.slices)

    @cached_property
    def plain_digests(self) -> tuple[str, str]:
        """As `digests`, of a statement without parameters."""
        return self.digests(())

    def digests(self, parameters: Sequence[object] | Mapping[str, object]) -> tuple[str, str]:
        """Return the digest of the statement with values of its parameters, and the ETag of its answer."""
        stated = statement_digest(self.statement, parameters)
        columns = {
            name: {column: kind.value for column, kind in columns.items()}
            for name, columns in self.columns.items()
        }
        return stated, etag_of(stated, self.segments_digest, columns=columns, tables=self.tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafSlice:
    """A segment that a leaf reads, and which of its rows.

    Attributes:
        segment: The record of the file.
        clip: The instants that are visible; None: all.
    """

    segment: Segment
    clip: IntervalSet | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """The allowed uses of the partial results that a process keeps.

    Attributes:
        use: They may be taken.
        populate: New ones may be kept.
    """

    use: bool = True
    populate: bool = True


KEEP = Keeping()
READ_ALL = Keeping(use=False, populate=False)
"""Everything is read from the segment files."""
SLICE_BYTES = 200
"""Approximate memory of a slice that something kept names, besides the record of its segment."""
KEPT_ROWS_MIN = 200_000
"""Minimum number of rows in a leaf request's segments to keep its result; fewer are read too fast for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafRequest:
    """One leaf's part of a statement: a statement over some segments, which needs nothing but their files.

    Attributes:
        query_id: Of the statement that it is a part of.
        revision: That the broker planned on.
        sql: Statement to run; its only tables are `view` and `tables`. Parameters are written into it.
        view: The name that stands for the rows of the slices.
        columns: Of the view, without `__time`, with their types.
        slices: Slices that the view shows.
        tables: Small tables that are sent along, `pyarrow.Table`s by name.
        timeout_ms: After which it is stopped; None: no limit but the engine's own.
        skips_missing: Whether a segment that cannot be read is reported in `LeafReport.missing` and left out; else it
            is an error.
        keeping: Allowed uses of kept partial results: `READ_ALL` if the answer over some slices is no part of the
            answer over more.
        is_explained: Nothing is read, and the batches are empty; the report says what is kept.
    """

    query_id: str
    revision: int
    sql: str
    view: str
    columns: Mapping[str, ColumnType]
    slices: Sequence[LeafSlice]
    tables: Mapping[str, object] = field(default_factory=dict)
    timeout_ms: int | None = None
    skips_missing: bool = False
    keeping: Keeping = KEEP
    is_explained: bool = False


@dataclass(slots=True, kw_only=True)
class LeafReport:
    """The report of a leaf. Whole when its batches are exhausted.

    Attributes:
        server_id: The leaf; empty in the process of the broker.
        slices: Slices that were read: segment ids with their clips, as asked; to be relied on if `is_whole`.
        missing: Why segments could not be read, by segment id.
        damaged: Those of `missing` whose files in deep storage are gone or damaged: nobody else can read them.
        cold: How many of the segments were read from deep storage.
        kept: Of how many segments the partial results were kept, and not read again.
        rows: That the leaf's statement gave.
        is_whole: Whether the leaf has sent all of this, at the end of its rows.
    """

    server_id: str = ""
    slices: Sequence[tuple[str, IntervalSet | None]] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    damaged: Sequence[str] = ()
    cold: int = 0
    kept: int = 0
    rows: int = 0
    is_whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafFiles:
    """Where an engine finds the segments of a leaf request.

    Attributes:
        places: Files on this machine, whose bytes were checked, by segment id.
        remote: `pyarrow.dataset.Dataset`s of one file each that is elsewhere, by segment id: a scan of one reads the
            ranges of the columns and row groups that it needs.
    """

    places: Mapping[str, Path]
    remote: Mapping[str, object] = field(default_factory=dict)


def _columns(text: str) -> dict[str, str]:
    return {
        word.rstrip("#"): "BIGINT" if word.endswith("#") else "VARCHAR" for word in text.split()
    }


SYSTEM_TABLES: Mapping[str, Mapping[str, str]] = {
    "segments": _columns(
        "segment_id datasource start end size# version partition_num# num_replicas# num_rows# is_active# "
        "is_published# is_available# is_realtime# is_overshadowed# shard_spec dimensions metrics "
        "last_compaction_state replication_factor#"
    ),
    "server_segments": _columns("server segment_id"),
    "servers": _columns(
        "server host plaintext_port# tls_port# server_type tier curr_size# max_size# is_leader# start_time "
        "version labels"
    ),
    "supervisors": _columns(
        "supervisor_id datasource state detailed_state healthy# type source suspended# spec"
    ),
    "tasks": _columns(
        "task_id group_id type datasource created_time queue_insertion_time status runner_status duration# "
        "location host plaintext_port# tls_port# error_msg"
    ),
}
"""SQL types of the tables of `sys`, by table and column: Druid's names, in its order."""


class Catalog(Protocol):
    """The view of a query: one revision of the store.

    Attributes:
        edition: Another one after an erasure, which changes what revisions show; in all else a revision never changes.
        datasources: Those that exist for the query.
    """

    revision: int
    edition: int
    datasources: DatasourcePatterns

    @property
    def store_id(self) -> str:
        """Of the log that the revision is of; empty: of none, and it may change under its number."""
        ...

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

    def system(self, table: str) -> Iterable[Sequence[object]]:
        """Return the rows of a table of `sys`; those of servers and tasks as they are now, whatever the revision."""
        ...


def revision_key(catalog: Catalog) -> tuple[Hashable, ...]:
    """Return what all depends on that a query reads of a catalog, other than of `sys`."""
    return (catalog.store_id, catalog.edition, catalog.revision, catalog.datasources)
