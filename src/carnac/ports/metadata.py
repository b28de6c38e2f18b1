"""The metadata store: the log and what is derived from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from carnac.core.showing import Shown
from carnac.core.time.intervals import interval_text, time_text
from carnac.core.words import bytes_text, number_text
from carnac.errors import NotFound
from carnac.ports.allocation_records import AllocationRecords
from carnac.ports.serving import ServerRecords
from carnac.ports.task_records import TaskRecords

if TYPE_CHECKING:
    from carnac.core.compaction.control.states import ChunkState
    from carnac.core.locks.events import LockEvent, LockReply
    from carnac.core.locks.model import Lock
    from carnac.core.log.commits import Commit, CommitSummary, Publication
    from carnac.core.log.entries import Chunk, VisibleSegment
    from carnac.core.segments.segment import ColumnType, Segment
    from carnac.core.time.intervals import Interval, IntervalSet


class CompactionRecords(Protocol):
    """Specs and states. Losing the states costs an analysis, and the counts of bytes; nothing else."""

    def compaction_specs(self) -> Mapping[str, str]:
        """Return how datasources are to be compacted, as JSON text, by name."""
        ...

    def put_compaction_spec(self, datasource: str, spec: str | None) -> None:
        """Set how a datasource is to be compacted; None: not at all, and its states are forgotten. Idempotent."""
        ...

    def compaction_states(self, datasource: str) -> tuple[ChunkState, ...]:
        """Return what is known of the chunks of a datasource, in order of time."""
        ...

    def put_compaction_states(self, datasource: str, states: Iterable[ChunkState]) -> None:
        """Keep states, each in place of the one of the same chunk; those of chunks without segments are forgotten."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Head(Shown):
    """The newest revision; 0 and the store's creation time before the first commit.

    Attributes:
        revision: 0 for a store without commits.
        at_ms: When it was published, epoch milliseconds, UTC; of revision 0, when the store was made.
    """

    revision: int
    at_ms: int

    def _facts(self) -> Mapping[str, str]:
        return {"revision": f"{self.revision}", "published": time_text(self.at_ms)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Published(Shown):
    """Outcome of a publish.

    Attributes:
        revision: Of the commit; of the first one if the batch had been published before.
        at_ms: When that was published, epoch milliseconds, UTC.
        is_replay: The `(writer, batch)` had been published before; `revision` is that first commit's, and nothing was
            changed. Its commit may have been trimmed since.
        commit: None on a replay.
    """

    revision: int
    at_ms: int
    is_replay: bool
    commit: Commit | None

    def _facts(self) -> Mapping[str, str]:
        return {
            "revision": f"{self.revision}",
            "published": time_text(self.at_ms),
            "before": "yes" if self.is_replay else "",
        }


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Tag(Shown):
    """A name for a revision; the revision stays readable while the tag exists.

    Attributes:
        name: Not empty, not a number and not a time.
        revision: That it keeps readable.
        created_at_ms: When it was set, or moved last.
    """

    name: str
    revision: int
    created_at_ms: int

    def _facts(self) -> Mapping[str, str]:
        return {
            "tag": self.name,
            "revision": f"{self.revision}",
            "made": time_text(self.created_at_ms),
        }


class LeaseKind(StrEnum):
    """What a lease protects: revisions that are read, or files that are being written."""

    READER = "reader"
    WRITER = "writer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A promise of the store that ends by itself.

    Attributes:
        lease_id: Unique.
        kind: A reader's or a writer's.
        revision: Reader: every revision from this one on stays readable. Writer: the base revision.
        holder: Who, for people: host, process, command.
        acquired_at_ms: Files that are younger than the oldest live writer lease are nobody's orphans.
        expires_at_ms: After this instant the lease counts as gone.
        ttl_ms: How long before it the lease was given or renewed.
    """

    lease_id: str
    kind: LeaseKind
    revision: int
    holder: str
    acquired_at_ms: int
    expires_at_ms: int
    ttl_ms: int

    @property
    def heartbeat_at_ms(self) -> int:
        """When it was given or renewed; `core.time.leases.is_over` says whether it counts as gone."""
        return self.expires_at_ms - self.ttl_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashedSegment:
    """A segment that no retained revision names, waiting for its file to be deleted."""

    segment: Segment
    trashed_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DatasourceInfo(Shown):
    """A datasource at a revision, in numbers.

    Attributes:
        name: As queries name it.
        segments: Of which something is visible.
        chunks: Time chunks that show something.
        rows: In these segments' files, hidden ones included.
        size_bytes: Of these files.
        interval: From the first row of these files to behind the last one; None if there are none.
        revision: Of the last commit that changed it.
    """

    name: str
    segments: int
    chunks: int
    rows: int
    size_bytes: int
    interval: Interval | None
    revision: int

    def _facts(self) -> Mapping[str, str]:
        return {
            "datasource": self.name,
            "rows": number_text(self.rows),
            "segments": number_text(self.segments),
            "size": bytes_text(self.size_bytes),
            "time": "" if self.interval is None else interval_text(self.interval),
            "revision": f"{self.revision}",
        }


class MetadataStore(TaskRecords, AllocationRecords, CompactionRecords, ServerRecords, Protocol):
    """The log and what is derived from it. Safe for use by many threads and processes at once.

    Errors, besides those named: Unavailable when the database does not answer; Corrupt when a record is not readable.
    """

    def close(self) -> None:
        """Finish what is on its way, and release connections. Idempotent."""
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
            Revoked: Its lease is gone, or a lock that it is published under.
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

    def chunks(self, datasource: str, *, interval: Interval | None = None) -> tuple[Chunk, ...]:
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

    def visible_late(
        self, datasource: str, *, revision: int | None = None, intervals: IntervalSet | None = None
    ) -> Sequence[VisibleSegment]:
        """Return those of `visible` whose segments hold late rows; no other record is read."""
        ...

    def columns(self, datasource: str, *, revision: int | None = None) -> Mapping[str, ColumnType]:
        """Return the united schema of the segments visible at the revision, without `__time`.

        A column that differs between segments has the widest of its types (`core.schemas.unite_types`). In order of
        first appearance. Cheap: through the distinct schemas of the datasource, not through its segments. Empty if
        nothing is visible.
        """
        ...

    def count_visible(self, datasource: str, *, revision: int | None = None) -> int:
        """Return the number of entries visible at the revision. Cheap for the newest one (from the chunks)."""
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

    def segments(self, *, after: str = "", limit: int = 1000) -> tuple[Segment, ...]:
        """Return the segments that a retained revision names (all but the trash), in order of id, a page at a time.

        Args:
            after: Only those with an id after this one: the last id of the page before.
            limit: Most segments to return.
        """
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

    def acquire_lease(
        self, kind: LeaseKind, *, holder: str, ttl_ms: int, revision: int | None = None
    ) -> Lease:
        """Return a new lease on `revision` (None: the newest) and later ones.

        Raises:
            NotFound: The revision is not retained.
        """
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

    # locks

    def change_locks(self, event: LockEvent) -> LockReply:
        """Let an event happen to the lockbox, in one transaction; return what it answers.

        What the lockbox decides is `core.locks.machine.decide`, at the store's own time.

        Raises:
            Invalid: The event contradicts itself.
            NotFound: There is no such lock to break.
        """
        ...

    def locks(self, datasource: str | None = None) -> tuple[Lock, ...]:
        """Return the locks of a datasource (None: of all), waiting and revoked ones too, in order of arrival."""
        ...

    # retention and garbage collection

    def trim(
        self,
        *,
        keep: Callable[[Sequence[Head]], set[int]],
        dry_run: bool,
        batches_before_ms: int | None = None,
    ) -> TrimReport:
        """Forget revisions that are not kept, and mark as trash the segments that only they named.

        The newest revision, tagged revisions, and those from the oldest live reader lease on are always kept.

        Args:
            keep: Given all retained revisions, oldest first, returns those that the retention rules keep.
            batches_before_ms: Also forget each `(writer, batch)` that was published before, unless it is the newest
                of its writer: one that comes again is new. None: none.
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

    def check(self) -> tuple[str, ...]:
        """Return what in the records contradicts itself, a sentence each; nothing if all is well. Reads all of them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimReport:
    """What a trim did, or would do.

    Attributes:
        trashed: Segments newly in the trash.
        batches_forgotten: How many `(writer, batch)` are not known any more.
        reasons: For each retained, non-visible segment id: why it stays (for example `tag 'v1' at revision 7`).
    """

    revisions_kept: int
    revisions_trimmed: int
    oldest_revision: int
    trashed: tuple[Segment, ...]
    reasons: Mapping[str, str] = field(default_factory=dict)
    batches_forgotten: int = 0


def require_datasource(
    metadata: MetadataStore, datasource: str, revision: int | None = None
) -> None:
    """Refuse a datasource that has no rows at a revision (None: the newest). Costs no scan of segments.

    Raises:
        NotFound: It has none; says which there are.
    """
    if not metadata.count_visible(datasource, revision=revision):
        names = ", ".join(info.name for info in metadata.datasources(revision))
        where = "" if revision in {None, metadata.head().revision} else f" at revision {revision}"
        raise NotFound(
            f"there is no datasource '{datasource}'{where}; there are {names or 'none yet'}",
            datasource=datasource,
        )
