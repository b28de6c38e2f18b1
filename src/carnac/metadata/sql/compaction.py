"""Records of compaction: its specs, and the states of chunks."""

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
