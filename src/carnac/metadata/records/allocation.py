"""Allocation on SQL: a decision and its writing, inside one write transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from carnac.core.log.allocation import (
    AllocationReply,
    AllocationRequest,
    PendingSegment,
    decide_allocations,
)
from carnac.errors import Revoked
from carnac.metadata.locking import pending_rows as rows
from carnac.metadata.locking.locks import SqlLockView, change_locks, check_owner
from carnac.metadata.publish.view import SqlPublishView
from carnac.metadata.session import Session
from carnac.metadata.sql import pending_rows as sql


def allocate(
    session: Session, requests: Sequence[AllocationRequest], at_ms: int
) -> tuple[AllocationReply, ...]:
    """Decide requests and write the decision down, inside a write transaction."""
    view, locks = SqlPublishView(session), SqlLockView(session)
    ended = _find_ended(session, {request.owner for request in requests})
    owners = sorted({request.owner for request in requests if request.lock is not None})
    if len(owners) > 1:
        locks.read_tasks(owners)
    decision = decide_allocations(
        view,
        requests,
        lambda event: change_locks(session, event, at_ms, view=locks),
        at_ms=at_ms,
        ended=ended,
    )
    session.run_many(sql.PUT, [rows.pending_row(one) for one in decision.puts])
    session.run_many(
        sql.USE_UP,
        [
            {
                "k_datasource_id": view.find_datasource(chunk.datasource),
                "k_start_ms": chunk.interval.start_ms,
                "k_end_ms": chunk.interval.end_ms,
                "next_partition_id": chunk.next_partition_id,
            }
            for chunk in decision.live
        ],
    )
    session.run_many(sql.PUT_CHUNK, [*map(rows.CHUNKS.row, decision.founded)])
    return decision.replies


def _find_ended(session: Session, owners: Iterable[str]) -> dict[str, Revoked]:
    """Return the owners that are attempts which are over, each with the sentence that says so."""
    ended = {}
    for owner in owners:
        try:
            check_owner(session, owner)
        except Revoked as error:
            ended[owner] = error
    return ended


def release_pending(session: Session, owner: str) -> int:
    """Give up all reservations of an owner, inside a write transaction; return how many there were."""
    count = len(session.rows(sql.OF_OWNER, owner=owner))
    if count:
        rows.forget(session, sql.REMOVE_OF_OWNER, owner=owner)
    return count


def in_order(found: Iterable[PendingSegment], datasource: str | None) -> tuple[PendingSegment, ...]:
    """Return the reservations of a datasource (None: of all), by datasource, chunk and partition id."""
    wanted = (one for one in found if datasource in {None, one.datasource})
    return tuple(
        sorted(wanted, key=lambda one: (one.datasource, one.chunk, one.major_ms, one.partition_id))
    )
