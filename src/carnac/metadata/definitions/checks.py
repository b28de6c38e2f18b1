"""What the gauges and the self-examination read."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Dialect,
    Select,
    Table,
    cast,
    func,
    literal_column,
    null,
    select,
    union_all,
)
from sqlalchemy.sql.base import Executable

from carnac.metadata import tables as t
from carnac.metadata.definitions import statements as s
from carnac.metadata.definitions.building import dialect_statement, statement
from carnac.metadata.session import POSTGRESQL, Statement


def _server_now(dialect: Dialect) -> Executable:
    if dialect.name != POSTGRESQL:
        return select(null())
    return select(cast(literal_column("extract(epoch from clock_timestamp()) * 1000"), BigInteger))


def _signs(holder: Column[str], at_ms: ColumnElement[int]) -> Select[str, int]:
    """State the signs of life in a table that are from after an instant."""
    return select(holder.label("holder"), at_ms.label("sign_ms")).where(at_ms > s.p("at_ms"))


SERVER_NOW = dialect_statement(_server_now)
SIGNS_AFTER = statement(
    lambda: union_all(
        _signs(t.leaders.c.holder, t.leaders.c.heartbeat_at_ms).where(t.leaders.c.lease_ms > 0),
        _signs(t.task_attempts.c.holder, t.task_attempts.c.heartbeat_at_ms).where(
            t.task_attempts.c.ended_at_ms.is_(None)
        ),
        _signs(t.locks.c.holder, t.locks.c.heartbeat_at_ms).where(
            t.locks.c.revoked_at_ms.is_(None)
        ),
        _signs(t.leases.c.holder, t.leases.c.expires_at_ms - t.leases.c.ttl_ms),
    )
)
"""Of leaders, attempts, tasks with locks, readers and writers that have not ended."""


def _count(table: Table) -> Statement:
    return statement(lambda: select(func.count()).select_from(table))


COUNTS = {name: _count(table) for name, table in t.METADATA.tables.items()}
LIVE_OF = statement(
    lambda: select(*s.ENTRY_COLUMNS).where(
        t.entries.c.datasource_id == s.p("datasource_id"),
        t.entries.c.dropped_revision.is_(None),
    )
)
CHUNKS_OF = statement(
    lambda: select(*s.CHUNK_COLUMNS).where(t.chunks.c.datasource_id == s.p("datasource_id"))
)
SCHEMAS_OF = statement(
    lambda: select(
        t.schemas.c.digest, t.schemas.c.segments, t.schemas.c.rows, t.schemas.c.size_bytes
    ).where(t.schemas.c.datasource_id == s.p("datasource_id"))
)
SEGMENTS_OF = statement(
    lambda: select(
        t.segments.c.segment_key,
        t.segments.c.digest,
        t.segments.c.rows,
        t.segments.c.size_bytes,
        t.segments.c.record,
        t.segments.c.path,
    ).where(t.segments.c.datasource_id == s.p("datasource_id"))
)
FRAMES_OF = statement(
    lambda: select(
        t.key_frames.c.chunk_start,
        t.key_frames.c.chunk_end,
        t.key_frames.c.revision,
        t.key_frames.c.entry_ids,
    ).where(t.key_frames.c.datasource_id == s.p("datasource_id"))
)
ALL_OF = statement(
    lambda: select(
        t.entries.c.entry_id,
        t.entries.c.chunk_start,
        t.entries.c.chunk_end,
        t.entries.c.dropped_revision,
    ).where(t.entries.c.datasource_id == s.p("datasource_id"))
)
