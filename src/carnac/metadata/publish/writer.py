"""Publishing on SQL: everything that one commit writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from carnac.core.log.appending import plan_append
from carnac.core.log.commits import (
    Change,
    Commit,
    DatasourceCommit,
    LockHeld,
    LookupChange,
    Publication,
    Reserved,
)
from carnac.core.log.entries import ENTRY_BITS
from carnac.core.log.positions import NOWHERE, decide_replay, require_writer
from carnac.core.log.publishing import plan_any
from carnac.core.log.records import dump_texts
from carnac.core.time.leases import is_over
from carnac.metadata.publish.chunk_writing import write_chunks
from carnac.metadata.publish.plain_append import PlainAppend, find_plain_append
from carnac.metadata.publish.settling import Newest, settle
from carnac.metadata.publish.view import SqlPublishView
from carnac.metadata.read import rows as r
from carnac.metadata.read.chunk_rows import ChunkRow, keep_reserved
from carnac.metadata.read.reader import load_newest, load_positions
from carnac.metadata.read.retention import (
    cannot_come_back,
    no_writer_lease,
    require_base,
    require_history,
)
from carnac.metadata.session import ABSENT, Row, Session
from carnac.metadata.sql import pending_rows as pending_sql
from carnac.metadata.sql import queries as q
from carnac.metadata.sql import statements as s
from carnac.ports import Head, LeaseKind, Published


def encode_segments(publication: Publication) -> Mapping[str, r.EncodedSegment]:
    """Return the texts of the new segments, by id."""
    return {
        segment.segment_id: r.encode_segment(segment)
        for change in publication.changes
        for segment in change.adds
    }


def prepare(
    publication: Publication, now_ms: Callable[[], int], *, is_far: bool
) -> tuple[Mapping[str, r.EncodedSegment], PlainAppend | None]:
    """Return what is made before the transaction begins: the texts of new segments, and what may write all in one go.

    Args:
        is_far: See `Database`.
    """
    encoded = encode_segments(publication)
    return encoded, find_plain_append(publication, encoded, now_ms) if is_far else None


def look_ahead(session: Session, publications: Sequence[Publication]) -> None:
    """Read with two statements what `write_publication` would ask for each of them: batches and leases."""
    session.recall()
    looked_up = session.looked_up
    batches = [
        [one.writer, one.batch]
        for one in publications
        if one.writer
        and one.batch
        and ("batch", one.writer, one.batch) not in looked_up
        and one.writer.isprintable()  # it is the same text in JSON
        and one.batch.isprintable()
    ]
    if len(batches) > 1:
        looked_up.update((("batch", writer, batch), ABSENT) for writer, batch in batches)
        for writer, batch, *found in session.peek_all(s.FIND_BATCHES, pairs=json.dumps(batches)):
            looked_up["batch", writer, batch] = tuple(found)
    leases = {one.lease_id for one in publications if one.lease_id is not None}
    leases = {one for one in leases if ("lease", one) not in looked_up}
    if len(leases) > 1:
        looked_up.update((("lease", one), ABSENT) for one in leases)
        for row in session.peek_all(s.FIND_LEASES, lease_ids=session.array(leases)):
            looked_up["lease", row[0]] = row


def write_publication(
    session: Session,
    publication: Publication,
    encoded: Mapping[str, r.EncodedSegment],
    now_ms: int,
) -> Published:
    """Plan the publication on the newest revision and write the commit, inside a write transaction.

    Raises:
        Conflict, Invalid, Revoked, NotFound: See `MetadataStore.publish`; nothing has been written then.
    """
    session.recall()
    done = _find_batch(session, publication)
    if done is not None:
        return Published(revision=done[0], at_ms=done[1], is_replay=True, commit=None)
    if publication.offsets or publication.after:
        found = _find_range(session, publication)
        if found is not None:
            return Published(revision=found[0], at_ms=found[1], is_replay=True, commit=None)
    newest: Newest | None = session.memo.get("newest")
    if newest is None:
        newest = session.memo["newest"] = Newest(*load_newest(session))
    head = newest.head
    require_base(publication.base_revision, head.revision)
    check_lease(session, publication.lease_id, now_ms)
    if publication.requirements and not all(
        isinstance(one, LockHeld) for one in publication.requirements
    ):
        oldest = session.row(q.OLDEST)
        require_history(publication.requirements, None if oldest is None else oldest[0])
    view = SqlPublishView(session)
    revision, at_ms = head.revision + 1, max(now_ms, head.at_ms)
    commit = plan_append(view, publication, revision=revision, at_ms=at_ms)
    if commit is not None:
        settled = settle(session, newest, commit)
        _write_append(session, view, commit, encoded, settled_revision=settled)
    else:
        commit = plan_any(view, publication, revision=revision, at_ms=at_ms)
        settled = _write_any(session, view, publication, commit, encoded, newest=newest)
    session.memo_writes = session.writes
    session.memo["newest"] = Newest(Head(revision=revision, at_ms=at_ms), settled)
    return Published(revision=revision, at_ms=at_ms, is_replay=False, commit=commit)


def _write_append(
    session: Session,
    view: SqlPublishView,
    commit: Commit,
    encoded: Mapping[str, r.EncodedSegment],
    *,
    settled_revision: int,
) -> None:
    """Write what `plan_append` has planned: each segment with one entry of the same number, in a chunk that is there.

    `_write_any` would write the same rows, but take longer while all other writers wait.
    """
    (change,) = commit.changes
    datasource_id = view.known_datasource(change.datasource)
    write_commit(session, commit, [datasource_id], settled_revision)
    settles = settled_revision == commit.revision
    schemas = _SchemaSums(datasource_id)
    segments: list[Row] = []
    entries: list[Row] = []
    for segment, entry in zip(change.segments, change.adds, strict=True):
        key, texts = entry.entry_id, encoded[segment.segment_id]
        segments.append(r.segment_row(segment, texts, datasource_id, key))
        entries.append(r.entry_row(entry, datasource_id, key, is_indexed=settles))
        if settles:
            counts = (1, segment.rows, segment.size_bytes)
            schemas.add(texts.digest, texts.schema, key, counts)
    schemas.write(session)
    session.defer(s.INSERT_SEGMENT, segments)
    session.defer(s.INSERT_ENTRY, entries)
    write_chunks(session, view, change, datasource_id, commit.revision, settles=settles)


def _write_any(
    session: Session,
    view: SqlPublishView,
    publication: Publication,
    commit: Commit,
    encoded: Mapping[str, r.EncodedSegment],
    *,
    newest: Newest,
) -> int:
    """Write any commit; returns the revision up to which all is settled then."""
    reserved = {change.datasource for change in publication.changes if change.places}
    writers = [
        _DatasourceWriter(
            session, view, change, commit, encoded, may_found=change.datasource in reserved
        )
        for change in commit.changes
    ]
    for writer in writers:
        writer.prepare()
    ids = [writer.datasource_id for writer in writers]
    settled = settle(session, newest, commit)
    write_commit(session, commit, ids, settled)
    for writer in writers:
        writer.write(settles=settled == commit.revision)
    for change in publication.changes:
        _use_up(session, change)
    return settled


def _use_up(session: Session, change: Change) -> None:
    """Forget the reservations that a publication used."""
    ids = [place.pending_id for place in change.places if isinstance(place, Reserved)]
    if ids:
        session.run(pending_sql.REMOVE, pending_ids=session.array(ids))


def _find_batch(session: Session, publication: Publication) -> Row | None:
    """Return revision and time at which the publication was published before."""
    if publication.writer is None or publication.batch is None:
        return None
    known: Row | None = session.looked_up.get(("batch", publication.writer, publication.batch))
    if known is None:
        return session.peek(s.FIND_BATCH, writer=publication.writer, batch=publication.batch)
    return known or None


def _find_range(session: Session, publication: Publication) -> tuple[int, int] | None:
    """Return revision and time at which the offset range was published before; None: it may be published.

    Raises:
        Conflict: The writer's position is not where the range starts.
        Invalid: The offset range names no writer.
    """
    start, end = publication.after, publication.offsets
    require_writer(publication.writer, start, end)
    writer = publication.writer or ""
    held = load_positions(session, writer)
    revision = decide_replay(writer, start, end, held)
    if revision is None:
        return None
    return next((one.revision, one.at_ms) for one in held.values() if one.revision == revision)


def check_lease(session: Session, lease_id: str | None, now_ms: int) -> None:
    """Refuse a writer whose lease has ended; raises Revoked."""
    if lease_id is None:
        return
    row: Row | None = session.looked_up.get(("lease", lease_id))
    if row is None:
        row = session.peek(s.FIND_LEASE, lease_id=lease_id, now_ms=now_ms)
    lease = r.lease_of(row) if row else None
    if (
        lease is None
        or lease.kind is not LeaseKind.WRITER
        or is_over(lease.heartbeat_at_ms, lease.ttl_ms, now_ms)
    ):
        raise no_writer_lease(lease_id)


def write_commit(
    session: Session,
    commit: Commit,
    datasource_ids: Sequence[int],
    settled_revision: int,
) -> None:
    """Write a commit without what it does to segments, entries and chunks.

    Args:
        datasource_ids: Of the datasources that it changes, in the order of its changes.
        settled_revision: See `settling`.
    """
    session.defer(s.INSERT_COMMIT, [r.commit_row(commit, datasource_ids, settled_revision)])
    if settled_revision == commit.revision:
        changed = [(one, commit.revision) for one in datasource_ids]
        session.defer(s.INSERT_COMMIT_DATASOURCE, changed)
    if commit.offsets:
        _write_positions(session, commit)
    if commit.batch is not None:
        batch = (commit.writer, commit.batch, commit.revision, commit.at_ms)
        session.defer(s.INSERT_BATCH, [batch])
        session.looked_up["batch", commit.writer, commit.batch] = (commit.revision, commit.at_ms)
    if commit.lookups:
        _write_lookups(session, commit.lookups, commit.revision)


def _write_positions(session: Session, commit: Commit) -> None:
    """Move the position of a commit's writer."""
    for source, offset in commit.offsets.items():
        if offset == NOWHERE:
            session.run(s.FORGET_POSITION, writer=commit.writer, source=source)
        else:
            before = commit.after.get(source, NOWHERE)
            row = (commit.writer, source, offset, before, commit.revision, commit.at_ms)
            session.defer_merged(s.PUT_POSITION, row[:2], row)


def _write_lookups(session: Session, changes: Sequence[LookupChange], revision: int) -> None:
    for change in changes:
        session.run(s.DROP_LOOKUP, k_name=change.name, revision=revision)
        if change.mapping is not None:
            session.run(
                s.INSERT_LOOKUP,
                name=change.name,
                added_revision=revision,
                dropped_revision=None,
                mapping=dump_texts(change.mapping),
            )


class _DatasourceWriter:
    """Writes what a commit does to one datasource.

    Args:
        may_found: Whether one of its chunks may have been reserved before it was made.

    Attributes:
        datasource_id: Known once it is prepared.
    """

    def __init__(
        self,
        session: Session,
        view: SqlPublishView,
        change: DatasourceCommit,
        commit: Commit,
        encoded: Mapping[str, r.EncodedSegment],
        *,
        may_found: bool,
    ) -> None:
        self._encoded = encoded
        self._may_found = may_found
        self._session = session
        self._view = view
        self._change = change
        self._revision = commit.revision
        self._ordinal = commit.changes.index(change)
        self._first_segment = sum(len(one.segments) for one in commit.changes[: self._ordinal])
        self.datasource_id = 0
        self._is_new = False
        self._keys: dict[str, int] = {}
        self._known: dict[str, Row] = {}
        self._live_before: set[int] = set()

    def prepare(self) -> None:
        """Read what the writing needs, and refuse what cannot be written.

        Raises:
            NotFound: A segment that comes back into sight is in the trash or unknown.
        """
        change = self._change
        found = self._view.find_datasource(change.datasource)
        self._is_new = found is None
        self.datasource_id = found or self._key(self._ordinal)
        new = {segment.segment_id for segment in change.segments}
        touched = {entry.segment_id for entry in (*change.adds, *change.drops)} - new
        if touched:
            self._read_known(touched)
        self._keys |= {
            segment.segment_id: self._key(self._first_segment + ordinal)
            for ordinal, segment in enumerate(change.segments)
        }

    def write(self, *, settles: bool) -> None:
        """Write the whole change; without `settles`, sums and index are left to a later commit."""
        session, change = self._session, self._change
        if self._is_new:
            session.run(
                s.INSERT_DATASOURCE, datasource_id=self.datasource_id, name=change.datasource
            )
            session.memo["datasource", change.datasource] = self.datasource_id
        session.defer(
            s.INSERT_COVER,
            [
                (self.datasource_id, self._revision, piece.start_ms, piece.end_ms)
                for piece in change.covers
            ],
        )
        schemas = _SchemaSums(self.datasource_id)
        self._write_segments(schemas)
        self._write_entries()
        self._add_restored(schemas)
        if settles:
            schemas.write(session)
        settle = self._settle_reserved if self._may_found else None
        write_chunks(
            session,
            self._view,
            change,
            self.datasource_id,
            self._revision,
            settle=settle,
            settles=settles,
        )

    def _key(self, ordinal: int) -> int:
        return self._revision << ENTRY_BITS | ordinal

    def _read_known(self, touched: set[str]) -> None:
        session = self._session
        for row in session.rows(s.SEGMENT_KEYS, segment_ids=session.array(sorted(touched))):
            self._known[row[0]] = row
            self._keys[row[0]] = row[1]
        dropped = {entry.segment_id for entry in self._change.drops}
        for segment_id in sorted(touched):
            known = self._known.get(segment_id)
            if known is None or (known[5] is not None and segment_id not in dropped):
                raise cannot_come_back(segment_id, self._change.datasource)
        self._live_before = self._live_keys()

    def _live_keys(self) -> set[int]:
        session = self._session
        keys = session.array(row[1] for row in self._known.values())
        return {row[0] for row in session.rows(s.LIVE_SEGMENT_KEYS, segment_keys=keys)}

    def _write_segments(self, schemas: _SchemaSums) -> None:
        found = []
        for segment in self._change.segments:
            encoded = self._encoded[segment.segment_id]
            key = self._keys[segment.segment_id]
            found.append(r.segment_row(segment, encoded, self.datasource_id, key))
            counts = (1, segment.rows, segment.size_bytes)
            schemas.add(encoded.digest, encoded.schema, key, counts)
        self._session.defer(s.INSERT_SEGMENT, found)

    def _add_restored(self, schemas: _SchemaSums) -> None:
        """Count the known segments that this commit brought into sight or took out of it."""
        if not self._known:
            return
        live_after = self._live_keys()
        for _, key, digest, rows, size_bytes, _ in self._known.values():
            sign = (key in live_after) - (key in self._live_before)
            if sign:
                schemas.add(digest, "[]", key, (sign, sign * rows, sign * size_bytes))

    def _write_entries(self) -> None:
        session, change = self._session, self._change
        if change.drops:
            session.run(
                s.DROP_ENTRIES,
                entry_ids=session.array(entry.entry_id for entry in change.drops),
                revision=self._revision,
            )
        session.defer(
            s.INSERT_ENTRY,
            [
                r.entry_row(entry, self.datasource_id, self._keys[entry.segment_id])
                for entry in change.adds
            ],
        )

    def _settle_reserved(self, row: ChunkRow) -> ChunkRow:
        """Return the row with the ids that others have reserved in its chunk used up."""
        datasource = self._change.datasource
        for founded in self._view.pending_chunks(datasource, row.interval):
            kept = keep_reserved(row, founded) if founded.interval == row.interval else None
            if kept is not None:
                self._session.run(
                    pending_sql.REMOVE_CHUNK,
                    datasource=datasource,
                    start_ms=row.interval.start_ms,
                    end_ms=row.interval.end_ms,
                )
                return kept
        return row


class _SchemaSums:
    """The changes of a commit to the sums of each schema of a datasource; negative where it removes."""

    def __init__(self, datasource_id: int) -> None:
        self._datasource_id = datasource_id
        self._sums: dict[int, tuple[str, int, list[int]]] = {}

    def add(self, digest: int, columns: str, first_key: int, counts: tuple[int, int, int]) -> None:
        """Add segments, rows and bytes. `columns` and `first_key` matter only if the schema is new."""
        _, _, sums = self._sums.setdefault(digest, (columns, first_key, [0, 0, 0]))
        for index, count in enumerate(counts):
            sums[index] += count

    def write(self, session: Session) -> None:
        """Add them up."""
        for digest, (columns, first_key, sums) in self._sums.items():
            row = (self._datasource_id, digest, columns, first_key, *sums)
            session.defer_merged(s.ADD_TO_SCHEMA, row[:2], row, r.add_schema_rows)
