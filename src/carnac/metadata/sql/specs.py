"""Specs of compaction and the states of its chunks; specs of supervisors, the newest of each in force."""

from __future__ import annotations

from carnac.metadata.sql import columns as c
from carnac.metadata.sql.dialects import statement

SPECS = statement("SELECT datasource, spec FROM compaction_specs ORDER BY datasource")
PUT_SPEC = c.put("compaction_specs")
REMOVE_SPEC = c.delete("compaction_specs")
STATES = statement(
    f"""
    SELECT {c.COMPACTION_CHUNK.partition(", ")[2]}
    FROM compaction_chunks
    WHERE datasource = :datasource
    ORDER BY start_ms, end_ms
    """
)
PUT_STATE = c.put("compaction_chunks")
REMOVE_STATE = c.delete("compaction_chunks")
REMOVE_STATES = c.delete("compaction_chunks", "datasource")
SUPERVISORS = c.select(
    "supervisor_specs",
    "number IN (SELECT max(number) FROM supervisor_specs GROUP BY supervisor_id)",
    order="supervisor_id",
)
SUPERVISOR_HISTORY = c.select("supervisor_specs", order="number DESC")
LAST_SUPERVISOR = statement("SELECT max(number) FROM supervisor_specs")
INSERT_SUPERVISOR = c.insert("supervisor_specs")
FORGET_SUPERVISORS = c.forget("supervisor_specs", "supervisor_id")
