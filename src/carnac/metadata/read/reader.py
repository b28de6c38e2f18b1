"""Reading states of datasources from SQL: now through the live indexes, the past through key frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from carnac.core.log.entries import ENTRY_BITS, VisibleSegment
from carnac.core.log.positions import SourcePosition
from carnac.core.log.records import load_ids
from carnac.core.segments.record import load_schema, load_stored_segment
from carnac.core.segments.schema import unite_columns
from carnac.core.segments.segment import Column, ColumnType, Segment
from carnac.core.time.intervals import ETERNITY, Interval, IntervalSet, interval_set
from carnac.metadata.read.chunk_rows import ChunkRow
from carnac.metadata.read.rows import chunk_row_of, entry_of, schema_of
from carnac.metadata.row_forms import RowForm
from carnac.metadata.session import Row, Session
from carnac.metadata.sql import queries as q
from carnac.metadata.sql import statements as s
from carnac.metadata.sql.dialects import Statement
from carnac.ports import DatasourceInfo, Head

PIECES_LIMIT = 64
"""Above so many pieces an interval set is read as its hull and filtered afterwards."""
CACHED_SEGMENTS = 10_000
POSITIONS = RowForm(SourcePosition)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The three statements that read entries with the same extra columns."""

    live: Statement
    added: Statement
    framed: Statement


SEGMENTS = Wanted(q.LIVE_SEGMENTS, q.ADDED_SEGMENTS, q.FRAME_SEGMENTS)
LATE = Wanted(q.LIVE_LATE, q.ADDED_LATE, q.FRAME_LATE)
NUMBERS = Wanted(q.LIVE_NUMBERS, q.ADDED_NUMBERS, q.FRAME_NUMBERS)


@lru_cache(maxsize=CACHED_SEGMENTS)
def decode_segment(record: str) -> Segment:
    """Return the segment of a record. Records never change, so they are decoded once while they are in use."""
    return load_stored_segment(record)


def load_head(session: Session) -> Head:
    """Return the newest revision."""
    return load_newest(session)[0]


def load_newest(session: Session) -> tuple[Head, int]:
    """Return the newest revision, and the one up to which all is settled (`publish.settling`)."""
    row = session.row(s.HEAD) or (0, *(session.row(s.ORIGIN) or (0,)), 0)
    return Head(revision=row[0], at_ms=row[1]), row[2]


def find_datasource(session: Session, name: str) -> int | None:
    """Return the id of a datasource; None if the store does not know it."""
    row = session.row(s.FIND_DATASOURCE, name=name)
    return None if row is None else int(row[0])


def load_chunks(session: Session, datasource_id: int, interval: Interval | None) -> list[ChunkRow]:
    """Return the live chunks that overlap, in order of time."""
    stated = q.LIVE_CHUNKS if interval is None else s.CHUNKS_LIVE_OVER
    return load_chunk_rows(session, stated, datasource_id, interval)


def load_chunk_rows(
    session: Session,
    stated: Statement,
    datasource_id: int,
    interval: Interval | None = None,
    *,
    are_settled: bool = False,
) -> list[ChunkRow]:
    """Return the chunks of a query for whole rows of `chunks`, with what these do not count yet.

    Args:
        interval: Interval that the query asks about; None: it asks about no time.
        are_settled: Whether it is known that they count all (`publish.settling`).
    """
    where = {} if interval is None else {"start_ms": interval.start_ms, "end_ms": interval.end_ms}
    rows = session.rows(stated, datasource_id=datasource_id, **where)
    if not rows:
        return []
    unsettled = () if are_settled else session.rows(s.UNSETTLED_CHUNKS)
    grown = {row[4:]: row[:4] for row in unsettled}
    return [chunk_row_of(row, grown.get(row[:3])) for row in rows]


def load_visible(
    session: Session,
    datasource_id: int,
    revision: int | None,
    intervals: IntervalSet | None,
    wanted: Wanted = SEGMENTS,
) -> list[VisibleSegment]:
    """Return what is visible at a retained revision (None: now), in order of chunk and partition id."""
    rows = load_rows(session, wanted, datasource_id, revision, intervals)
    found = [
        VisibleSegment(segment=decode_segment(row[q.ENTRY_WIDTH + 1]), entry=entry_of(row))
        for row in rows
    ]
    if intervals is not None:
        found = [
            one for one in found if one.entry.clip is None or one.entry.clip.intersect(intervals)
        ]
    return found


def load_rows(
    session: Session,
    wanted: Wanted,
    datasource_id: int,
    revision: int | None,
    intervals: IntervalSet | None,
) -> list[Row]:
    """Return the rows of the entries whose hull overlaps, in order of chunk and partition id."""
    pieces = _pieces(intervals)
    found: dict[int, Row] = {}
    for piece in pieces:
        rows = (
            _live_rows(session, wanted, datasource_id, piece)
            if revision is None
            else _past_rows(session, wanted, datasource_id, piece, revision)
        )
        for row in rows:
            found[row[0]] = row
    overlaps = _overlap_test(intervals)
    kept = [row for row in found.values() if overlaps(row[8], row[9])]
    kept.sort(key=lambda row: (row[4], row[13], row[0]))
    return kept


def _pieces(intervals: IntervalSet | None) -> Sequence[Interval]:
    if intervals is None:
        return (ETERNITY,)
    span = intervals.span()
    if len(intervals) > PIECES_LIMIT and span is not None:
        return (span,)
    return intervals.intervals


def _overlap_test(intervals: IntervalSet | None) -> Callable[[int, int], bool]:
    if intervals is None or len(intervals) <= PIECES_LIMIT:
        return lambda _start, _end: True
    wanted = intervals
    return lambda start, end: wanted.overlaps(Interval(start, end))


def _live_rows(session: Session, wanted: Wanted, datasource_id: int, piece: Interval) -> list[Row]:
    first = session.row(q.FIRST_CHUNK_START, datasource_id=datasource_id, start_ms=piece.start_ms)
    start = piece.start_ms if first is None or first[0] is None else first[0]
    return session.rows(
        wanted.live,
        datasource_id=datasource_id,
        first_start=start,
        start_ms=piece.start_ms,
        end_ms=piece.end_ms,
    )


def _past_rows(
    session: Session, wanted: Wanted, datasource_id: int, piece: Interval, revision: int
) -> Iterator[Row]:
    """Yield the entries that were there, chunk by chunk; chunks unchanged since then are read as they are now."""
    ever = load_chunk_rows(session, s.CHUNKS_EVER_OVER, datasource_id, piece)
    unchanged: list[Interval] = []
    for row in ever:
        if row.revision > revision:
            past = _past_chunk(session, wanted, datasource_id, row.interval, revision)
            yield from (found for found in past if _overlaps(found, piece))
        elif row.entries:
            unchanged.append(row.interval)
    alike = set(unchanged)
    for run in interval_set(unchanged):
        for found in _live_rows(session, wanted, datasource_id, run):
            if Interval(found[4], found[5]) in alike and _overlaps(found, piece):
                yield found


def _past_chunk(
    session: Session,
    wanted: Wanted,
    datasource_id: int,
    chunk: Interval,
    revision: int,
) -> list[Row]:
    place = {
        "datasource_id": datasource_id,
        "start_ms": chunk.start_ms,
        "end_ms": chunk.end_ms,
    }
    frame = session.row(q.FIND_FRAME, **place, revision=revision)
    rows: list[Row] = []
    if frame is not None:
        ids = session.array(load_ids(frame[1]))
        rows += session.rows(wanted.framed, entry_ids=ids, revision=revision)
    rows += session.rows(
        wanted.added,
        **place,
        first_id=(0 if frame is None else frame[0] + 1) << ENTRY_BITS,
        end_id=(revision + 1) << ENTRY_BITS,
        revision=revision,
    )
    return rows


def _overlaps(row: Row, piece: Interval) -> bool:
    return bool(row[8] < piece.end_ms and row[9] > piece.start_ms)


def load_columns(
    session: Session, datasource_id: int, revision: int | None
) -> dict[str, ColumnType]:
    """Return the united schema."""
    return dict(unite_columns(load_schemas(session, datasource_id, revision)))


def load_schemas(
    session: Session, datasource_id: int, revision: int | None
) -> list[tuple[Column, ...]]:
    """Return the schemas; of the past from the counted ones, too, and what has changed since."""
    schemas = {row[0]: row[1:] for row in session.rows(q.SCHEMAS, datasource_id=datasource_id)}
    seen = {digest: segments for digest, (_, segments) in schemas.items()}
    for owner, digest, record, _, segments, *_ in session.rows(s.UNSETTLED_SCHEMAS):
        if owner == datasource_id:
            seen[digest] = seen.get(digest, 0) + segments
            schemas.setdefault(digest, (schema_of(record), segments))
    if revision is not None:
        since = _since(datasource_id, revision)
        for digest, _, segments in session.rows(q.ADDED_SINCE, **since):
            seen[digest] -= segments
        there = [*session.rows(q.DROPPED_SINCE, revision=revision, **since)]
        there += session.rows(q.KEPT_SINCE, **since)
        seen.update({row[0]: 1 for row in there})
    return [load_schema(columns) for digest, (columns, _) in schemas.items() if seen[digest] > 0]


def count_entries(session: Session, datasource_id: int, revision: int | None) -> int:
    """Return the number of visible entries: those of now, without what came since and with what went."""
    row = session.row(q.COUNT_LIVE, datasource_id=datasource_id)
    count = 0 if row is None else int(row[0])
    if revision is None:
        return count
    since = _since(datasource_id, revision)
    came = sum(int(row[1]) for row in session.rows(q.ADDED_SINCE, **since))
    went = sum(int(row[1]) for row in session.rows(q.DROPPED_SINCE, revision=revision, **since))
    return count - came + went


def _since(datasource_id: int, revision: int) -> dict[str, int]:
    """Return what says which entries are younger than a revision."""
    return {"datasource_id": datasource_id, "first_id": (revision + 1) << ENTRY_BITS}


def load_positions(session: Session, writer: str) -> Mapping[str, SourcePosition]:
    """Return the positions of a writer, by source."""
    found = sorted(
        map(POSITIONS.value, session.rows(s.FIND_POSITIONS, writer=writer)), key=_by_name
    )
    return {one.source: one for one in found}


def load_all_positions(session: Session) -> tuple[SourcePosition, ...]:
    """Return the positions of all writers, by writer and source."""
    return tuple(sorted(map(POSITIONS.value, session.rows(s.POSITIONS)), key=_by_name))


def _by_name(position: SourcePosition) -> tuple[str, str]:
    return position.writer, position.source


def load_infos(session: Session, head: int) -> list[DatasourceInfo]:
    """Return the datasources that have something visible now, by name: from the sums, without their entries."""
    totals = {row[0]: row[1:] for row in session.rows(q.LIVE_TOTALS)}
    last_change = _last_changes(session, head)
    return [
        DatasourceInfo(
            name=name,
            segments=int(totals[datasource_id][0]),
            chunks=chunks,
            rows=int(totals[datasource_id][1]),
            size_bytes=int(totals[datasource_id][2]),
            interval=Interval(start, end),
            revision=last_change(datasource_id),
        )
        for datasource_id, name, chunks, start, end in sorted(
            session.rows(q.LIVE_EXTENTS), key=lambda row: str(row[1])
        )
    ]


def load_past_infos(session: Session, revision: int) -> list[DatasourceInfo]:
    """Return the datasources that had something visible at a retained revision, by name."""
    infos = []
    last_change = _last_changes(session, revision)
    for datasource_id, name in sorted(session.rows(s.DATASOURCES), key=lambda row: str(row[1])):
        rows = load_rows(session, NUMBERS, datasource_id, revision, None)
        if rows:
            segments = {row[q.ENTRY_WIDTH]: row[q.ENTRY_WIDTH + 2 :] for row in rows}
            infos.append(
                DatasourceInfo(
                    name=name,
                    segments=len(segments),
                    chunks=len({(row[4], row[5]) for row in rows}),
                    rows=sum(count for count, _ in segments.values()),
                    size_bytes=sum(size for _, size in segments.values()),
                    interval=Interval(min(row[8] for row in rows), max(row[9] for row in rows)),
                    revision=last_change(datasource_id),
                )
            )
    return infos


def _last_changes(session: Session, revision: int) -> Callable[[int], int]:
    """Return what finds the last retained commit up to `revision` that changed a datasource; else `revision`."""
    unsettled: dict[int, int] = dict(session.rows(q.UNSETTLED_CHANGES, revision=revision))

    def last_change(datasource_id: int) -> int:
        if datasource_id in unsettled:
            return unsettled[datasource_id]
        row = session.row(q.LAST_CHANGE, datasource_id=datasource_id, revision=revision)
        return revision if row is None or row[0] is None else int(row[0])

    return last_change
