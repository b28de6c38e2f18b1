"""What compaction keeps: its specs, and the states of chunks."""

from __future__ import annotations

from sqlalchemy import bindparam, delete, select

from carnac.metadata import tables as t
from carnac.metadata.definitions.building import (
    dialect_statement,
    statement,
    upsert,
)

p = bindparam
c = t.compaction_chunks.c
_VALUES = (
    c.status,
    c.revision,
    c.segments,
    c.judged_by,
    c.reason,
    c.priority_millionths,
    c.cost,
    c.failures,
    c.retry_at_ms,
    c.arrived_bytes,
    c.rewritten_bytes,
)
STATE_COLUMNS = ("start_ms", "end_ms", *(one.name for one in _VALUES))
SPECS = statement(
    lambda: select(t.compaction_specs.c.datasource, t.compaction_specs.c.spec).order_by(
        t.compaction_specs.c.datasource
    )
)
PUT_SPEC = dialect_statement(
    lambda dialect: upsert(t.compaction_specs, dialect, {"spec": "new", "changed_at_ms": "new"})
)
REMOVE_SPEC = statement(
    lambda: delete(t.compaction_specs).where(t.compaction_specs.c.datasource == p("datasource"))
)
STATES = statement(
    lambda: (
        select(c.start_ms, c.end_ms, *_VALUES)
        .where(c.datasource == p("datasource"))
        .order_by(c.start_ms, c.end_ms)
    )
)
PUT_STATE = dialect_statement(
    lambda dialect: upsert(t.compaction_chunks, dialect, {column.name: "new" for column in _VALUES})
)
REMOVE_STATE = statement(
    lambda: delete(t.compaction_chunks).where(
        c.datasource == p("datasource"), c.start_ms == p("start_ms"), c.end_ms == p("end_ms")
    )
)
REMOVE_STATES = statement(
    lambda: delete(t.compaction_chunks).where(c.datasource == p("datasource"))
)
