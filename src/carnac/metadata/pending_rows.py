"""Rows of pending segments, and the statements over them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from sqlalchemy import bindparam, delete, exists, select, update

from carnac.core.allocation import Key, PendingChunk, PendingSegment
from carnac.core.intervals import Interval
from carnac.metadata import tables as t
from carnac.metadata.session import IsIn, Row, Session, Statement, statement
from carnac.metadata.statements import upsert

p = bindparam
c = t.pending_segments.c
d = t.pending_chunks.c
_COLUMNS = (
    c.pending_id,
    c.datasource,
    c.start_ms,
    c.end_ms,
    c.major_ms,
    c.partition_id,
    c.sequence,
    c.previous_id,
    c.owner,
    c.lease_id,
    c.created_at_ms,
)

FIND_BY_REQUEST = statement(lambda: select(*_COLUMNS).where(IsIn(c.request, "requests")))
FIND_BY_ID = statement(lambda: select(*_COLUMNS).where(IsIn(c.pending_id, "pending_ids")))
ALL = statement(lambda: select(*_COLUMNS))
OF_OWNER = statement(lambda: select(*_COLUMNS).where(c.owner == p("owner")))
PUT = Statement(lambda dialect: upsert(t.pending_segments, dialect, {"created_at_ms": "new"}))
REMOVE = statement(lambda: delete(t.pending_segments).where(IsIn(c.pending_id, "pending_ids")))
REMOVE_OF_OWNER = statement(lambda: delete(t.pending_segments).where(c.owner == p("owner")))
REMOVE_OF_LEASE = statement(lambda: delete(t.pending_segments).where(c.lease_id == p("lease_id")))
SWEEP = statement(
    lambda: delete(t.pending_segments).where(
        c.lease_id.is_not(None),
        ~exists().where(t.leases.c.lease_id == c.lease_id),
    )
)
"""What belongs to leases that are no more."""
CHUNKS = statement(
    lambda: select(d.datasource, d.start_ms, d.end_ms, d.major_ms, d.next_partition_id).where(
        d.datasource == p("datasource"), d.start_ms < p("end_ms"), d.end_ms > p("start_ms")
    )
)
PUT_CHUNK = Statement(
    lambda dialect: upsert(
        t.pending_chunks, dialect, {"major_ms": "new", "next_partition_id": "new"}
    )
)
REMOVE_CHUNK = statement(
    lambda: delete(t.pending_chunks).where(
        d.datasource == p("datasource"), d.start_ms == p("start_ms"), d.end_ms == p("end_ms")
    )
)
SWEEP_CHUNKS = statement(
    lambda: delete(t.pending_chunks).where(
        ~exists().where(
            c.datasource == d.datasource, c.start_ms == d.start_ms, c.end_ms == d.end_ms
        )
    )
)
"""Those in which nothing is pending any more."""
USE_UP = statement(
    lambda: (
        update(t.chunks)
        .where(
            t.chunks.c.datasource_id == p("k_datasource_id"),
            t.chunks.c.start_ms == p("k_start_ms"),
            t.chunks.c.end_ms == p("k_end_ms"),
        )
        .values(next_partition_id=p("next_partition_id"))
    )
)
"""Partition ids of a live chunk that are reserved are used up: publishing takes the next ones."""


def digest_of(key: Key) -> str:
    """Return a short text for a request; no two requests have the same (128 bits of BLAKE2b).

    It begins with the partition id that came before, so that what is written at one time lies side by side: a
    transaction writes a few pages, not one for each place.
    """
    digest = hashlib.blake2b("\x1f".join(key).encode(), digest_size=16).hexdigest()
    number = key[2].rpartition("_")[2]
    return f"{number:0>10}-{digest}" if number.isdecimal() else digest


def pending_of(row: Row) -> PendingSegment:
    """Return the reservation in a row."""
    return PendingSegment(
        pending_id=row[0],
        datasource=row[1],
        chunk=Interval(row[2], row[3]),
        major_ms=row[4],
        partition_id=row[5],
        sequence=row[6],
        previous_id=row[7],
        owner=row[8],
        lease_id=row[9],
        created_at_ms=row[10],
    )


def pending_row(one: PendingSegment) -> Mapping[str, object]:
    """Return the row of a reservation."""
    return {
        "request": digest_of(one.key),
        "pending_id": one.pending_id,
        "datasource": one.datasource,
        "start_ms": one.chunk.start_ms,
        "end_ms": one.chunk.end_ms,
        "major_ms": one.major_ms,
        "partition_id": one.partition_id,
        "sequence": one.sequence,
        "previous_id": one.previous_id,
        "owner": one.owner,
        "lease_id": one.lease_id,
        "created_at_ms": one.created_at_ms,
    }


def load_by_request(session: Session, keys: Iterable[Key]) -> list[PendingSegment]:
    """Return the reservations made for these requests."""
    digests = session.array(digest_of(key) for key in keys)
    return [pending_of(row) for row in session.rows(FIND_BY_REQUEST, requests=digests)]


def load_by_id(session: Session, pending_ids: Iterable[str]) -> list[PendingSegment]:
    """Return those of the reservations that there are."""
    rows = session.rows(FIND_BY_ID, pending_ids=session.array(pending_ids))
    return [pending_of(row) for row in rows]


def load_chunks(session: Session, datasource: str, interval: Interval) -> list[PendingChunk]:
    """Return the reserved chunks that overlap."""
    rows = session.rows(
        CHUNKS, datasource=datasource, start_ms=interval.start_ms, end_ms=interval.end_ms
    )
    return [
        PendingChunk(
            datasource=row[0],
            interval=Interval(row[1], row[2]),
            major_ms=row[3],
            next_partition_id=row[4],
        )
        for row in rows
    ]


def forget(session: Session, removal: Statement, **params: object) -> None:
    """Remove reservations, and the chunks in which none is left."""
    session.run(removal, **params)
    session.run(SWEEP_CHUNKS)
