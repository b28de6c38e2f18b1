"""Commits as data: the request of a writer (`Publication`) and the record of the log (`Commit`).

A publication names segments and instants, a commit names entries. `core/log/publishing.py` makes the commit from the
publication inside the publish transaction, so that a writer need not know versions, partition ids or today's layout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from carnac.core.log.entries import Entry
from carnac.core.log.positions import check_offsets
from carnac.core.segments.segment import Segment
from carnac.core.showing import Shown
from carnac.core.texts import KEY_MAX, MESSAGE_MAX, check_keepable, check_name, check_text
from carnac.core.time.intervals import EMPTY, Interval, IntervalSet, time_text
from carnac.core.words import number_text


class CommitKind(StrEnum):
    """Why a commit was made. Consumers of the log skip `rewrite` and `erase`: they keep what is visible."""

    APPEND = "append"
    REPLACE = "replace"
    REWRITE = "rewrite"
    DELETE = "delete"
    REVERT = "revert"
    LOOKUP = "lookup"
    ERASE = "erase"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Take instants of a segment out of sight.

    Attributes:
        expected: Instants of the segment that the writer saw visible. The publication conflicts unless the same ones
            are visible now within `within`.
        within: The part to drop; None drops all that is visible.
    """

    segment_id: str
    expected: IntervalSet
    within: IntervalSet | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """Bring instants of an existing segment back into sight."""

    segment: Segment
    pieces: IntervalSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """A new segment has a pending segment's place (`core/log/allocation.py`), unless that has lapsed."""

    segment_id: str
    pending_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbered:
    """A writer that is alone in a chunk has numbered its segment itself, as time-chunk locks allow.

    The number is taken unless it is used already; then, and if the chunk is another now, publish gives one.
    """

    segment_id: str
    chunk: Interval
    partition_id: int


Place: TypeAlias = Reserved | Numbered


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The changes of a publication to one datasource.

    Attributes:
        adds: New segments; each says the chunk it was written for.
        places: Where some of them go; publish finds a place for the others.
        drops: At most one for a segment.
        restores: Used by reverts only.
        takes_over: The added segments' chunks get a new major version, and existing chunks give way to them (they are
            carved). False: adds without drops join existing chunks; adds with drops take the next minor version.
        refolds: Chunks that get a new major version as they are: their visible parts are entered anew, metadata only,
            so that no entry names overshadowed ones any more. Intervals that are no chunks by then are left alone. Goes
            with `takes_over`.
        covers: The instants whose earlier data this change means to supersede, for the log and for reverts; empty for
            appends.
        segment_granularity: Canonical text of the granularity for rows that fall where no chunk is.
    """

    datasource: str
    adds: tuple[Segment, ...] = ()
    places: tuple[Place, ...] = ()
    drops: tuple[Drop, ...] = ()
    restores: tuple[Restore, ...] = ()
    takes_over: bool = False
    refolds: tuple[Interval, ...] = ()
    covers: IntervalSet = EMPTY
    segment_granularity: str = "day"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentsVisible:
    """Requirement: these instants of the segment are still what is visible of it (a reader's inputs, not dropped)."""

    datasource: str
    segment_id: str
    expected: IntervalSet


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCovered:
    """Requirement: no commit after `revision` covers any of these instants of the datasource."""

    datasource: str
    pieces: IntervalSet
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NumbersUnited:
    """Requirement: the datasource has no texts in these columns, whose numbers of several types became one."""

    datasource: str
    columns: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupSetBy:
    """Requirement: the lookup is as commit `revision` set it; None: there is no such lookup."""

    name: str
    revision: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockHeld:
    """Requirement: the lock is still held by whom it was granted with this fence (LK-6)."""

    lock_id: int
    fence: int


Requirement: TypeAlias = LockHeld | SegmentsVisible | NotCovered | NumbersUnited | LookupSetBy


@dataclass(frozen=True, slots=True, kw_only=True)
class ConservationProof:
    """The totals of what a rewrite read and wrote; both sides must be equal (design section 3).

    Attributes:
        rows_in, rows_out: Rows; where they are rolled up, the rows that went into them.
        row_hash_in, row_hash_out: Order-independent hash of the rows, or of what rollup keeps of them; where a rewrite
            is of several input groups, each has a weight of its own in it. None: no file was rewritten.
        sums_in, sums_out: By name, what rollup keeps of metrics that are no whole numbers.
        rows_deleted, row_hash_deleted: Of the rows that went in and were left out by a deletion.
    """

    rows_in: int
    rows_out: int
    row_hash_in: int | None
    row_hash_out: int | None
    sums_in: Mapping[str, float] = field(default_factory=dict)
    sums_out: Mapping[str, float] = field(default_factory=dict)
    rows_deleted: int = 0
    row_hash_deleted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupChange:
    """Set a lookup to a mapping, or remove it (None)."""

    name: str
    mapping: Mapping[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A request to publish: all of it in one transaction, or nothing.

    Attributes:
        writer: Name of the writer for idempotency; None together with `batch` None means that a retry is not known.
        batch: The writer's own id of this batch. `(writer, batch)` is published once, whatever datasources it names.
        base_revision: The revision that the writer read; None if it read nothing.
        offsets: By source, the offset that the writer reached; see `core/log/positions.py`.
        after: By source, the offset that it started from, which must be its position still.
        message: For people reading the log.
        proof: Required of rewrites, and of deletions that add segments; absent otherwise.
        lease_id: The writer's lease that keeps its files from garbage collection; once it has ended, nothing is
            published.
    """

    kind: CommitKind
    changes: tuple[Change, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    writer: str | None = None
    batch: str | None = None
    base_revision: int | None = None
    offsets: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)
    lookups: tuple[LookupChange, ...] = ()
    message: str = ""
    proof: ConservationProof | None = None
    lease_id: str | None = None

    def __post_init__(self) -> None:
        """Refuse texts that the log would have for good; datasources that are there may have any name."""
        check_text(self.message, "the message of a commit", limit=MESSAGE_MAX)
        if self.writer is not None:
            check_name(self.writer, "the name of a writer", limit=KEY_MAX)
        if self.batch is not None:
            check_name(self.batch, "the name of a batch", limit=KEY_MAX)
        if self.kind in (
            CommitKind.APPEND,
            CommitKind.REPLACE,
        ):  # existing columns are rewritten under any name
            for name in {
                column.name
                for change in self.changes
                for segment in change.adds
                for column in segment.columns
            }:
                check_keepable(name, "the name of a column")
        check_offsets(self.offsets)
        check_offsets(self.after)
        for lookup in self.lookups:
            if lookup.mapping is not None:  # one that is there can be removed, whatever its name
                check_name(lookup.name, "the name of a lookup")
                for key, text in lookup.mapping.items():
                    check_text(key, f"a key of lookup '{lookup.name}'")
                    check_text(text, f"a value of lookup '{lookup.name}'")

    @property
    def names_batch_well(self) -> bool:
        """Whether it names writer and batch, or neither; with offsets it may do without a batch."""
        if self.batch is None:
            return self.writer is None or bool(self.offsets)
        return self.writer is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasourceCommit:
    """The effect of a commit on one datasource.

    Attributes:
        datasource: Its name.
        segments: Records of segments that were new in this commit.
        adds: Entries added, including re-entries of segments that were there before.
        drops: Entries dropped, whole; a clip is a drop of the old entry and an add of the clipped one.
        covers: The instants whose earlier data it superseded; empty for appends.
    """

    datasource: str
    segments: tuple[Segment, ...] = ()
    adds: tuple[Entry, ...] = ()
    drops: tuple[Entry, ...] = ()
    covers: IntervalSet = EMPTY


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Commit(Shown):
    """One publish: the change from `revision - 1` to `revision`.

    Attributes:
        revision: The store's state after it.
        kind: Kind of the change.
        at_ms: When it was published, epoch milliseconds, UTC; never before the commit before it.
        changes: One for each datasource that it changed, by name.
        writer: Name of the writer, if it said so; with `batch` the key under which it is published once.
        batch: Id of the batch of `writer`; None without one.
        base_revision: The revision that its writer read; None if it read none.
        offsets: How far the writer had read its source, by name.
        after: Where in its source it had started, by name; one that is left out was not read before.
        lookups: Lookups that it set or removed.
        message: For people.
        proof: Of a rewrite: that its rows are those it read. None for other kinds.
    """

    revision: int
    kind: CommitKind
    at_ms: int
    changes: tuple[DatasourceCommit, ...] = ()
    writer: str | None = None
    batch: str | None = None
    base_revision: int | None = None
    offsets: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)
    lookups: tuple[LookupChange, ...] = ()
    message: str = ""
    proof: ConservationProof | None = None

    def _facts(self) -> Mapping[str, str]:
        rows = sum(one.rows for change in self.changes for one in change.segments)
        return _commit_facts(self, [one.datasource for one in self.changes], rows)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CommitSummary(Shown):
    """A line of the log: a commit without its entries.

    Attributes:
        revision: The store's state after it.
        kind: Kind of the change.
        at_ms: When it was published, epoch milliseconds, UTC.
        datasources: Per datasource (name order): segments added new, entries added and dropped, rows and bytes of the
            new segments, instants covered.
        writer: Name of the writer, if it said so; with `batch` the key under which it is published once.
        batch: Id of the batch of `writer`; None without one.
        base_revision: The revision that its writer read; None if it read none.
        offsets: How far the writer had read its source, by name.
        after: Where in its source it had started, by name; one that is left out was not read before.
        lookups: Names of the lookups that it set or removed.
        message: For people.
    """

    revision: int
    kind: CommitKind
    at_ms: int
    datasources: tuple[DatasourceSummary, ...]
    writer: str | None = None
    batch: str | None = None
    base_revision: int | None = None
    offsets: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)
    lookups: tuple[str, ...] = ()
    message: str = ""

    def _facts(self) -> Mapping[str, str]:
        names = [one.datasource for one in self.datasources]
        return _commit_facts(self, names, sum(one.rows for one in self.datasources))


def _commit_facts(
    commit: Commit | CommitSummary, datasources: Sequence[str], rows: int
) -> Mapping[str, str]:
    return {
        "revision": f"{commit.revision}",
        "kind": commit.kind.value,
        "published": time_text(commit.at_ms),
        "datasource": ", ".join(datasources),
        "new rows": number_text(rows) if rows else "",
        "message": commit.message,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasourceSummary:
    """The effect of a commit on a datasource, in numbers.

    Attributes:
        datasource: Its name.
        segments: Segments that were new in the commit.
        entries_added: Re-entries of older segments included.
        entries_dropped: Those included that were clipped, and so came back smaller.
        rows: In the new segments.
        size_bytes: Of the new segments.
        covers: The instants whose earlier data it superseded; empty for appends.
    """

    datasource: str
    segments: int
    entries_added: int
    entries_dropped: int
    rows: int
    size_bytes: int
    covers: IntervalSet
