"""Forgetting history on SQL.

One transaction: forget commits; forget the entries and lookups that no kept revision shows and no kept commit dropped;
put the segments that only they named into the trash; unite the covers of what is forgotten, which a revert leaves
behind for what it brought back; drop key frames that no kept revision would start from, and chunks, schemas and
datasources that have become empty. Only the gaps between kept revisions in which something is forgotten now are looked
at, so a regular trim costs what was written since the last one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import TypeAlias

from carnac.core.log.entries import ENTRY_BITS
from carnac.core.log.reverting import difference_of
from carnac.core.segments.record import load_segment
from carnac.core.segments.segment import Segment
from carnac.core.time.intervals import Interval, interval_set
from carnac.metadata.locking import pending_rows
from carnac.metadata.read import retention as keeping
from carnac.metadata.read.history import load_commit
from carnac.metadata.read.retention import Kept, RetainedRevision
from carnac.metadata.session import Row, Session
from carnac.metadata.sql import queries as q
from carnac.metadata.sql import serving
from carnac.metadata.sql import statements as s
from carnac.metadata.sql import trimming as sql
from carnac.ports import Head, TrimReport

BATCH = 5_000
"""Keys in one statement."""
_Cover: TypeAlias = tuple[int, int, Interval]
"""The datasource's id, the revision, and the covered interval."""


def trim(
    session: Session,
    keep: Callable[[Sequence[Head]], set[int]],
    *,
    dry_run: bool,
    now_ms: int,
    batches_before_ms: int | None,
) -> TrimReport:
    """Forget what is not kept, inside a write transaction: see `MetadataStore.trim`."""
    retained = [RetainedRevision(*row) for row in session.rows(q.RETAINED)]
    heads = [one.head() for one in retained]
    oldest_lease = session.row(sql.OLDEST_READER, now_ms=now_ms)
    told = session.row(serving.TOLD)
    kept = keeping.plan_kept(
        heads,
        keep(heads),
        tagged={row[1] for row in session.rows(s.TAGS)},
        told=None if told is None else told[0],
        oldest_lease=None if oldest_lease is None else oldest_lease[0],
    )
    forgotten = [one.revision for one in retained if one.revision not in kept]
    gaps = sorted({kept.gap_around(revision) for revision in forgotten})
    entry_ids, segment_keys = _forgettable(session, kept, gaps)
    trashed = _records(session, segment_keys)
    report = TrimReport(
        revisions_kept=len(kept.revisions),
        revisions_trimmed=len(forgotten),
        oldest_revision=kept.revisions[0] if kept.revisions else 0,
        trashed=tuple(segment for _, segment in trashed),
        reasons=_reasons(session, kept),
        batches_forgotten=_count_old_batches(session, batches_before_ms),
    )
    if dry_run:
        return report
    session.run_many(
        sql.SET_UNTIL,
        [
            {"k_revision": revision, "until_ms": until_ms}
            for revision, until_ms in keeping.plan_until(retained, kept).items()
        ],
    )
    restored = _restored(session, gaps)
    for keys in _batches(key for key, _ in trashed):
        session.run(sql.TRASH, segment_keys=session.array(keys), at_ms=now_ms)
    for ids in _batches(entry_ids):
        session.run(sql.DELETE_ENTRIES, ids=session.array(ids))
    for first, last in gaps:
        _unite_covers(session, first, last, restored)
        session.run(sql.DELETE_COMMITS, first=first, last=last)
    if gaps:
        session.run(sql.DELETE_COMMIT_DATASOURCES)
    _forget_lookups(session, kept)
    _forget_frames(session, kept)
    session.run(s.SWEEP_LEASES, now_ms=now_ms)
    pending_rows.sweep(session, now_ms)
    if report.batches_forgotten:
        session.run(sql.DELETE_OLD_BATCHES, before_ms=batches_before_ms)
    session.run(sql.DELETE_DEAD_CHUNKS, oldest=report.oldest_revision)
    return report


def _count_old_batches(session: Session, before_ms: int | None) -> int:
    row = None if before_ms is None else session.row(sql.COUNT_OLD_BATCHES, before_ms=before_ms)
    return 0 if row is None else int(row[0])


def _forgettable(
    session: Session, kept: Kept, gaps: Iterable[tuple[int, int]]
) -> tuple[list[int], list[int]]:
    """Return the entries to forget, and the segments that no kept revision sees."""
    entry_ids: list[int] = []
    touched: dict[int, None] = {}
    for first, last in gaps:
        for entry_id, segment_key, dropped in session.rows(
            sql.DROPPED_IN, first=first, last=last + 1
        ):
            added = entry_id >> ENTRY_BITS
            if not kept.sees(added, dropped):
                touched[segment_key] = None
                if not kept.needs(added, dropped):
                    entry_ids.append(entry_id)
    unseen = dict(touched)
    for keys in _batches(touched):
        for segment_key, entry_id, dropped in session.rows(
            sql.LIVES_OF, segment_keys=session.array(keys)
        ):
            if kept.sees(entry_id >> ENTRY_BITS, dropped):
                unseen.pop(segment_key, None)
    return entry_ids, list(unseen)


def _records(session: Session, segment_keys: Sequence[int]) -> list[tuple[int, Segment]]:
    found = [
        (row[0], load_segment(row[1]))
        for keys in _batches(segment_keys)
        for row in session.rows(sql.UNTRASHED, segment_keys=session.array(keys))
    ]
    return sorted(found, key=lambda pair: pair[0])


def _reasons(session: Session, kept: Kept) -> dict[str, str]:
    """Return why segments that are not visible now stay: the oldest kept revision that sees them."""
    first: dict[str, int] = {}
    for segment_id, entry_id, dropped in session.rows(sql.GONE_NAMED):
        seen = kept.first_seeing(entry_id >> ENTRY_BITS, dropped)
        if seen is not None and segment_id not in first:
            first[segment_id] = seen
    live = {
        row[0]
        for ids in _batches(first)
        for row in session.rows(sql.LIVE_AMONG, segment_ids=session.array(ids))
    }
    tags: dict[int, list[str]] = defaultdict(list)
    for name, revision, _ in session.rows(s.TAGS):
        tags[revision].append(name)
    return {
        segment_id: keeping.reason(revision, tags.get(revision, ()))
        for segment_id, revision in first.items()
        if segment_id not in live
    }


def _restored(session: Session, gaps: Iterable[tuple[int, int]]) -> list[_Cover]:
    """Return the intervals that reverts brought back into sight, for reverts that are to be forgotten.

    A commit from before the gap must not be reverted as if such a revert had not been made. Entries that it brought
    back may have been rewritten.
    """
    reverts = [
        row[0]
        for first, last in gaps
        for row in session.rows(sql.REVERTS_IN, first=first, last=last)
    ]
    if not reverts:
        return []
    ids = {name: datasource_id for datasource_id, name in session.rows(s.DATASOURCES)}
    return [
        (ids[change.datasource], revision, piece)
        for revision in reverts
        for change in load_commit(session, revision).changes
        for piece in interval_set(chain(*difference_of(change)[0].values()))
    ]


def _unite_covers(session: Session, first: int, last: int, restored: Iterable[_Cover]) -> None:
    covers: dict[int, list[tuple[int, Interval]]] = defaultdict(list)
    for datasource_id, revision, start, end in session.rows(sql.COVERS_IN, first=first, last=last):
        covers[datasource_id].append((revision, Interval(start, end)))
    for datasource_id, revision, piece in restored:
        if first <= revision <= last:
            covers[datasource_id].append((revision, piece))
    if not covers:
        return
    session.run(sql.DELETE_COVERS, first=first, last=last)
    if first == 1:
        return  # nobody can ask what came after a revision before the oldest
    session.run_many(
        s.INSERT_COVER,
        [
            {
                "datasource_id": datasource_id,
                "revision": revision,
                "start_ms": piece.start_ms,
                "end_ms": piece.end_ms,
            }
            for datasource_id, found in covers.items()
            for revision, piece in keeping.unite_covers(found)
        ],
    )


def _forget_lookups(session: Session, kept: Kept) -> None:
    gone = session.rows(sql.GONE_LOOKUPS)
    session.run_many(
        sql.DELETE_LOOKUP,
        [
            {"name": name, "added_revision": added}
            for name, added, dropped in gone
            if not kept.sees(added, dropped)
        ],
    )


def _forget_frames(session: Session, kept: Kept) -> None:
    """Forget the frames from which no kept revision would start: no kept one between a frame and the next."""
    frames = session.rows(sql.FRAMES)
    useless: list[Row] = []
    followers = [*frames[1:], None] if frames else []
    for frame, following in zip(frames, followers, strict=True):
        next_revision = (
            following[3] if following is not None and following[:3] == frame[:3] else None
        )
        if not kept.sees(frame[3], next_revision):
            useless.append(frame)
    names = ("datasource_id", "chunk_start", "chunk_end", "revision")
    session.run_many(sql.DELETE_FRAME, [dict(zip(names, row, strict=True)) for row in useless])


def _batches(keys: Iterable[object]) -> Iterable[list[object]]:
    waiting = iter(keys)
    while batch := list(islice(waiting, BATCH)):
        yield batch


# ---------------------------------------------------------------------------------------------------- the trash


def forget_segments(session: Session, segment_ids: Iterable[str]) -> None:
    """Remove the records of trashed segments, and what is empty without them."""
    for ids in _batches(segment_ids):
        session.run(sql.FORGET_SEGMENTS, segment_ids=session.array(ids))
    session.run(sql.DELETE_EMPTY_SCHEMAS)
    session.run(sql.DELETE_EMPTY_DATASOURCES)
