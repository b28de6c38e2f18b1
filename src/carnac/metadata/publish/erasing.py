"""Erasing on SQL: segments that history names are named anew, in one transaction with a commit that says so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from carnac.core.log.commits import Commit, CommitKind, DatasourceCommit
from carnac.core.log.entries import ENTRY_BITS
from carnac.core.log.erasing import Erased, Erasure
from carnac.core.log.mentions import Mentions
from carnac.core.log.records import (
    dump_interval_set,
    dump_sums,
    load_changes,
    load_interval_set,
)
from carnac.core.segments.record import load_segment
from carnac.core.segments.segment import RangePartition, Segment
from carnac.core.time.intervals import IntervalSet
from carnac.errors import Conflict, NotFound
from carnac.metadata.publish.settling import Newest, settle
from carnac.metadata.publish.writer import check_lease, write_commit
from carnac.metadata.read import rows as r
from carnac.metadata.read.reader import load_newest
from carnac.metadata.session import Params, Row, Session
from carnac.metadata.sql import erasing as sql
from carnac.metadata.sql import statements as s
from carnac.ports import Head, Published

Named: TypeAlias = Sequence[tuple[int, Erased]]
"""Segments by key that a revision names still."""


def write_erasure(session: Session, erasure: Erasure, now_ms: int) -> Published:
    """Name segments anew wherever they are named, and write the commit, inside a write transaction.

    A segment that is unknown or in the trash by now is left out: no revision names it, unless by another id, under
    which it was not searched.

    Raises:
        Conflict: One of the segments is visible again, or a segment is there that was not searched.
        NotFound: There is no such datasource.
        Revoked: The lease has ended.
    """
    session.recall()
    newest = Newest(*load_newest(session))
    check_lease(session, erasure.lease_id, now_ms)
    row = session.row(s.FIND_DATASOURCE, name=erasure.datasource)
    if row is None:
        raise NotFound(f"there is no datasource '{erasure.datasource}'")
    datasource_id = int(row[0])
    _require_searched(session, erasure, datasource_id)
    named = _named(session, erasure)
    revision, at_ms = newest.head.revision + 1, max(now_ms, newest.head.at_ms)
    commit = Commit(
        revision=revision,
        kind=CommitKind.ERASE,
        at_ms=at_ms,
        changes=(DatasourceCommit(datasource=erasure.datasource),),
        message=erasure.message,
    )
    settled = settle(session, newest, commit)
    write_commit(session, commit, [datasource_id], settled)
    _name_anew(session, datasource_id, named)
    session.run_many(
        sql.INSERT_FILE,
        [{"path": one.old.path, "revision": revision, "at_ms": now_ms} for _, one in named],
    )
    session.run(s.PUT_SETTING, name=sql.EDITION_SETTING, value=str(revision))
    _take_out_quotes(session, datasource_id, erasure)
    session.memo_writes = session.writes
    session.memo.clear()
    session.memo["newest"] = Newest(Head(revision=revision, at_ms=at_ms), settled)
    return Published(revision=revision, at_ms=at_ms, is_replay=False, commit=commit)


def _require_searched(session: Session, erasure: Erasure, datasource_id: int) -> None:
    """Refuse if a segment is there that may hold such rows, as after a rewrite by others or another erasure."""
    known = erasure.searched | {one.old.segment_id for one in erasure.segments}
    unknown = next(
        (
            segment_id
            for segment_id, key, kind in session.stream(sql.RETAINED, datasource_id=datasource_id)
            if segment_id not in known
            and not (kind == CommitKind.APPEND and key >> ENTRY_BITS > erasure.base_revision)
        ),
        None,
    )
    if unknown is not None:
        raise Conflict(f"segment {unknown} came while others were searched for an erasure; retry")


def _named(session: Session, erasure: Erasure) -> Named:
    ids = [one.old.segment_id for one in erasure.segments]
    rows = session.rows(s.SEGMENT_KEYS, segment_ids=session.array(ids))
    keys = {row[0]: row[1] for row in rows if row[5] is None}
    live = session.row(s.LIVE_SEGMENT_KEYS, segment_keys=session.array(keys.values()))
    if live is not None:
        raise Conflict("a segment that was to be erased from history is visible again; retry")
    return [
        (keys[one.old.segment_id], one) for one in erasure.segments if one.old.segment_id in keys
    ]


def _name_anew(session: Session, datasource_id: int, named: Named) -> None:
    keys = [key for key, _ in named]
    naming = session.rows(sql.ENTRIES_NAMING, segment_keys=session.array(keys))
    touched = {key >> ENTRY_BITS for key in keys} | {one[0] >> ENTRY_BITS for one in naming}
    touched |= {one[1] for one in naming if one[1] is not None}
    clips: dict[int, dict[int, str | None]] = defaultdict(dict)
    for entry_id, _, key, clip in naming:
        clips[key][entry_id] = clip
    gone = []
    for key, one in named:
        entries = {} if one.new is None else _entries_naming(one.new, clips[key])
        session.run_many(sql.NAME_IN_ENTRY, [*entries.values()])
        hidden = clips[key].keys() - entries.keys()
        session.run(sql.DELETE_ENTRIES, entry_ids=session.array(sorted(hidden)))
        if one.new is None or not entries:
            gone.append(key)
            continue
        encoded = r.encode_segment(one.new)
        session.run(s.ADD_TO_SCHEMA, **_no_sums(datasource_id, encoded, key))
        _put_record(session, r.segment_row(one.new, encoded, datasource_id, key))
    session.run(sql.DELETE_SEGMENTS, segment_keys=session.array(gone))
    _count_anew(session, datasource_id, sorted(touched))


def _entries_naming(new: Segment, clips: Mapping[int, str | None]) -> dict[int, Params]:
    """Return how entries name a segment of a smaller span, by id; those that show nothing of it are left out."""
    span, found = new.span, dict[int, Params]()
    for entry_id, clip in clips.items():
        whole = IntervalSet((span,))
        shown = whole if clip is None else load_interval_set(clip).intersect(whole)
        hull = shown.span()
        if hull is not None:
            found[entry_id] = {
                "segment_id": new.segment_id,
                "span_start": span.start_ms,
                "span_end": span.end_ms,
                "clip": None if shown == whole else dump_interval_set(shown),
                "shown_start": hull.start_ms,
                "shown_end": hull.end_ms,
                "k_entry_id": entry_id,
            }
    return found


def _put_record(session: Session, row: Row) -> None:
    key, segment_id, _, digest, path, rows, size_bytes, record, _ = row
    session.run(
        sql.NAME_ANEW,
        segment_id=segment_id,
        digest=digest,
        path=path,
        rows=rows,
        size_bytes=size_bytes,
        record=record,
        k_segment_key=key,
    )


def _no_sums(datasource_id: int, encoded: r.EncodedSegment, key: int) -> dict[str, object]:
    """Return the row of a schema that no visible segment has on account of this one."""
    return {
        "datasource_id": datasource_id,
        "digest": encoded.digest,
        "columns": encoded.schema,
        "first_key": key,
        "segments": 0,
        "rows": 0,
        "size_bytes": 0,
    }


def _count_anew(session: Session, datasource_id: int, revisions: Iterable[int]) -> None:
    """Let commits say what is left of what they added and dropped."""
    for revision in revisions:
        row = session.row(sql.CHANGES, revision=revision)
        if row is None:
            continue  # forgotten
        segments, rows, size_bytes, added, dropped = session.rows(
            sql.COUNTS, revision=revision, datasource_id=datasource_id
        )[0]
        changes = [
            sums._replace(
                segments=segments,
                rows=rows,
                size_bytes=size_bytes,
                entries_added=added,
                entries_dropped=dropped,
            )
            if sums.datasource_id == datasource_id
            else sums
            for sums in load_changes(row[0])
        ]
        session.run(sql.SET_CHANGES, changes=dump_sums(changes), k_revision=revision)


def find_quotes(
    session: Session, datasource_id: int, texts: Sequence[str], spans: IntervalSet
) -> tuple[dict[int, str], dict[int, Segment]]:
    """Return what quotes texts or erased rows, without them: messages of commits by revision, segments by key.

    Messages are those of commits that changed this datasource, or none. Segments quote rows as bounds of range
    partitions: those of their own time chunk, as it was when they were written, and none can tell which.
    """
    mentions = Mentions(texts)
    messages: dict[int, str] = {}
    for revision, message, changes in session.stream(sql.MESSAGES):
        if mentions.is_in(message):
            changed = {one.datasource_id for one in load_changes(changes)}
            if not changed or datasource_id in changed:
                messages[revision] = mentions.without(message)
    segments: dict[int, Segment] = {}
    for key, record in session.stream(sql.RANGE_RECORDS, datasource_id=datasource_id):
        segment = load_segment(record)
        if isinstance(segment.partition, RangePartition) and (
            spans.overlaps(segment.chunk) or _is_quoted(segment.partition, mentions)
        ):
            segments[key] = replace(segment, partition=None)
    return messages, segments


def _is_quoted(partition: RangePartition, mentions: Mentions) -> bool:
    bounds = [*(partition.start or ()), *(partition.end or ())]
    return any(isinstance(one, str) and mentions.is_in(one) for one in bounds)


def _take_out_quotes(session: Session, datasource_id: int, erasure: Erasure) -> None:
    messages, segments = find_quotes(session, datasource_id, erasure.texts, erasure.spans)
    for revision, message in messages.items():
        session.run(sql.SET_MESSAGE, message=message, k_revision=revision)
    for key, segment in segments.items():
        encoded = r.encode_segment(segment)
        session.run(sql.SET_RECORD, record=encoded.record, digest=encoded.digest, k_segment_key=key)
