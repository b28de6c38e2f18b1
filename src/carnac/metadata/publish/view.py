"""The state that a publish reads inside its transaction: `PublishView` on SQL."""

from __future__ import annotations

from collections.abc import Sequence

from carnac.core.locks.model import Lock
from carnac.core.log.allocation import Key, PendingChunk, PendingSegment
from carnac.core.log.entries import Chunk, Entry, EntryLife
from carnac.core.segments.segment import Column
from carnac.core.time.intervals import Interval
from carnac.metadata.locking import pending_rows
from carnac.metadata.locking.locks import SqlLockView
from carnac.metadata.read.chunk_rows import ChunkRow
from carnac.metadata.read.reader import load_chunk_rows, load_schemas
from carnac.metadata.read.rows import entry_of, life_of
from carnac.metadata.session import Session
from carnac.metadata.sql import statements as s
from carnac.metadata.sql.dialects import Statement


class SqlPublishView:
    """The newest revision, and what this transaction needs to know again when it writes, or plans its next commit."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._rows: dict[tuple[int, Interval], ChunkRow | None] = session.recall().setdefault(
            "chunks", {}
        )

    def find_datasource(self, name: str) -> int | None:
        """Return the datasource's id; None if the store has never seen it."""
        known: int | None = self._session.memo.get(("datasource", name))
        if known is None:
            row = self._session.row(s.FIND_DATASOURCE, name=name)
            if row is not None:
                known = int(row[0])
                self._session.memo["datasource", name] = known
        return known

    def known_datasource(self, name: str) -> int:
        """Return the id of a datasource of which this view has shown something."""
        known: int = self._session.memo["datasource", name]
        return known

    def find_row(self, datasource_id: int, interval: Interval) -> ChunkRow | None:
        """Return what is known of an interval that is or was a chunk; None if it never was."""
        key = (datasource_id, interval)
        if key not in self._rows:
            found = self._load(s.FIND_CHUNK, datasource_id, interval)
            self._rows[key] = found[0] if found else None
        return self._rows[key]

    def keep_row(self, datasource_id: int, row: ChunkRow) -> None:
        """Know an interval's row as this transaction has just written it."""
        self._rows[datasource_id, row.interval] = row

    def chunks(self, datasource: str, interval: Interval) -> Sequence[Chunk]:
        """Return the live chunks that overlap `interval`, in order of time."""
        datasource_id = self.find_datasource(datasource)
        if datasource_id is None:
            return ()
        known = self._rows.get((datasource_id, interval))
        if known is not None and known.live is not None:  # live chunks are disjoint (CH-1)
            return (known.chunk(),)
        rows = self._load(s.CHUNKS_LIVE_OVER, datasource_id, interval)
        for row in rows:
            self._rows[datasource_id, row.interval] = row
        return [row.chunk() for row in rows]

    def entries(self, datasource: str, interval: Interval) -> Sequence[Entry]:
        """Return the live entries of the live chunks that overlap `interval`."""
        datasource_id = self.find_datasource(datasource)
        return [
            entry_of(row)
            for chunk in self.chunks(datasource, interval)
            for row in self._session.rows(
                s.LIVE_ENTRIES_OF_CHUNK,
                datasource_id=datasource_id,
                start_ms=chunk.interval.start_ms,
                end_ms=chunk.interval.end_ms,
            )
        ]

    def entries_of(self, datasource: str, segment_ids: Sequence[str]) -> Sequence[Entry]:
        """Return the live entries of these segments."""
        datasource_id = self.find_datasource(datasource)
        if datasource_id is None or not segment_ids:
            return ()
        rows = self._session.rows(
            s.LIVE_ENTRIES_OF_SEGMENTS,
            datasource_id=datasource_id,
            segment_ids=self._session.array(segment_ids),
        )
        return [entry_of(row) for row in rows]

    def highest_major_ms(self, datasource: str, interval: Interval) -> int | None:
        """Return the highest major version on record of chunks that overlap `interval`."""
        datasource_id = self.find_datasource(datasource)
        if datasource_id is None:
            return None
        rows = self._load(s.CHUNKS_EVER_OVER, datasource_id, interval)
        self._rows.setdefault((datasource_id, interval), None)
        for row in rows:
            self._rows[datasource_id, row.interval] = row
        return max((row.top_major_ms for row in rows), default=None)

    def dropped_by(self, datasource: str, segment_id: str, after_revision: int) -> int | None:
        """Return the last commit after `after_revision` that dropped an entry of the segment."""
        row = self._session.row(
            s.DROPPED_BY,
            datasource_id=self.find_datasource(datasource),
            segment_id=segment_id,
            after=after_revision,
        )
        return None if row is None else row[0]

    def lives_after(
        self,
        datasource: str,
        segment_ids: Sequence[str],
        after_revision: int,
        leaving: Sequence[str],
    ) -> Sequence[EntryLife]:
        """Return the entries of these segments that were live at `after_revision` or later."""
        rows = self._session.rows(
            s.LIVES_AFTER,
            datasource_id=self.find_datasource(datasource),
            segment_ids=self._session.array(segment_ids),
            after=after_revision,
            leaving=self._session.array(leaving),
        )
        return [life_of(row) for row in rows]

    def covering_after(
        self, datasource: str, interval: Interval, after_revision: int
    ) -> int | None:
        """Return the last commit after `after_revision` whose `covers` overlaps `interval`."""
        return self._newest(s.COVERING_AFTER, datasource, interval, after_revision)

    def lookup_set_by(self, name: str) -> int | None:
        """Return the commit that set the lookup to what it is; None if there is no such lookup."""
        row = self._session.row(s.LOOKUP_SET_BY, name=name)
        return None if row is None else int(row[0])

    def schemas(self, datasource: str) -> Sequence[Sequence[Column]]:
        """Return the schemas of the live entries, each once."""
        found = self.find_datasource(datasource)
        return [] if found is None else load_schemas(self._session, found, None)

    def locks(self, lock_ids: Sequence[int]) -> Sequence[Lock]:
        """Return those of the locks that there are."""
        return SqlLockView(self._session).find(lock_ids)

    def pending(self, pending_ids: Sequence[str]) -> Sequence[PendingSegment]:
        """Return those of the reservations that there are."""
        return pending_rows.load_by_id(self._session, pending_ids)

    def pending_chunks(self, datasource: str, interval: Interval) -> Sequence[PendingChunk]:
        """Return the reserved chunks that overlap `interval`."""
        return pending_rows.load_chunks(self._session, datasource, interval)

    def find_pending(self, keys: Sequence[Key]) -> Sequence[PendingSegment]:
        """Return the reservations that were made for these requests."""
        return pending_rows.load_by_request(self._session, keys)

    def _load(self, stated: Statement, datasource_id: int, interval: Interval) -> list[ChunkRow]:
        newest = self._session.memo.get("newest")
        return load_chunk_rows(
            self._session,
            stated,
            datasource_id,
            interval,
            are_settled=newest is not None and newest.settled_revision == newest.head.revision,
        )

    def _newest(
        self, stated: Statement, datasource: str, interval: Interval, after: int
    ) -> int | None:
        row = self._session.row(
            stated,
            datasource_id=self.find_datasource(datasource),
            start_ms=interval.start_ms,
            end_ms=interval.end_ms,
            after=after,
        )
        return None if row is None else row[0]
