"""The data pipeline: jobs over rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from carnac.core.compaction.plan.groups import CompactionTarget
    from carnac.core.log.commits import ConservationProof, Place
    from carnac.core.segments.segment import ColumnType, Segment
    from carnac.core.time.intervals import Interval, IntervalSet


APPEND_ROWS_MAX = 1_000_000
"""Rows that one append takes in the caller's process; more are a job for Spark."""
APPEND_BYTES_MAX = 256_000_000
"""Bytes of its input, as files have them or as Arrow holds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkLayout:
    """Into which time chunks a job cuts its rows.

    Attributes:
        segment_granularity: Canonical text; rows go to its buckets where no chunk is.
        existing: Live chunks that win over the buckets (empty for a replacement, which takes over).
        within: A replacement writes only rows inside these instants; rows outside are rejected. None: anywhere.
        columns: Those that the datasource has: a field that shows no type has that of its column. Known where the shape
            of the rows depends on the data.
    """

    segment_granularity: str
    existing: tuple[Interval, ...] = ()
    within: IntervalSet | None = None
    columns: Mapping[str, ColumnType] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentInput:
    """A segment to be read, and which of its instants are visible."""

    segment: Segment
    visible: IntervalSet

    @classmethod
    def whole(cls, segment: Segment) -> SegmentInput:
        """Return all rows of a segment, whatever entries show of it."""
        from carnac.core.time.intervals import IntervalSet

        return cls(segment=segment, visible=IntervalSet((segment.span,)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRows:
    """Rows that could not be parsed: how many for each reason, and where they are kept.

    Attributes:
        count: Rows in all.
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
    """The report of a data job.

    Attributes:
        rows_read: Input rows seen, rejected and filtered ones included.
        rows_filtered: Taken out by the spec's filter, or outside of the intervals that it names.
        rows_written: Rows in the segments, after rollup.
        rows_late: Rows older than the newest row that was in the datasource before the job; none of a replacement.
        rejected: Rows that could not be parsed; they are in quarantine.
        segments: Segment files written.
        size_bytes: Of these files.
        seconds_by_phase: Wall seconds, in order of the phases.
        notes: Changes that the load makes in the datasource, and probable mistakes; a sentence each.
        is_for_append: Whether an append of the same files would have done the same, without Spark: they are few, and
            the computations of the spec mean the same there.
    """

    rows_read: int
    rows_filtered: int
    rows_written: int
    rows_late: int
    rejected: RejectedRows
    segments: int
    size_bytes: int
    seconds_by_phase: Mapping[str, float]
    notes: tuple[str, ...] = ()
    is_for_append: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """Segment files written, not yet published.

    Attributes:
        places: Where they go, as far as the job's plan says.
        missing: Fields that the spec declares and no row has, in its order.
        fields: Those that the rows have, where some are missing.
    """

    segments: tuple[Segment, ...]
    report: JobReport
    places: tuple[Place, ...] = ()
    missing: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """A moment of a running job.

    Attributes:
        phase: Its present work, in a word or two.
        done: Tasks finished of `total` in this phase.
        total: Tasks of this phase; 0 before they are known.
        rows: Rows done so far in this phase; None if not known.
        eta_ms: Expected time to the end of the phase; None if not known.
    """

    phase: str
    done: int
    total: int
    rows: int | None = None
    eta_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamProgress(JobProgress):
    """A moment of a task that reads a stream.

    Attributes:
        counts: Counts of its work since it began, by name.
    """

    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRewrite:
    """A segment that a predicate delete touched: its visible part, and the segments that take its place.

    Attributes:
        replacements: Empty if no row is left.
        proof: That the visible rows are those of the replacements and those that were deleted.
    """

    source: SegmentInput
    replacements: tuple[Segment, ...]
    proof: ConservationProof


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteJob:
    """Segments to be rewritten to the same rows: a compaction group whose inputs have been looked up.

    Attributes:
        key: Unique among the jobs of a call.
        chunks: Time chunks that the outputs are written for, in order of time, disjoint; they hold all visible rows.
            Empty: the buckets of the target's segment granularity that have rows, which whoever runs the job finds:
            the calendar has too many.
        inputs: With what of them is to be rewritten; the rest of a segment is not read.
        is_whole: The inputs are all that the chunks show, so that what is rolled up is rolled up perfectly.
        kept_apart: Columns of the datasource whose numbers keep their types: see `find_kept_apart`.
    """

    key: str
    datasource: str
    chunks: tuple[Interval, ...]
    inputs: tuple[SegmentInput, ...]
    target: CompactionTarget
    is_whole: bool
    kept_apart: frozenset[str] = frozenset()

    @property
    def rows(self) -> int:
        """Rows of the inputs, hidden ones included."""
        return sum(source.segment.rows for source in self.inputs)

    @property
    def size_bytes(self) -> int:
        """Bytes of the inputs' files."""
        return sum(source.segment.size_bytes for source in self.inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteResult:
    """Segment files written, not yet published, and the proof that they hold the rows of the inputs."""

    segments: tuple[Segment, ...]
    proof: ConservationProof
