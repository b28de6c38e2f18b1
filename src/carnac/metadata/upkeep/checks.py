"""Gauges, small rules, and the proof that what the store sums up equals what it sums."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from carnac.core.locks.laws import check_locks
from carnac.core.log import laws
from carnac.core.log.entries import ENTRY_BITS, Entry
from carnac.core.log.positions import NOWHERE, Move, check_tiling
from carnac.core.log.records import load_commit_details, load_ids
from carnac.core.segments.record import load_segment
from carnac.core.tasks.laws import check_tasks
from carnac.core.tasks.model import Attempt
from carnac.core.time.intervals import Interval, interval_text
from carnac.errors import CarnacError
from carnac.metadata.locking.locks import load_locks
from carnac.metadata.read.chunk_rows import ChunkRow, summarise
from carnac.metadata.read.reader import load_all_positions, load_chunk_rows
from carnac.metadata.read.rows import entry_of
from carnac.metadata.records.tasks import load_all_tasks
from carnac.metadata.session import Session
from carnac.metadata.sql import checks as sql
from carnac.metadata.sql import queries as q
from carnac.metadata.sql import statements as s


def find_problems(session: Session) -> Iterator[str]:
    """Yield a sentence for each contradiction."""
    yield from _broken(check_locks, load_locks(session))
    tasks, attempts = load_all_tasks(session)
    by_task: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        by_task[attempt.task_id].append(attempt)
    yield from _broken(check_tasks, tasks, by_task)
    yield from _check_positions(session)
    for (entry_id,) in session.rows(sql.LEFT_OUT):
        yield f"entry {entry_id} is in no index, and is not to be indexed any more"
    for datasource_id, name in session.rows(s.DATASOURCES):
        live = {
            row[0]: (entry_of(row), row[2])
            for row in session.rows(sql.LIVE_OF, datasource_id=datasource_id)
        }
        entries = [entry for entry, _ in live.values()]
        yield from _broken(laws.check_entries, name, entries)
        yield from _check_chunks(session, datasource_id, name, entries)
        yield from _check_schemas(session, datasource_id, name, {key for _, key in live.values()})
        yield from _check_frames(session, datasource_id, name)


def _broken(law: Callable[..., None], *found: object) -> Iterator[str]:
    try:
        law(*found)
    except CarnacError as error:
        yield error.message


def _check_positions(session: Session) -> Iterator[str]:
    """The ranges tile (PO-1), but for those that were trimmed, and positions are where the last of them ended."""
    places = {row[0]: place for place, row in enumerate(session.rows(q.RETAINED))}
    runs: dict[int, list[Move]] = defaultdict(
        list
    )  # by revision minus place: between gaps it is the same
    ends: dict[tuple[str, str], tuple[int, str]] = {}
    for revision, writer, details in session.stream(sql.MOVES):
        found = load_commit_details(details)
        if found.offsets:
            move = Move(revision, writer, found.after, found.offsets)
            runs[revision - places[revision]].append(move)
            ends.update({(writer, name): (revision, end) for name, end in found.offsets.items()})
    for run in runs.values():
        yield from _broken(check_tiling, run)
    held = {(one.writer, one.source): one for one in load_all_positions(session)}
    for key in sorted(held.keys() | ends.keys()):
        revision, end = ends.get(key, (0, NOWHERE))
        one = held.get(key)
        is_there = NOWHERE if one is None else one.offset
        moved = revision if one is None else one.revision
        if moved < revision or (moved in places and (moved, is_there) != (revision, end)):
            yield (
                f"writer '{key[0]}' stands in '{key[1]}' at {is_there or 'nowhere'} by commit {moved}, and commit "
                f"{revision} moved it to {end or 'nowhere'}"
            )


def _check_chunks(
    session: Session, datasource_id: int, name: str, entries: list[Entry]
) -> Iterator[str]:
    by_chunk: dict[Interval, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_chunk[entry.chunk].append(entry)
    rows = {row.interval: row for row in load_chunk_rows(session, sql.CHUNKS_OF, datasource_id)}
    for interval in sorted(rows.keys() | by_chunk.keys()):
        row, members = rows.get(interval), by_chunk.get(interval, [])
        if row is None or not _agrees(row, members):
            yield (
                f"chunk {interval_text(interval)} of {name} is recorded as {row}, but has {len(members)} "
                f"live entries that differ"
            )


def _agrees(row: ChunkRow, entries: list[Entry]) -> bool:
    next_id = max((entry.next_partition_id for entry in entries), default=0)
    highest_major = max((entry.version.major_ms for entry in entries), default=row.top_major_ms)
    newest = max((entry.added_revision for entry in entries), default=0)
    return (
        row.entries == len(entries)
        and row.live == summarise(entries)
        and row.next_partition_id >= next_id
        and row.top_major_ms >= highest_major
        and row.revision >= newest
    )


def _check_schemas(
    session: Session, datasource_id: int, name: str, live_keys: set[int]
) -> Iterator[str]:
    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    known: set[int] = set()
    for key, digest, rows, size_bytes, record, path in session.rows(
        sql.SEGMENTS_OF, datasource_id=datasource_id
    ):
        known.add(key)
        segment = load_segment(record)
        if (segment.rows, segment.size_bytes, segment.path) != (rows, size_bytes, path):
            yield f"segment {segment.segment_id} of {name} differs between its record and its row"
        if key in live_keys:
            for index, count in enumerate((1, rows, size_bytes)):
                sums[digest][index] += count
    if live_keys - known:
        yield f"{len(live_keys - known)} live segments of {name} have no record"
    for owner, digest, _, _, *unsettled in session.rows(s.UNSETTLED_SCHEMAS):
        if owner == datasource_id:
            sums[digest] = [
                live - count for live, count in zip(sums[digest], unsettled, strict=True)
            ]
    for digest, *recorded in session.rows(sql.SCHEMAS_OF, datasource_id=datasource_id):
        if recorded != sums.pop(digest, [0, 0, 0]):
            yield f"the sums of schema {digest} of {name} differ from its live segments"
    for digest in [digest for digest, counts in sums.items() if any(counts)]:
        yield f"schema {digest} of {name} has live segments but no record"


def _check_frames(session: Session, datasource_id: int, name: str) -> Iterator[str]:
    """A key frame names what was live; entries forgotten since may be missing from the table, no more."""
    frames = session.rows(sql.FRAMES_OF, datasource_id=datasource_id)
    if not frames:
        return
    lives: dict[tuple[int, int], list[tuple[int, int | None]]] = defaultdict(list)
    for entry_id, start, end, dropped in session.rows(sql.ALL_OF, datasource_id=datasource_id):
        lives[start, end].append((entry_id, dropped))
    for start, end, revision, text in frames:
        expected = {
            entry_id
            for entry_id, dropped in lives[start, end]
            if entry_id >> ENTRY_BITS <= revision and (dropped is None or dropped > revision)
        }
        if not expected <= set(load_ids(text)):
            yield f"the key frame of {name} at revision {revision} misses entries of chunk {Interval(start, end)}"
