"""A metadata store in dictionaries, for tests and for trying things out: gone when the process ends.

It is the plain reading of the port: one lock, temporal records of entries, whole scans. It plans with the same core
and sums up chunks with the same functions as the SQL stores, and passes the same behaviour suite.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future

from carnac.core.locks.events import LockEvent, LockReply
from carnac.core.locks.machine import decide
from carnac.core.locks.model import Lock
from carnac.core.locks.table import LockTable
from carnac.core.log.commits import Commit, CommitSummary, DatasourceSummary, Publication
from carnac.core.log.entries import Chunk, VisibleSegment
from carnac.core.log.publishing import plan_commit
from carnac.core.segments.record import dump_schema, load_schema
from carnac.core.segments.schema import unite_columns
from carnac.core.segments.segment import ColumnType, Segment
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.errors import CarnacError, NotFound, Revoked
from carnac.metadata import memory_tables as tables
from carnac.metadata import retention as keeping
from carnac.metadata.memory_allocation_records import MemoryAllocationRecords
from carnac.metadata.memory_compaction_records import MemoryCompactionRecords
from carnac.metadata.memory_tables import MemoryTables, MemoryView
from carnac.metadata.memory_task_records import MemoryTaskRecords
from carnac.metadata.names import (
    BATCH_RETENTION_MS,
    renewed,
    require_tag_name,
)
from carnac.metadata.problems import find_lock_problems, find_task_problems
from carnac.metadata.retention import RetainedRevision
from carnac.ports import (
    Clock,
    DatasourceInfo,
    Head,
    IdSource,
    Lease,
    LeaseKind,
    Published,
    Tag,
    TrashedSegment,
    TrimReport,
)


class MemoryMetadataStore(MemoryAllocationRecords, MemoryTaskRecords, MemoryCompactionRecords):
    """A store in memory: see `MetadataStore` for what its methods promise."""

    def __init__(
        self,
        *,
        clock: Clock,
        ids: IdSource,
        batch_retention_ms: int = BATCH_RETENTION_MS,
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._batch_retention_ms = batch_retention_ms
        self._created = Head(revision=0, at_ms=clock.now_ms())
        self._lock = threading.RLock()
        super().__init__(self._lock)
        self._tables = MemoryTables()
        self._settings: dict[str, str] = {}
        self._tags: dict[str, Tag] = {}
        self._leases: dict[str, Lease] = {}
        self._batches: dict[tuple[str, str], Head] = {}
        self._locks = LockTable()
        self._compaction_specs = {}
        self._compaction_states = {}

    def close(self) -> None:
        """Nothing to release."""

    def settings(self) -> Mapping[str, str]:
        """Return the store's own settings."""
        with self._lock:
            return dict(self._settings)

    def put_settings(self, settings: Mapping[str, str]) -> None:
        """Add or overwrite settings."""
        with self._lock:
            self._settings.update(settings)

    def head(self) -> Head:
        """Return the newest revision."""
        with self._lock:
            newest = next(reversed(self._tables.commits.values()), None)
            return (
                self._created
                if newest is None
                else Head(revision=newest.revision, at_ms=newest.at_ms)
            )

    # ------------------------------------------------------------------------------------------------ the log

    def publish(self, publication: Publication) -> Published:
        """Publish, or change nothing."""
        with self._lock:
            now_ms, head = self._clock.now_ms(), self.head()
            key = (publication.writer or "", publication.batch or "")
            done = self._batches.get(key) if publication.batch is not None else None
            if done is not None:
                return Published(
                    revision=done.revision, at_ms=done.at_ms, is_replay=True, commit=None
                )
            keeping.require_base(publication.base_revision, head.revision)
            if publication.lease_id is not None:
                self._require_writer_lease(publication.lease_id, now_ms)
            keeping.require_history(
                publication.requirements, next(iter(self._tables.commits), None)
            )
            commit = plan_commit(
                self._view(),
                publication,
                revision=head.revision + 1,
                at_ms=max(now_ms, head.at_ms),
            )
            self._tables.require_writable(commit)
            self._tables.apply(commit)
            for change in publication.changes:
                if change.places:
                    self._tables.settle_places(change)
            if publication.batch is not None:
                self._batches[key] = Head(revision=commit.revision, at_ms=commit.at_ms)
            self._leases.pop(publication.lease_id or "", None)
            return Published(
                revision=commit.revision, at_ms=commit.at_ms, is_replay=False, commit=commit
            )

    def publish_soon(self, publication: Publication) -> Future[Published]:
        """Publish at once: there is no disk to wait for."""
        future: Future[Published] = Future()
        try:
            future.set_result(self.publish(publication))
        except CarnacError as error:
            future.set_exception(error)
        return future

    def _view(self) -> MemoryView:
        return MemoryView(self._tables, self._locks)

    def _forget_pending_of_leases(self) -> None:
        """What belongs to leases that are no more ends with them."""
        self._tables.forget_pending(
            lambda one: one.lease_id is not None and one.lease_id not in self._leases
        )

    def _require_writer_lease(self, lease_id: str, now_ms: int) -> None:
        lease = self._leases.get(lease_id)
        if lease is None or lease.expires_at_ms <= now_ms or lease.kind is not LeaseKind.WRITER:
            raise keeping.no_writer_lease(lease_id)

    def find_batch(self, writer: str, batch: str) -> int | None:
        """Return the revision under which the batch was published; None if it was not."""
        with self._lock:
            found = self._batches.get((writer, batch))
            return None if found is None else found.revision

    def resolve(self, at: int | str | None) -> Head:
        """Return the retained revision that `at` means."""
        with self._lock:
            if at is None:
                return self.head()
            wanted = keeping.parse_at(at)
            if isinstance(wanted, int):
                return self._require_retained(wanted)
            if wanted in self._tags:
                return self._require_retained(self._tags[wanted].revision)
            at_ms = keeping.find_instant(wanted)
            if at_ms is None:
                raise keeping.no_such_name(wanted, self._tags)
            return keeping.resolve_time(at_ms, self._created, self._retained())

    def changes(self, *, after: int, limit: int = 1000) -> tuple[Commit, ...]:
        """Return the commits after revision `after`, oldest first, whole."""
        with self._lock:
            newest = self.head().revision
            found = [one for one in self._tables.commits.values() if one.revision > after][:limit]
        return keeping.require_whole(found, after, newest)

    def log(
        self, *, datasource: str | None = None, before: int | None = None, limit: int = 50
    ) -> tuple[CommitSummary, ...]:
        """Return the newest commits (before revision `before`), newest first."""
        with self._lock:
            commits = list(reversed(self._tables.commits.values()))
        chosen = [
            commit
            for commit in commits
            if (before is None or commit.revision < before)
            and (datasource is None or any(one.datasource == datasource for one in commit.changes))
        ]
        return tuple(_summary(commit) for commit in chosen[:limit])

    def commit(self, revision: int) -> Commit:
        """Return one commit, whole."""
        with self._lock:
            found = self._tables.commits.get(revision)
            if found is None:
                raise self._missing(revision)
            return found

    # -------------------------------------------------------------------------------------------- datasources

    def datasources(self, revision: int | None = None) -> tuple[DatasourceInfo, ...]:
        """Return the datasources that have visible segments at the revision, by name."""
        with self._lock:
            at = self._at(revision)
            infos = []
            for name in sorted({record.datasource for record in self._tables.entries.values()}):
                visible = self._tables.visible(name, at)
                if visible:
                    infos.append(tables.describe(name, visible, self._tables.last_change(name, at)))
            return tuple(infos)

    def chunks(self, datasource: str, *, interval: Interval | None = None) -> tuple[Chunk, ...]:
        """Return the live chunks that overlap `interval` (None: all), in order of time."""
        with self._lock:
            return tuple(self._tables.live_chunks(datasource, interval))

    def visible(
        self, datasource: str, *, revision: int | None = None, intervals: IntervalSet | None = None
    ) -> Sequence[VisibleSegment]:
        """Return the entries visible at the revision, with their segments, in order of chunk and partition id."""
        with self._lock:
            found = self._tables.visible(datasource, self._at(revision))
        if intervals is None:
            return tuple(found)
        return tuple(one for one in found if one.entry.visible.intersect(intervals))

    def visible_late(
        self, datasource: str, *, revision: int | None = None, intervals: IntervalSet | None = None
    ) -> Sequence[VisibleSegment]:
        """Return those of the visible entries whose segments hold late rows."""
        found = self.visible(datasource, revision=revision, intervals=intervals)
        return tuple(one for one in found if one.segment.late is not None)

    def columns(self, datasource: str, *, revision: int | None = None) -> Mapping[str, ColumnType]:
        """Return the united schema of the segments visible at the revision, without `__time`."""
        with self._lock:
            visible = self._tables.visible(datasource, self._at(revision))
            shown = {dump_schema(one.segment.columns) for one in visible}
            known = self._tables.schemas.get(datasource, {})
            return unite_columns(load_schema(schema) for schema in known if schema in shown)

    def count_visible(self, datasource: str, *, revision: int | None = None) -> int:
        """Return the number of entries visible at the revision."""
        return len(self.visible(datasource, revision=revision))

    def find_segment(self, segment_id: str) -> Segment | None:
        """Return a segment's record; None if the store does not know it."""
        with self._lock:
            return self._tables.segments.get(segment_id)

    def segments(self, *, after: str = "", limit: int = 1000) -> tuple[Segment, ...]:
        """Return the segments that a retained revision names, in order of id, a page at a time."""
        with self._lock:
            tables = self._tables
            ids = sorted(key for key in tables.segments if key > after and key not in tables.trash)
            return tuple(tables.segments[key] for key in ids[:limit])

    def lookups(self, revision: int | None = None) -> Mapping[str, Mapping[str, str]]:
        """Return the lookups at the revision, by name."""
        with self._lock:
            return self._tables.lookups_at(self._at(revision))

    def _at(self, revision: int | None) -> int:
        return (
            self.head().revision if revision is None else self._require_retained(revision).revision
        )

    # ---------------------------------------------------------------------------------------- tags and leases

    def put_tag(self, name: str, revision: int) -> Tag:
        """Name a retained revision; moves the tag if it exists."""
        require_tag_name(name)
        with self._lock:
            self._require_retained(revision)
            self._tags[name] = Tag(name=name, revision=revision, created_at_ms=self._clock.now_ms())
            return self._tags[name]

    def remove_tag(self, name: str) -> None:
        """Remove a tag."""
        with self._lock:
            if self._tags.pop(name, None) is None:
                raise NotFound(f"there is no tag '{name}'", tag=name)

    def tags(self) -> tuple[Tag, ...]:
        """Return all tags by name."""
        with self._lock:
            return tuple(tag for _, tag in sorted(self._tags.items()))

    def acquire_lease(
        self, kind: LeaseKind, *, holder: str, ttl_ms: int, revision: int | None = None
    ) -> Lease:
        """Return a new lease on `revision` (None: the newest) and later ones."""
        with self._lock:
            now_ms = self._clock.now_ms()
            lease = Lease(
                lease_id=self._ids.new_id(),
                kind=kind,
                revision=self._at(revision),
                holder=holder,
                acquired_at_ms=now_ms,
                expires_at_ms=now_ms + ttl_ms,
            )
            self._leases = {live.lease_id: live for live in (*self.leases(), lease)}
            if kind is LeaseKind.WRITER:
                self._forget_pending_of_leases()
            return lease

    def renew_lease(self, lease_id: str, *, ttl_ms: int, revision: int | None = None) -> Lease:
        """Prolong a lease, and move it to a newer revision if one is given."""
        with self._lock:
            now_ms = self._clock.now_ms()
            lease = self._leases.get(lease_id)
            if lease is None or lease.expires_at_ms <= now_ms:
                raise Revoked(
                    f"lease {lease_id} has expired or was released; start anew", lease_id=lease_id
                )
            moved = renewed(lease, now_ms + ttl_ms, revision)
            if moved.kind is LeaseKind.READER:  # a writer's base may be trimmed: it keeps files
                self._require_retained(moved.revision)
            self._leases[lease_id] = moved
            return moved

    def release_lease(self, lease_id: str) -> None:
        """End a lease. Idempotent."""
        with self._lock:
            self._leases.pop(lease_id, None)
            self._forget_pending_of_leases()

    def leases(self) -> tuple[Lease, ...]:
        """Return the leases that have not expired, oldest first."""
        with self._lock:
            now_ms = self._clock.now_ms()
            live = [lease for lease in self._leases.values() if lease.expires_at_ms > now_ms]
            return tuple(sorted(live, key=lambda lease: (lease.acquired_at_ms, lease.lease_id)))

    # -------------------------------------------------------------------------------------------------- locks

    def change_locks(self, event: LockEvent) -> LockReply:
        """Let an event happen to the lockbox; return what it answers."""
        with self._lock:
            decision = decide(self._locks, event, at_ms=self._clock.now_ms())
            if decision.is_change:
                self._locks.apply(decision)
            return decision.reply

    def locks(self, datasource: str | None = None) -> tuple[Lock, ...]:
        """Return the locks of a datasource (None: of all), in order of arrival."""
        with self._lock:
            found = [one for one in self._locks if datasource in {None, one.datasource}]
            return tuple(sorted(found, key=lambda one: one.lock_id))

    # ------------------------------------------------------------------------------- retention and self-examination

    def trim(self, *, keep: Callable[[Sequence[Head]], set[int]], dry_run: bool) -> TrimReport:
        """Forget revisions that are not kept, and mark as trash the segments that only they named."""
        with self._lock:
            retained = self._retained()
            heads = [one.head() for one in retained]
            readers = [one.revision for one in self.leases() if one.kind is LeaseKind.READER]
            kept = keeping.plan_kept(
                heads,
                keep(heads),
                tagged={tag.revision for tag in self._tags.values()},
                oldest_lease=min(readers, default=None),
            )
            trashed = self._tables.unseen_segments(kept)
            report = TrimReport(
                revisions_kept=len(kept.revisions),
                revisions_trimmed=len(retained) - len(kept.revisions),
                oldest_revision=kept.revisions[0] if kept.revisions else 0,
                trashed=tuple(trashed),
                reasons=self._tables.reasons(kept, self._tags.values()),
            )
            if not dry_run:
                now_ms = self._clock.now_ms()
                self._tables.trim(kept, keeping.plan_until(retained, kept), trashed, now_ms)
                self._leases = {lease.lease_id: lease for lease in self.leases()}
                self._forget_pending_of_leases()
                limit_ms = now_ms - self._batch_retention_ms
                self._batches = {
                    key: done for key, done in self._batches.items() if done.at_ms >= limit_ms
                }
            return report

    def trashed(self) -> tuple[TrashedSegment, ...]:
        """Return the segments in the trash."""
        with self._lock:
            return tuple(
                TrashedSegment(segment=segment, trashed_at_ms=self._tables.trash[segment_id])
                for segment_id, segment in self._tables.segments.items()
                if segment_id in self._tables.trash
            )

    def forget_segments(self, segment_ids: Iterable[str]) -> None:
        """Remove the records of trashed segments whose files are deleted."""
        with self._lock:
            self._tables.forget_segments(segment_ids)

    def known_paths(self) -> frozenset[str]:
        """Return the paths of all segments that have a record, trash included."""
        with self._lock:
            return frozenset(segment.path for segment in self._tables.segments.values())

    def table_counts(self) -> Mapping[str, int]:
        """Return the number of records of each kind: a gauge that shows what grows."""
        with self._lock:
            return {
                **self._tables.counts(),
                "batches": len(self._batches),
                "leases": len(self._leases),
                "locks": len(self._locks),
                "settings": len(self._settings),
                "tags": len(self._tags),
            }

    def check(self) -> tuple[str, ...]:
        """Return what in the store contradicts itself, a sentence each; nothing if all is well."""
        with self._lock:
            attempts = [one for all_of in self._tasks.attempts.values() for one in all_of.values()]
            return (
                *self._tables.find_problems(),
                *find_lock_problems(self._locks),
                *find_task_problems(self._tasks.tasks.values(), attempts),
            )

    def _retained(self) -> list[RetainedRevision]:
        return [
            RetainedRevision(one.revision, one.at_ms, self._tables.until.get(one.revision))
            for one in self._tables.commits.values()
        ]

    def _require_retained(self, revision: int) -> Head:
        if revision == 0:
            return self._created
        found = self._tables.commits.get(revision)
        if found is None:
            raise self._missing(revision)
        return Head(revision=found.revision, at_ms=found.at_ms)

    def _missing(self, revision: int) -> NotFound:
        known = list(self._tables.commits)
        return keeping.no_such_revision(
            revision,
            self.head().revision,
            max((one for one in known if one < revision), default=None),
            min((one for one in known if one > revision), default=None),
        )


def _summary(commit: Commit) -> CommitSummary:
    return CommitSummary(
        revision=commit.revision,
        kind=commit.kind,
        at_ms=commit.at_ms,
        datasources=tuple(
            DatasourceSummary(
                datasource=change.datasource,
                segments=len(change.segments),
                entries_added=len(change.adds),
                entries_dropped=len(change.drops),
                rows=sum(segment.rows for segment in change.segments),
                size_bytes=sum(segment.size_bytes for segment in change.segments),
                covers=change.covers,
            )
            for change in commit.changes
        ),
        writer=commit.writer,
        batch=commit.batch,
        base_revision=commit.base_revision,
        offsets=commit.offsets,
        lookups=tuple(change.name for change in commit.lookups),
        message=commit.message,
    )
