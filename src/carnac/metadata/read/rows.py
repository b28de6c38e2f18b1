"""Between rows of the tables and values of the core."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from carnac.core.log.commits import Commit, CommitKind
from carnac.core.log.entries import Entry, EntryLife
from carnac.core.log.records import (
    CommitDetails,
    dump_changes,
    dump_commit_details,
    dump_interval_set,
    load_id_ranges,
    load_interval_set,
)
from carnac.core.segments.record import dump_schema, dump_segment, load_segment
from carnac.core.segments.segment import Segment
from carnac.core.segments.version import SegmentVersion
from carnac.core.time.intervals import Interval
from carnac.metadata.read.chunk_rows import ChunkRow, LiveSummary
from carnac.metadata.session import Row
from carnac.ports import Lease, LeaseKind

KINDS = {str(kind): kind for kind in CommitKind}
LEASE_KINDS = {str(kind): kind for kind in LeaseKind}


@lru_cache(maxsize=1024)  # segments come in many, their schemas in few
def schema_digest(schema: str) -> int:
    """Return a 63-bit number for a list of columns."""
    digest = hashlib.blake2b(schema.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


# Rows that are written have the order of the columns of their tables, which is that of their INSERT's parameters.


def entry_row(
    entry: Entry, datasource_id: int, segment_key: int, *, is_indexed: bool = True
) -> Row:
    """Return the row of an entry that is live."""
    chunk, span, version = entry.chunk, entry.span, entry.version
    shown = (span,) if entry.clip is None else entry.clip.intervals
    return (
        entry.entry_id,
        datasource_id,
        segment_key,
        entry.segment_id,
        chunk.start_ms,
        chunk.end_ms,
        span.start_ms,
        span.end_ms,
        shown[0].start_ms,
        shown[-1].end_ms,
        None if entry.clip is None else dump_interval_set(entry.clip),
        version.major_ms,
        version.minor,
        entry.partition_id,
        str(entry.overshadowed_ids),
        str(entry.update_group),
        int(is_indexed),
        None,
    )


def entry_of(row: Row) -> Entry:
    """Return the entry of a row that begins with the columns of `entries`."""
    clip = row[10]
    return Entry(
        entry_id=row[0],
        segment_id=row[3],
        chunk=Interval(row[4], row[5]),
        span=Interval(row[6], row[7]),
        clip=None if clip is None else load_interval_set(clip),
        version=SegmentVersion(row[11], row[12]),
        partition_id=row[13],
        overshadowed_ids=load_id_ranges(row[14]),
        update_group=load_id_ranges(row[15]),
    )


def life_of(row: Row) -> EntryLife:
    """Return the life of a row of `LIVES_AFTER`."""
    dropped_by, kind, is_replaced = row[-3:]
    rewrites = kind in (CommitKind.REWRITE, CommitKind.DELETE, None)
    is_moved = dropped_by is not None and (
        rewrites or (kind == CommitKind.REVERT and bool(is_replaced))
    )
    return EntryLife(entry=entry_of(row), dropped_by=dropped_by, is_moved=is_moved)


class EncodedSegment(NamedTuple):
    """The rows of a segment, encoded before its transaction begins so that others wait less."""

    record: str
    schema: str
    digest: int


def encode_segment(segment: Segment) -> EncodedSegment:
    """Return the texts of a segment."""
    schema = dump_schema(segment.columns)
    return EncodedSegment(dump_segment(segment), schema, schema_digest(schema))


def segment_row(
    segment: Segment, encoded: EncodedSegment, datasource_id: int, segment_key: int
) -> Row:
    """Return the row of a segment."""
    return (
        segment_key,
        segment.segment_id,
        datasource_id,
        encoded.digest,
        segment.path,
        segment.rows,
        segment.size_bytes,
        encoded.record,
        None,
    )


def schema_of(record: str) -> str:
    """Return the list of columns of a segment's record, as `encode_segment` does."""
    return dump_schema(load_segment(record).columns)


def add_schema_rows(before: Row, row: Row) -> Row:
    """Return what two rows of one schema add to its sums; its columns and its first key are the first one's."""
    return (*before[:4], before[4] + row[4], before[5] + row[5], before[6] + row[6])


def chunk_row(row: ChunkRow, datasource_id: int) -> Row:
    """Return the row of a chunk."""
    interval, live = row.interval, row.live
    return (
        datasource_id,
        interval.start_ms,
        interval.end_ms,
        row.entries,
        row.top_major_ms if live is None else live.version.major_ms,
        0 if live is None else live.version.minor,
        row.top_major_ms,
        row.next_partition_id,
        row.revision,
        None if live is None else live.shown.start_ms,
        None if live is None else live.shown.end_ms,
        row.changes,
    )


def chunk_row_of(row: Row, grown: Row | None = None) -> ChunkRow:
    """Return the chunk of a row with the columns of `chunks`.

    Args:
        grown: Sums with the entries that the row does not count yet, of `UNSETTLED_CHUNKS`; None: there are none.
    """
    entries, next_partition_id, revision, changes = grown or (row[3], row[7], row[8], row[11])
    live = None
    if row[3]:
        live = LiveSummary(version=SegmentVersion(row[4], row[5]), shown=Interval(row[9], row[10]))
    return ChunkRow(
        interval=Interval(row[1], row[2]),
        entries=entries,
        live=live,
        top_major_ms=row[6],
        next_partition_id=next_partition_id,
        revision=revision,
        changes=changes,
    )


def commit_row(commit: Commit, datasource_ids: Sequence[int], settled_revision: int) -> Row:
    """Return the row of a commit, with the ids of the datasources that it changes, in the order of its changes."""
    lookups = {change.name: change.mapping is not None for change in commit.lookups}
    return (
        commit.revision,
        str(commit.kind),
        commit.at_ms,
        None,
        commit.writer,
        commit.batch,
        commit.base_revision,
        commit.message,
        dump_commit_details(CommitDetails(commit.offsets, commit.after, lookups, commit.proof)),
        dump_changes([*zip(datasource_ids, commit.changes, strict=True)]),
        settled_revision,
    )


def lease_of(row: Row) -> Lease:
    """Return the lease of a row with the columns of `leases`."""
    return Lease(
        lease_id=row[0],
        kind=LEASE_KINDS[row[1]],
        revision=row[2],
        holder=row[3],
        acquired_at_ms=row[4],
        expires_at_ms=row[5],
        ttl_ms=row[6],
    )
