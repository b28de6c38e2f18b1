"""Between rows of the tables and values of the core."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from carnac.core.commits import Commit, CommitKind, DatasourceCommit
from carnac.core.entries import Entry, EntryLife
from carnac.core.intervals import Interval
from carnac.core.records import (
    dump_commit_details,
    dump_interval_set,
    dump_schema,
    dump_segment,
    load_id_ranges,
    load_interval_set,
)
from carnac.core.segments import Segment
from carnac.core.versions import SegmentVersion
from carnac.metadata.chunk_rows import ChunkRow, LiveSummary
from carnac.metadata.session import Row
from carnac.ports import Lease, LeaseKind

KINDS = {str(kind): kind for kind in CommitKind}
LEASE_KINDS = {str(kind): kind for kind in LeaseKind}


@lru_cache(maxsize=1024)  # segments come in many, their schemas in few
def schema_digest(schema: str) -> int:
    """Return a 63-bit number for a list of columns."""
    digest = hashlib.blake2b(schema.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def entry_row(entry: Entry, datasource_id: int, segment_key: int) -> dict[str, object]:
    """Return the row of an entry that is live."""
    shown = (entry.span,) if entry.clip is None else entry.clip.intervals
    return {
        "entry_id": entry.entry_id,
        "datasource_id": datasource_id,
        "segment_key": segment_key,
        "segment_id": entry.segment_id,
        "chunk_start": entry.chunk.start_ms,
        "chunk_end": entry.chunk.end_ms,
        "span_start": entry.span.start_ms,
        "span_end": entry.span.end_ms,
        "shown_start": shown[0].start_ms,
        "shown_end": shown[-1].end_ms,
        "clip": None if entry.clip is None else dump_interval_set(entry.clip),
        "major_ms": entry.version.major_ms,
        "minor": entry.version.minor,
        "partition_id": entry.partition_id,
        "overshadowed": str(entry.overshadowed_ids),
        "update_group": str(entry.update_group),
        "dropped_revision": None,
    }


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
    """Return the life of a row that has the columns of `entries`, then the kind of the commit that dropped it."""
    dropped_by, kind = row[-2:]
    is_moved = dropped_by is not None and kind in (CommitKind.REWRITE, None)
    return EntryLife(entry=entry_of(row), dropped_by=dropped_by, is_moved=is_moved)


class EncodedSegment(NamedTuple):
    """What is written of a segment, made before its transaction begins so that others wait less."""

    record: str
    schema: str
    digest: int


def encode_segment(segment: Segment) -> EncodedSegment:
    """Return the texts of a segment."""
    schema = dump_schema(segment.columns)
    return EncodedSegment(dump_segment(segment), schema, schema_digest(schema))


def segment_row(
    segment: Segment, encoded: EncodedSegment, datasource_id: int, segment_key: int
) -> dict[str, object]:
    """Return the row of a segment."""
    return {
        "segment_key": segment_key,
        "segment_id": segment.segment_id,
        "datasource_id": datasource_id,
        "digest": encoded.digest,
        "path": segment.path,
        "rows": segment.rows,
        "size_bytes": segment.size_bytes,
        "record": encoded.record,
        "trashed_at_ms": None,
    }


def chunk_row(row: ChunkRow, datasource_id: int) -> dict[str, object]:
    """Return the row of a chunk."""
    live = row.live
    return {
        "datasource_id": datasource_id,
        "start_ms": row.interval.start_ms,
        "end_ms": row.interval.end_ms,
        "entries": row.entries,
        "major_ms": row.top_major_ms if live is None else live.version.major_ms,
        "minor": 0 if live is None else live.version.minor,
        "top_major_ms": row.top_major_ms,
        "next_partition_id": row.next_partition_id,
        "revision": row.revision,
        "shown_start": None if live is None else live.shown.start_ms,
        "shown_end": None if live is None else live.shown.end_ms,
        "changes": row.changes,
    }


def chunk_row_of(row: Row) -> ChunkRow:
    """Return the chunk of a row with the columns of `chunks`."""
    live = None
    if row[3]:
        live = LiveSummary(version=SegmentVersion(row[4], row[5]), shown=Interval(row[9], row[10]))
    return ChunkRow(
        interval=Interval(row[1], row[2]),
        entries=row[3],
        live=live,
        top_major_ms=row[6],
        next_partition_id=row[7],
        revision=row[8],
        changes=row[11],
    )


def commit_row(commit: Commit) -> dict[str, object]:
    """Return the row of a commit."""
    lookups: Mapping[str, bool] = {
        change.name: change.mapping is not None for change in commit.lookups
    }
    return {
        "revision": commit.revision,
        "kind": str(commit.kind),
        "at_ms": commit.at_ms,
        "until_ms": None,
        "writer": commit.writer,
        "batch": commit.batch,
        "base_revision": commit.base_revision,
        "message": commit.message,
        "details": dump_commit_details(commit.offsets, lookups, commit.proof),
    }


def commit_datasource_row(
    change: DatasourceCommit, datasource_id: int, revision: int
) -> dict[str, object]:
    """Return the row that sums up what a commit did to a datasource."""
    return {
        "revision": revision,
        "datasource_id": datasource_id,
        "segments": len(change.segments),
        "entries_added": len(change.adds),
        "entries_dropped": len(change.drops),
        "rows": sum(segment.rows for segment in change.segments),
        "size_bytes": sum(segment.size_bytes for segment in change.segments),
        "covers": dump_interval_set(change.covers),
    }


def lease_of(row: Row) -> Lease:
    """Return the lease of a row with the columns of `leases`."""
    return Lease(
        lease_id=row[0],
        kind=LEASE_KINDS[row[1]],
        revision=row[2],
        holder=row[3],
        acquired_at_ms=row[4],
        expires_at_ms=row[5],
    )
