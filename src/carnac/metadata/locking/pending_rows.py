"""Rows of pending segments, and the statements over them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from carnac.core.log.allocation import Key, PendingChunk, PendingSegment
from carnac.core.time.intervals import Interval
from carnac.metadata.names import RESERVATION_MAX_MS
from carnac.metadata.row_forms import INTERVAL, RowForm
from carnac.metadata.session import Session
from carnac.metadata.sql import pending_rows as sql
from carnac.metadata.sql.dialects import Statement

PENDING = RowForm(PendingSegment, chunk=INTERVAL)
"""Of the columns after the request."""
CHUNKS = RowForm(PendingChunk, interval=INTERVAL)


def digest_of(key: Key) -> str:
    """Return a short text for a request; no two requests have the same (128 bits of BLAKE2b).

    It begins with the partition id that came before, so that what is written at one time lies side by side: a
    transaction writes a few pages, not one for each place.
    """
    digest = hashlib.blake2b("\x1f".join(key).encode(), digest_size=16).hexdigest()
    number = key[2].rpartition("_")[2]
    return f"{number:0>10}-{digest}" if number.isdecimal() else digest


def pending_row(one: PendingSegment) -> dict[str, object]:
    """Return the row of a reservation."""
    return {"request": digest_of(one.key), **PENDING.row(one)}


def load_by_request(session: Session, keys: Iterable[Key]) -> list[PendingSegment]:
    """Return the reservations made for these requests."""
    digests = session.array(digest_of(key) for key in keys)
    return [*map(PENDING.value, session.rows(sql.FIND_BY_REQUEST, requests=digests))]


def load_by_id(session: Session, pending_ids: Iterable[str]) -> list[PendingSegment]:
    """Return those of the reservations that there are."""
    rows = session.rows(sql.FIND_BY_ID, pending_ids=session.array(pending_ids))
    return [*map(PENDING.value, rows)]


def load_chunks(session: Session, datasource: str, interval: Interval) -> list[PendingChunk]:
    """Return the reserved chunks that overlap."""
    rows = session.rows(
        sql.CHUNKS, datasource=datasource, start_ms=interval.start_ms, end_ms=interval.end_ms
    )
    return [*map(CHUNKS.value, rows)]


def sweep(session: Session, now_ms: int) -> None:
    """Remove reservations that are too old to belong to anybody."""
    forget(session, sql.SWEEP, before_ms=now_ms - RESERVATION_MAX_MS)


def forget(session: Session, removal: Statement, **params: object) -> None:
    """Remove reservations, and the chunks in which none is left."""
    session.run(removal, **params)
    session.run(sql.SWEEP_CHUNKS)
