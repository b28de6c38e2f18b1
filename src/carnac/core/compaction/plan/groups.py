"""Compaction groups, the units of work that a planner asks for and a job does.

One task reads a group where it fits, and each group is proved and committed alone. Its inputs are segments, not
instants, so that rows that are appended meanwhile do not concern it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple, TypeAlias

from carnac.core.segments.segment import TIME_COLUMN, Metric
from carnac.core.showing import facts_line, facts_table
from carnac.core.time.granularity import check_granularities, parse_granularity
from carnac.core.time.intervals import Interval, interval_text
from carnac.core.words import bytes_text, number_text
from carnac.errors import Invalid

DEFAULT_TARGET_ROWS = 5_000_000
"""Rows that a segment aims at (Source: Druid's `maxRowsPerSegment`)."""
CHUNKS_MAX = 10_000
"""A group has at most so many time chunks: a year of hours, and no commit that nobody can look at."""

PartitionKind: TypeAlias = Literal["dynamic", "hashed", "range"]


class GroupKind(StrEnum):
    """How much of a time chunk a group takes.

    `MINOR` takes a set of segments: its outputs join their chunks under the next minor version, and all other
    segments stay as they are, ids and all. `MAJOR` takes all that its interval shows: the outputs' chunks get a new
    major version, chunks in their way are carved, and rows that were appended meanwhile are carried over.
    """

    MINOR = "minor"
    MAJOR = "major"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """How the rows of a time chunk are divided into segments.

    Attributes:
        dimensions: Of `hashed` (empty: all dimensions) and `range` (at least one, most important first).
        buckets: Of `hashed`: how many; None: as many as the target of rows wants.
    """

    kind: PartitionKind = "dynamic"
    dimensions: tuple[str, ...] = ()
    buckets: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionTarget:
    """The form that the rows of a group are to get. The defaults keep every row as it is.

    Raises:
        Invalid: No rows can have it.

    Attributes:
        target_rows: Rows that a segment aims at.
        target_bytes: Bytes that a segment file aims at (dynamic partitioning only); the target that is reached first
            counts. None: rows alone decide.
        partitioning: How the rows of a chunk are divided into segments.
        sort_by: Columns that order the rows in a segment; None: as most inputs are ordered. Range dimensions go first.
        segment_granularity: Canonical text; the rows of a major group go to its buckets. None: chunks stay as they are
            (the group's interval is the chunk).
        query_granularity: Canonical text; times are truncated to it where it is coarser. Lossy. None: times stay.
        dimensions: The dimensions to keep, in file order. Lossy if one is left out. None: all.
        metrics: Metrics that raw rows are rolled up to; `input` names a column of theirs. Lossy. None: they stay raw.
        filter: A condition in Spark SQL about one row, as the inputs have it, or one of Druid's filters as JSON; rows
            for which it is not true are left out. Lossy. None: all rows stay.
        allow_lossy: Without it, a step that cannot be undone is refused.
    """

    target_rows: int = DEFAULT_TARGET_ROWS
    target_bytes: int | None = None
    partitioning: Partitioning = field(default_factory=Partitioning)
    sort_by: tuple[str, ...] | None = None
    segment_granularity: str | None = None
    query_granularity: str | None = None
    dimensions: tuple[str, ...] | None = None
    metrics: tuple[Metric, ...] | None = None
    filter: str | None = None
    allow_lossy: bool = False

    def __post_init__(self) -> None:
        _check_target(self)

    @property
    def range_dimensions(self) -> tuple[str, ...]:
        """Dimensions by whose ranges rows are partitioned; empty if they are not."""
        return self.partitioning.dimensions if self.partitioning.kind == "range" else ()


def _check_target(target: CompactionTarget) -> None:
    """Check what shows before any segment is seen.

    Raises:
        Invalid: A size, a granularity or a column cannot be, or two of them contradict each other.
    """
    texts = target.segment_granularity, target.query_granularity
    segment, query = (None if text is None else parse_granularity(text) for text in texts)
    check_granularities(segment, query)
    by = target.partitioning
    sizes = ("targetRows", target.target_rows), ("targetBytes", target.target_bytes)
    for name, value in (*sizes, ("buckets", by.buckets)):
        if value is not None and value < 1:
            raise Invalid(f"{name} must be at least 1, not {value}")
    if by.kind == "range" and not by.dimensions:
        raise Invalid("partitioning by range needs a dimension")
    if by.buckets is not None and by.kind != "hashed":
        raise Invalid(f"buckets are of hashed partitioning, not of {by.kind}")
    _check_columns(target)


def _check_columns(target: CompactionTarget) -> None:
    metrics = [metric.name for metric in target.metrics or ()]
    kept, divided = target.dimensions, target.partitioning.dimensions
    lists: tuple[tuple[str, Sequence[str]], ...] = (
        ("metrics", metrics),
        ("dimensions", kept or ()),
        ("partitionDimensions", divided),
        ("sortBy", target.sort_by or ()),
    )
    for what, names in lists:
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise Invalid(f"{what} names {', '.join(twice)} more than once")
    if TIME_COLUMN in divided:
        raise Invalid(
            f"rows are divided by dimensions inside of a time chunk, not by {TIME_COLUMN}"
        )
    if kept is None:
        return
    if TIME_COLUMN in kept:
        raise Invalid(f"{TIME_COLUMN} is no dimension; every row keeps it")
    both = sorted({*kept} & {*metrics})
    if both:
        raise Invalid(f"{', '.join(both)} is both a dimension and a metric")
    for what, names, there in (
        ("partitionDimensions", divided, kept),
        ("sortBy", target.sort_by or (), (*kept, *metrics, TIME_COLUMN)),
    ):
        gone = [name for name in names if name not in there]
        if gone:
            raise Invalid(f"{what} names {', '.join(gone)}, which the dimensions leave out")


class CompactionGroup(NamedTuple):
    """Segments to be rewritten together, in one commit.

    Attributes:
        group_id: Unique in its plan; reports name it.
        datasource: Of all inputs.
        kind: Minor: just these segments. Major: all that the interval shows.
        interval: Minor: the time chunk of the segments. Major: the time that the outputs take over, a whole number of
            buckets of the target's segment granularity if it has one, else one time chunk. Only rows that segments show
            inside of it are read and replaced.
        segment_ids: The inputs; for a major group, all that show something in the interval as the planner saw it. A
            segment that is gone when the job begins makes the group a conflict. Empty: all that the interval shows when
            the job begins.
        target: Form that their rows are to get.
        rows: About how many rows the inputs show; work is shared out by it.
        size_bytes: Of the inputs' files.
        revision: That the planner saw; None if it does not matter.
    """

    group_id: str
    datasource: str
    kind: GroupKind
    interval: Interval
    segment_ids: tuple[str, ...] = ()
    target: CompactionTarget = CompactionTarget()
    rows: int = 0
    size_bytes: int = 0
    revision: int | None = None

    def __repr__(self) -> str:
        return facts_line("CompactionGroup", self._facts())

    def _repr_html_(self) -> str:
        """Return what it is about as a table, for a notebook."""
        return facts_table(self._facts())

    def _facts(self) -> Mapping[str, str]:
        return {
            "group": self.group_id,
            "kind": self.kind.value,
            "interval": interval_text(self.interval),
            "segments": number_text(len(self.segment_ids)) if self.segment_ids else "all",
            "rows": number_text(self.rows) if self.rows else "",
            "size": bytes_text(self.size_bytes) if self.size_bytes else "",
        }


def whole_intervals(
    chunks: Sequence[Interval], segment_granularity: str | None
) -> Iterator[Interval]:
    """Yield the intervals that a change to this granularity must rewrite together; chunks are in order of time."""
    if segment_granularity is None:
        yield from chunks
        return
    granularity = parse_granularity(segment_granularity)
    current: Interval | None = None
    for chunk in chunks:
        whole = granularity.buckets_over(chunk)
        if current is not None and whole.start_ms < current.end_ms:
            current = Interval(current.start_ms, max(current.end_ms, whole.end_ms))
            continue
        if current is not None:
            yield current
        current = whole
    if current is not None:
        yield current
