"""Forgetting history on SQL.

One transaction: forget commits; forget the entries and lookups that no kept revision shows and no kept commit
dropped; put the segments that only they named into the trash; unite the covers of what is forgotten; drop key frames
that no kept revision would start from, and whatever has become empty. Only the gaps between kept revisions in which
something is forgotten now are looked at, so a regular trim costs what was written since the last one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from sqlalchemy import bindparam, delete, func, literal_column, select, update

from carnac.core.entries import ENTRY_BITS
from carnac.core.intervals import Interval
from carnac.core.records import load_segment
from carnac.core.segments import Segment
from carnac.metadata import pending_rows
from carnac.metadata import queries as q
from carnac.metadata import retention as keeping
from carnac.metadata import statements as s
from carnac.metadata import tables as t
from carnac.metadata.retention import Kept, RetainedRevision
from carnac.metadata.session import IsIn, Row, Session, statement
from carnac.ports import Head, TrimReport

p = bindparam
BATCH = 5_000
"""Keys in one statement."""

OLDEST_READER = statement(
    lambda: select(func.min(t.leases.c.revision)).where(
        t.leases.c.kind == literal_column("'reader'"), t.leases.c.expires_at_ms > p("now_ms")
    )
)
DROPPED_IN = statement(
    lambda: select(
        t.entries.c.entry_id, t.entries.c.segment_key, t.entries.c.dropped_revision
    ).where(t.entries.c.dropped_revision.between(p("first"), p("last")))
)
LIVES_OF = statement(
    lambda: select(
        t.entries.c.segment_key, t.entries.c.entry_id, t.entries.c.dropped_revision
    ).where(IsIn(t.entries.c.segment_key, "segment_keys"))
)
UNTRASHED = statement(
    lambda: select(t.segments.c.segment_key, t.segments.c.record).where(
        IsIn(t.segments.c.segment_key, "segment_keys"), t.segments.c.trashed_at_ms.is_(None)
    )
)
GONE_NAMED = statement(
    lambda: (
        select(t.segments.c.segment_id, t.entries.c.entry_id, t.entries.c.dropped_revision)
        .join(t.segments, t.segments.c.segment_key == t.entries.c.segment_key)
        .where(t.entries.c.dropped_revision.is_not(None), t.segments.c.trashed_at_ms.is_(None))
        .order_by(t.entries.c.entry_id)
    )
)
LIVE_AMONG = statement(
    lambda: (
        select(t.segments.c.segment_id)
        .join(t.entries, t.segments.c.segment_key == t.entries.c.segment_key)
        .where(IsIn(t.segments.c.segment_id, "segment_ids"), t.entries.c.dropped_revision.is_(None))
    )
)
SET_UNTIL = statement(
    lambda: (
        update(t.commits)
        .where(t.commits.c.revision == p("k_revision"))
        .values(until_ms=p("until_ms"))
    )
)
DELETE_COMMITS = statement(
    lambda: delete(t.commits).where(t.commits.c.revision.between(p("first"), p("last")))
)
DELETE_COMMIT_DATASOURCES = statement(
    lambda: delete(t.commit_datasources).where(
        t.commit_datasources.c.revision.between(p("first"), p("last"))
    )
)
DELETE_ENTRIES = statement(lambda: delete(t.entries).where(IsIn(t.entries.c.entry_id, "ids")))
TRASH = statement(
    lambda: (
        update(t.segments)
        .where(IsIn(t.segments.c.segment_key, "segment_keys"))
        .values(trashed_at_ms=p("at_ms"))
    )
)
GONE_LOOKUPS = statement(
    lambda: select(
        t.lookups.c.name, t.lookups.c.added_revision, t.lookups.c.dropped_revision
    ).where(t.lookups.c.dropped_revision.is_not(None))
)
DELETE_LOOKUP = statement(
    lambda: delete(t.lookups).where(
        t.lookups.c.name == p("name"), t.lookups.c.added_revision == p("added_revision")
    )
)
COVERS_IN = statement(
    lambda: select(
        t.covers.c.datasource_id, t.covers.c.revision, t.covers.c.start_ms, t.covers.c.end_ms
    ).where(t.covers.c.revision.between(p("first"), p("last")))
)
DELETE_COVERS = statement(
    lambda: delete(t.covers).where(t.covers.c.revision.between(p("first"), p("last")))
)
FRAMES = statement(
    lambda: select(
        t.key_frames.c.datasource_id,
        t.key_frames.c.chunk_start,
        t.key_frames.c.chunk_end,
        t.key_frames.c.revision,
    ).order_by(
        t.key_frames.c.datasource_id,
        t.key_frames.c.chunk_start,
        t.key_frames.c.chunk_end,
        t.key_frames.c.revision,
    )
)
DELETE_FRAME = statement(
    lambda: delete(t.key_frames).where(
        t.key_frames.c.datasource_id == p("datasource_id"),
        t.key_frames.c.chunk_start == p("chunk_start"),
        t.key_frames.c.chunk_end == p("chunk_end"),
        t.key_frames.c.revision == p("revision"),
    )
)
DELETE_DEAD_CHUNKS = statement(
    lambda: delete(t.chunks).where(
        t.chunks.c.entries == t.ZERO,
        t.chunks.c.revision <= p("oldest"),
        ~select(t.entries.c.entry_id)
        .where(
            t.entries.c.datasource_id == t.chunks.c.datasource_id,
            t.entries.c.chunk_start == t.chunks.c.start_ms,
            t.entries.c.chunk_end == t.chunks.c.end_ms,
            t.entries.c.dropped_revision.is_not(None),
        )
        .exists(),
    )
)
DELETE_BATCHES = statement(lambda: delete(t.batches).where(t.batches.c.at_ms < p("before_ms")))


def trim(
    session: Session,
    keep: Callable[[Sequence[Head]], set[int]],
    *,
    dry_run: bool,
    now_ms: int,
    batch_retention_ms: int,
) -> TrimReport:
    """Forget what is not kept, inside a write transaction: see `MetadataStore.trim`."""
    retained = [RetainedRevision(*row) for row in session.rows(q.RETAINED)]
    heads = [one.head() for one in retained]
    oldest_lease = session.row(OLDEST_READER, now_ms=now_ms)
    kept = keeping.plan_kept(
        heads,
        keep(heads),
        tagged={row[1] for row in session.rows(s.TAGS)},
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
    )
    if dry_run:
        return report
    session.run_many(
        SET_UNTIL,
        [
            {"k_revision": revision, "until_ms": until_ms}
            for revision, until_ms in keeping.plan_until(retained, kept).items()
        ],
    )
    for keys in _batches(key for key, _ in trashed):
        session.run(TRASH, segment_keys=session.array(keys), at_ms=now_ms)
    for ids in _batches(entry_ids):
        session.run(DELETE_ENTRIES, ids=session.array(ids))
    for first, last in gaps:
        session.run(DELETE_COMMITS, first=first, last=last)
        session.run(DELETE_COMMIT_DATASOURCES, first=first, last=last)
        _unite_covers(session, first, last)
    _forget_lookups(session, kept)
    _forget_frames(session, kept)
    session.run(s.SWEEP_LEASES, now_ms=now_ms)
    pending_rows.forget(session, pending_rows.SWEEP)
    session.run(DELETE_BATCHES, before_ms=now_ms - batch_retention_ms)
    session.run(DELETE_DEAD_CHUNKS, oldest=report.oldest_revision)
    return report


def _forgettable(
    session: Session, kept: Kept, gaps: Iterable[tuple[int, int]]
) -> tuple[list[int], list[int]]:
    """Return the entries to forget, and the segments that no kept revision sees."""
    entry_ids: list[int] = []
    touched: dict[int, None] = {}
    for first, last in gaps:
        for entry_id, segment_key, dropped in session.rows(DROPPED_IN, first=first, last=last + 1):
            added = entry_id >> ENTRY_BITS
            if not kept.sees(added, dropped):
                touched[segment_key] = None
                if not kept.needs(added, dropped):
                    entry_ids.append(entry_id)
    unseen = dict(touched)
    for keys in _batches(touched):
        for segment_key, entry_id, dropped in session.rows(
            LIVES_OF, segment_keys=session.array(keys)
        ):
            if kept.sees(entry_id >> ENTRY_BITS, dropped):
                unseen.pop(segment_key, None)
    return entry_ids, list(unseen)


def _records(session: Session, segment_keys: Sequence[int]) -> list[tuple[int, Segment]]:
    found = [
        (row[0], load_segment(row[1]))
        for keys in _batches(segment_keys)
        for row in session.rows(UNTRASHED, segment_keys=session.array(keys))
    ]
    return sorted(found, key=lambda pair: pair[0])


def _reasons(session: Session, kept: Kept) -> dict[str, str]:
    """Return why segments that are not visible now stay: the oldest kept revision that sees them."""
    first: dict[str, int] = {}
    for segment_id, entry_id, dropped in session.rows(GONE_NAMED):
        seen = kept.first_seeing(entry_id >> ENTRY_BITS, dropped)
        if seen is not None and segment_id not in first:
            first[segment_id] = seen
    live = {
        row[0]
        for ids in _batches(first)
        for row in session.rows(LIVE_AMONG, segment_ids=session.array(ids))
    }
    tags: dict[int, list[str]] = defaultdict(list)
    for name, revision, _ in session.rows(s.TAGS):
        tags[revision].append(name)
    return {
        segment_id: keeping.reason(revision, tags.get(revision, ()))
        for segment_id, revision in first.items()
        if segment_id not in live
    }


def _unite_covers(session: Session, first: int, last: int) -> None:
    covers: dict[int, list[tuple[int, Interval]]] = defaultdict(list)
    for datasource_id, revision, start, end in session.rows(COVERS_IN, first=first, last=last):
        covers[datasource_id].append((revision, Interval(start, end)))
    if not covers:
        return
    session.run(DELETE_COVERS, first=first, last=last)
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
    gone = session.rows(GONE_LOOKUPS)
    session.run_many(
        DELETE_LOOKUP,
        [
            {"name": name, "added_revision": added}
            for name, added, dropped in gone
            if not kept.sees(added, dropped)
        ],
    )


def _forget_frames(session: Session, kept: Kept) -> None:
    """Forget the frames from which no kept revision would start: no kept one between a frame and the next."""
    frames = session.rows(FRAMES)
    useless: list[Row] = []
    followers = [*frames[1:], None] if frames else []
    for frame, following in zip(frames, followers, strict=True):
        next_revision = (
            following[3] if following is not None and following[:3] == frame[:3] else None
        )
        if not kept.sees(frame[3], next_revision):
            useless.append(frame)
    names = ("datasource_id", "chunk_start", "chunk_end", "revision")
    session.run_many(DELETE_FRAME, [dict(zip(names, row, strict=True)) for row in useless])


def _batches(keys: Iterable[object]) -> Iterable[list[object]]:
    waiting = iter(keys)
    while batch := list(islice(waiting, BATCH)):
        yield batch


# ---------------------------------------------------------------------------------------------------- the trash

TRASHED = statement(
    lambda: (
        select(t.segments.c.record, t.segments.c.trashed_at_ms)
        .where(t.segments.c.trashed_at_ms.is_not(None))
        .order_by(t.segments.c.segment_key)
    )
)
FORGET_SEGMENTS = statement(
    lambda: delete(t.segments).where(
        IsIn(t.segments.c.segment_id, "segment_ids"), t.segments.c.trashed_at_ms.is_not(None)
    )
)
DELETE_EMPTY_SCHEMAS = statement(
    lambda: delete(t.schemas).where(
        t.schemas.c.segments == t.ZERO,
        ~select(t.segments.c.segment_key)
        .where(
            t.segments.c.datasource_id == t.schemas.c.datasource_id,
            t.segments.c.digest == t.schemas.c.digest,
        )
        .exists(),
    )
)


DELETE_EMPTY_DATASOURCES = statement(
    lambda: delete(t.datasources).where(
        ~select(t.commit_datasources.c.revision)
        .where(t.commit_datasources.c.datasource_id == t.datasources.c.datasource_id)
        .exists(),
        ~select(t.schemas.c.digest)
        .where(t.schemas.c.datasource_id == t.datasources.c.datasource_id)
        .exists(),
        ~select(t.covers.c.revision)
        .where(t.covers.c.datasource_id == t.datasources.c.datasource_id)
        .exists(),
        ~select(t.chunks.c.revision)
        .where(t.chunks.c.datasource_id == t.datasources.c.datasource_id)
        .exists(),
    )
)
KNOWN_PATHS = statement(lambda: select(t.segments.c.path))


def forget_segments(session: Session, segment_ids: Iterable[str]) -> None:
    """Remove the records of trashed segments, and what is empty without them."""
    for ids in _batches(segment_ids):
        session.run(FORGET_SEGMENTS, segment_ids=session.array(ids))
    session.run(DELETE_EMPTY_SCHEMAS)
    session.run(DELETE_EMPTY_DATASOURCES)
