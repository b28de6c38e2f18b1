"""The statements over pending segments and the chunks they found."""

from __future__ import annotations

from sqlalchemy import (
    Text,
    and_,
    bindparam,
    cast,
    delete,
    exists,
    literal_column,
    or_,
    select,
    update,
)

from carnac.core.tasks.model import AttemptState
from carnac.metadata import tables as t
from carnac.metadata.definitions.building import (
    IsIn,
    dialect_statement,
    statement,
    upsert,
)

p = bindparam
c = t.pending_segments.c
d = t.pending_chunks.c
a = t.task_attempts.c
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
_IS_AT_WORK = and_(
    or_(*(a.state == literal_column(f"'{state}'") for state in AttemptState if not state.is_over)),
    a.task_id.concat(literal_column("'/'")).concat(cast(a.number, Text)) == c.owner,
)
FIND_BY_REQUEST = statement(lambda: select(*_COLUMNS).where(IsIn(c.request, "requests")))
FIND_BY_ID = statement(lambda: select(*_COLUMNS).where(IsIn(c.pending_id, "pending_ids")))
ALL = statement(lambda: select(*_COLUMNS))
OF_OWNER = statement(lambda: select(*_COLUMNS).where(c.owner == p("owner")))
PUT = dialect_statement(
    lambda dialect: upsert(t.pending_segments, dialect, {"created_at_ms": "new"})
)
REMOVE = statement(lambda: delete(t.pending_segments).where(IsIn(c.pending_id, "pending_ids")))
REMOVE_OF_OWNER = statement(lambda: delete(t.pending_segments).where(c.owner == p("owner")))
REMOVE_OF_LEASE = statement(lambda: delete(t.pending_segments).where(c.lease_id == p("lease_id")))
SWEEP = statement(
    lambda: delete(t.pending_segments).where(
        or_(
            and_(c.lease_id.is_not(None), ~exists().where(t.leases.c.lease_id == c.lease_id)),
            and_(
                c.lease_id.is_(None), c.created_at_ms < p("before_ms"), ~exists().where(_IS_AT_WORK)
            ),
        )
    )
)
"""What belongs to leases that are no more; and what is old and belongs to no attempt at work."""
CHUNKS = statement(
    lambda: select(d.datasource, d.start_ms, d.end_ms, d.major_ms, d.next_partition_id).where(
        d.datasource == p("datasource"), d.start_ms < p("end_ms"), d.end_ms > p("start_ms")
    )
)
PUT_CHUNK = dialect_statement(
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
