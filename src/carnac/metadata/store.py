"""The metadata store over a `Database`: the log and what is derived from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from carnac.core.log.records import load_texts
from carnac.core.segments.record import load_segment
from carnac.errors import NotFound, Revoked
from carnac.metadata.names import renewed, require_tag_name
from carnac.metadata.read import history, reader
from carnac.metadata.read.reader import load_head
from carnac.metadata.read.retention import require_whole
from carnac.metadata.read.rows import lease_of
from carnac.metadata.records.allocation_records import AllocationRecords
from carnac.metadata.records.compaction_records import CompactionRecords
from carnac.metadata.records.erasure_records import ErasureRecords
from carnac.metadata.records.server_records import ServerRecords
from carnac.metadata.records.stream_records import StreamRecords
from carnac.metadata.records.task_records import TaskRecords
from carnac.metadata.records.user_records import UserRecords
from carnac.metadata.sql import pending_rows as pending_sql
from carnac.metadata.sql import queries as q
from carnac.metadata.sql import statements as s
from carnac.ports import Lease, LeaseKind, Tag, TrashedSegment

if TYPE_CHECKING:
    from carnac.core.locks.events import LockEvent, LockReply
    from carnac.core.locks.model import Lock
    from carnac.core.log.commits import Commit, CommitSummary, Publication
    from carnac.core.log.entries import Chunk, VisibleSegment
    from carnac.core.segments.segment import Column, ColumnType, Segment
    from carnac.core.time.intervals import Interval, IntervalSet
    from carnac.metadata.session import Session
    from carnac.ports import (
        DatasourceInfo,
        Head,
        Published,
        TrimReport,
    )


class MetadataStore(
    TaskRecords,
    AllocationRecords,
    CompactionRecords,
    ErasureRecords,
    ServerRecords,
    StreamRecords,
    UserRecords,
):
    """The log and what is derived from it. Safe for use by many threads and processes at once.

    Errors, besides those named: Unavailable when the database does not answer; Corrupt when a record is not readable.
    """

    # ------------------------------------------------------------------------------------------------ the log

    def settings(self) -> Mapping[str, str]:
        """Return the store's own settings (for example `deep_storage`)."""
        with self._read() as session:
            return {row[0]: row[1] for row in session.rows(s.SETTINGS)}

    def put_settings(self, settings: Mapping[str, str]) -> None:
        """Add or overwrite settings."""
        rows = [{"name": name, "value": value} for name, value in settings.items()]
        self._write(lambda session: session.run_many(s.PUT_SETTING, rows))

    def head(self) -> Head:
        """Return the newest revision."""
        with self._read() as session:
            return load_head(session)

    def publish(self, publication: Publication) -> Published:
        """Publish in one transaction, or change nothing.

        Raises:
            Conflict: A requirement does not hold; names the commit in the way.
            Invalid: The publication contradicts itself.
            Revoked: The publication's lease is gone, or a lock that it is published under.
        """
        from carnac.metadata.publish.writer import prepare, write_publication

        now_ms = self._clock.now_ms
        encoded, plain = prepare(publication, now_ms, is_far=self._database.is_far)
        return self._queue.submit(
            lambda session: write_publication(session, publication, encoded, now_ms()),
            publication,
            plain=plain,
        )

    def find_batch(self, writer: str, batch: str) -> int | None:
        """Return the revision under which the batch was published; None if it was not."""
        with self._read() as session:
            row = session.row(s.FIND_BATCH, writer=writer, batch=batch)
            return None if row is None else row[0]

    def resolve(self, at: int | str | None) -> Head:
        """Return the retained revision that `at` means.

        Args:
            at: None: the newest. An int or a string of digits: that revision. A tag's name. Else a time as
                `parse_instant` takes it: the last revision published at or before it.

        Raises:
            NotFound: No such revision, tag or commit, or it has been trimmed; says what there is.
        """
        with self._read() as session:
            if at is not None:
                self._see_erasures(session)
            return history.resolve(session, at)

    def changes(self, *, after: int, limit: int = 1000) -> tuple[Commit, ...]:
        """Return the commits after revision `after`, oldest first, whole.

        Raises:
            NotFound: A commit after `after` has been trimmed, so the changes are no longer whole: start anew.
        """
        with self._read() as session:
            newest = load_head(session).revision
            commits = history.load_commits(session, after, limit)
        return require_whole(commits, after, newest)

    def log(
        self, *, datasource: str | None = None, before: int | None = None, limit: int = 50
    ) -> tuple[CommitSummary, ...]:
        """Return the newest commits (before revision `before`), newest first."""
        with self._read() as session:
            return tuple(history.load_log(session, datasource, before, limit))

    def commit(self, revision: int) -> Commit:
        """Return one commit, whole.

        Raises:
            NotFound: No such commit, or trimmed.
        """
        with self._read() as session:
            return history.load_commit(session, revision)

    # -------------------------------------------------------------------------------------------- datasources

    def datasources(self, revision: int | None = None) -> tuple[DatasourceInfo, ...]:
        """Return the datasources that have visible segments at the revision, by name."""
        with self._read() as session:
            past = _past(session, revision)
            if past is None:
                return tuple(reader.load_infos(session, load_head(session).revision))
            return tuple(reader.load_past_infos(session, past))

    def require_datasource(self, datasource: str, revision: int | None = None) -> None:
        """Refuse a datasource that has no rows at a revision (None: the newest). Costs no scan of segments.

        Raises:
            NotFound: The datasource has no rows; says which ones have.
        """
        if not self.count_visible(datasource, revision=revision):
            names = ", ".join(info.name for info in self.datasources(revision))
            where = "" if revision in {None, self.head().revision} else f" at revision {revision}"
            raise NotFound(
                f"there is no datasource '{datasource}'{where}; there are {names or 'none yet'}",
                datasource=datasource,
            )

    def chunks(self, datasource: str, *, interval: Interval | None = None) -> tuple[Chunk, ...]:
        """Return the live chunks that overlap `interval` (None: all), in order of time."""
        with self._read() as session:
            found = reader.find_datasource(session, datasource)
            if found is None:
                return ()
            return tuple(row.chunk() for row in reader.load_chunks(session, found, interval))

    def newest_ms(self, datasource: str) -> int | None:
        """Return the last visible instant; None if nothing is visible. Costs no scan of segments."""
        with self._read() as session:
            found = reader.find_datasource(session, datasource)
            row = None if found is None else session.row(q.SHOWN_END, datasource_id=found)
            return None if row is None or row[0] is None else row[0] - 1

    def visible(
        self, datasource: str, *, revision: int | None = None, intervals: IntervalSet | None = None
    ) -> Sequence[VisibleSegment]:
        """Return the entries visible at the revision, with their segments, in order of chunk and partition id.

        Args:
            revision: Must be retained; None is the newest.
            intervals: Only entries whose visible instants overlap these; None: all.
        """
        return self._visible(datasource, revision, intervals, reader.SEGMENTS)

    def visible_late(
        self, datasource: str, *, revision: int | None = None, intervals: IntervalSet | None = None
    ) -> Sequence[VisibleSegment]:
        """Return those of `visible` whose segments hold late rows; no other record is read."""
        found = self._visible(datasource, revision, intervals, reader.LATE)
        return tuple(one for one in found if one.segment.late is not None)

    def _visible(
        self,
        datasource: str,
        revision: int | None,
        intervals: IntervalSet | None,
        wanted: reader.Wanted,
    ) -> tuple[VisibleSegment, ...]:
        with self._read() as session:
            past = _past(session, revision)
            found = reader.find_datasource(session, datasource)
            if found is None:
                return ()
            return tuple(reader.load_visible(session, found, past, intervals, wanted))

    def columns(self, datasource: str, *, revision: int | None = None) -> Mapping[str, ColumnType]:
        """Return the united schema of the segments visible at the revision, without `__time`.

        A column that differs between segments has the widest of its types (`core.schemas.unite_types`). In order of
        first appearance. Cheap: through the distinct schemas of the datasource, not through its segments. Empty if
        nothing is visible.
        """
        with self._read() as session:
            past = _past(session, revision)
            found = reader.find_datasource(session, datasource)
            return {} if found is None else reader.load_columns(session, found, past)

    def schemas(
        self, datasource: str, *, revision: int | None = None
    ) -> Sequence[tuple[Column, ...]]:
        """Return the schemas that `columns` unites, each once, without `__time` and statistics."""
        with self._read() as session:
            past = _past(session, revision)
            found = reader.find_datasource(session, datasource)
            return [] if found is None else reader.load_schemas(session, found, past)

    def count_visible(self, datasource: str, *, revision: int | None = None) -> int:
        """Return the number of entries visible at the revision. Cheap for the newest one (from the chunks)."""
        with self._read() as session:
            past = _past(session, revision)
            found = reader.find_datasource(session, datasource)
            return 0 if found is None else reader.count_entries(session, found, past)

    def find_segment(self, segment_id: str) -> Segment | None:
        """Return a segment's record; None if the store does not know it."""
        with self._read() as session:
            row = session.row(q.FIND_SEGMENT, segment_id=segment_id)
            return None if row is None else load_segment(row[0])

    def segments(self, *, after: str = "", limit: int = 1000) -> tuple[Segment, ...]:
        """Return the segments that a retained revision names (all but the trash), in order of id, a page at a time.

        Args:
            after: Only those with an id after this one: the last id of the page before.
            limit: Most segments to return.
        """
        with self._read() as session:
            rows = session.rows(q.SEGMENTS_AFTER, after=after, limit=limit)
            return tuple(load_segment(record) for (record,) in rows)

    def lookups(self, revision: int | None = None) -> Mapping[str, Mapping[str, str]]:
        """Return the lookups at the revision, by name."""
        found = self.lookups_with_revisions(revision)
        return {name: mapping for name, (_, mapping) in found.items()}

    def lookups_with_revisions(
        self, revision: int | None = None
    ) -> Mapping[str, tuple[int, Mapping[str, str]]]:
        """Return the lookups at the revision, by name: the revision that set each, and its mapping."""
        with self._read() as session:
            past = _past(session, revision)
            at = load_head(session).revision if past is None else past
            rows = session.rows(q.LOOKUPS_AT, revision=at)
            return {
                name: (int(added), load_texts(mapping)) for name, added, mapping in sorted(rows)
            }

    # ---------------------------------------------------------------------------------------- tags and leases

    def put_tag(self, name: str, revision: int) -> Tag:
        """Name a retained revision; moves the tag if it exists."""
        require_tag_name(name)
        tag = Tag(name=name, revision=revision, created_at_ms=self._clock.now_ms())

        def work(session: Session) -> Tag:
            history.require_retained(session, revision)
            session.run(s.PUT_TAG, name=name, revision=revision, created_at_ms=tag.created_at_ms)
            return tag

        return self._write(work)

    def remove_tag(self, name: str) -> None:
        """Remove a tag.

        Raises:
            NotFound: There is no such tag.
        """

        def work(session: Session) -> None:
            if session.row(s.FIND_TAG, name=name) is None:
                raise NotFound(f"there is no tag '{name}'", tag=name)
            session.run(s.REMOVE_TAG, name=name)

        self._write(work)

    def tags(self) -> tuple[Tag, ...]:
        """Return all tags by name."""
        with self._read() as session:
            return tuple(
                Tag(name=name, revision=revision, created_at_ms=created_at_ms)
                for name, revision, created_at_ms in sorted(session.rows(s.TAGS))
            )

    def acquire_lease(
        self, kind: LeaseKind, *, holder: str, ttl_ms: int, revision: int | None = None
    ) -> Lease:
        """Return a new lease on `revision` (None: the newest) and later ones.

        Raises:
            NotFound: The revision is not retained.
        """
        lease_id = self._ids.new_id()
        now_ms = self._clock.now_ms()

        def work(session: Session) -> Lease:
            head = (
                load_head(session)
                if revision is None
                else history.require_retained(session, revision)
            )
            lease = Lease(
                lease_id=lease_id,
                kind=kind,
                revision=head.revision,
                holder=holder,
                acquired_at_ms=now_ms,
                expires_at_ms=now_ms + ttl_ms,
                ttl_ms=ttl_ms,
            )
            session.run(s.SWEEP_LEASES, now_ms=now_ms)
            if kind is LeaseKind.WRITER:
                from carnac.metadata.locking import pending_rows

                pending_rows.sweep(session, now_ms)
            session.run(
                s.INSERT_LEASE,
                lease_id=lease_id,
                kind=str(kind),
                revision=lease.revision,
                holder=holder,
                acquired_at_ms=now_ms,
                expires_at_ms=lease.expires_at_ms,
                ttl_ms=ttl_ms,
            )
            return lease

        return self._write_lease(work)

    def renew_lease(self, lease_id: str, *, ttl_ms: int, revision: int | None = None) -> Lease:
        """Prolong a lease, and move it to a newer revision if one is given.

        Raises:
            Revoked: The lease has expired or was released.
        """
        now_ms = self._clock.now_ms()

        def work(session: Session) -> Lease:
            row = session.row(s.FIND_LEASE, lease_id=lease_id, now_ms=now_ms)
            if row is None:
                raise Revoked(
                    f"lease {lease_id} has expired or was released; start anew", lease_id=lease_id
                )
            lease = renewed(lease_of(row), now_ms, ttl_ms, revision)
            # a writer's base may be trimmed: it keeps files, not revisions
            if lease.kind is LeaseKind.READER:
                history.require_retained(session, lease.revision)
            session.run(
                s.MOVE_LEASE,
                k_lease_id=lease_id,
                revision=lease.revision,
                expires_at_ms=lease.expires_at_ms,
                ttl_ms=ttl_ms,
            )
            return lease

        return self._write_lease(work)

    def release_lease(self, lease_id: str) -> None:
        """End a lease. Idempotent."""

        def work(session: Session) -> None:
            session.run(s.RELEASE_LEASE, lease_id=lease_id)
            session.run(pending_sql.REMOVE_OF_LEASE, lease_id=lease_id)

        self._write_lease(work)

    def leases(self) -> tuple[Lease, ...]:
        """Return the leases that have not expired."""
        with self._read() as session:
            rows = session.rows(s.LEASES, now_ms=self._clock.now_ms())
            return tuple(lease_of(row) for row in rows)

    # -------------------------------------------------------------------------------------------------- locks

    def change_locks(self, event: LockEvent) -> LockReply:
        """Apply an event to the lockbox, in one transaction; return its answer.

        `core.locks.machine.decide` makes the decision, at the store's own time.

        Raises:
            Invalid: The event contradicts itself.
            NotFound: There is no such lock to break.
        """
        from carnac.metadata.locking import locks as sql_locks

        return self._write(
            lambda session: sql_locks.change_locks(session, event, self._clock.now_ms())
        )

    def locks(self, datasource: str | None = None) -> tuple[Lock, ...]:
        """Return the locks of a datasource (None: of all), waiting and revoked ones too, in order of arrival."""
        from carnac.metadata.locking import locks as sql_locks

        with self._read() as session:
            return sql_locks.load_locks(session, datasource)

    # --------------------------------------------------------------------- retention, garbage, self-examination

    def trim(
        self,
        *,
        keep: Callable[[Sequence[Head]], set[int]],
        dry_run: bool,
        batches_before_ms: int | None = None,
    ) -> TrimReport:
        """Forget revisions that are not kept, and mark as trash the segments that only they named.

        The newest revision, tagged ones, the told one, and those from the oldest live reader lease on are always kept.

        Args:
            keep: Given all retained revisions, oldest first, returns those that the retention rules keep.
            batches_before_ms: Also forget each `(writer, batch)` that was published before, unless it is the newest
                of its writer: one that comes again is new. None: none.
        """
        from carnac.metadata.upkeep import trimming

        def work(session: Session) -> TrimReport:
            return trimming.trim(
                session,
                keep,
                dry_run=dry_run,
                now_ms=self._clock.now_ms(),
                batches_before_ms=batches_before_ms,
            )

        if not dry_run:
            return self._write(work)
        with self._read() as session:
            return work(session)

    def trashed(self) -> tuple[TrashedSegment, ...]:
        """Return the segments in the trash."""
        from carnac.metadata.sql import trimming as trimming_sql

        with self._read() as session:
            return tuple(
                TrashedSegment(segment=load_segment(record), trashed_at_ms=at_ms)
                for record, at_ms in session.rows(trimming_sql.TRASHED)
            )

    def forget_segments(self, segment_ids: Iterable[str]) -> None:
        """Remove the records of trashed segments whose files are deleted."""
        from carnac.metadata.upkeep import trimming

        ids = list(segment_ids)
        self._write(lambda session: trimming.forget_segments(session, ids))

    def known_paths(self) -> frozenset[str]:
        """Return the paths of all segments that have a record, trash included."""
        from carnac.metadata.sql import trimming as trimming_sql

        with self._read() as session:
            return frozenset(row[0] for row in session.stream(trimming_sql.KNOWN_PATHS))

    def check(self) -> tuple[str, ...]:
        """Return what in the records contradicts itself, a sentence each; nothing if all is well. Reads all of them."""
        from carnac.metadata.upkeep import checks

        with self._read() as session:
            return tuple(checks.find_problems(session))


def _past(session: Session, revision: int | None) -> int | None:
    """Return a retained revision that is not the newest; None if it is.

    Raises:
        NotFound: The revision is not retained.
    """
    if revision is None or revision == load_head(session).revision:
        return None
    return history.require_retained(session, revision).revision
