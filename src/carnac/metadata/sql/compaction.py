"""Records of compaction: its specs, and the states of chunks."""

from __future__ import annotations

from carnac.metadata.sql import columns as c
from carnac.metadata.sql.dialects import statement

SPECS = statement("SELECT datasource, spec FROM compaction_specs ORDER BY datasource")
PUT_SPEC = c.put("compaction_specs")
REMOVE_SPEC = statement("DELETE FROM compaction_specs WHERE datasource = :datasource")
STATES = statement(
    f"""
    SELECT {c.COMPACTION_CHUNK.partition(", ")[2]}
    FROM compaction_chunks
    WHERE datasource = :datasource
    ORDER BY start_ms, end_ms
    """
)
PUT_STATE = c.put("compaction_chunks", "datasource", "start_ms", "end_ms")
REMOVE_STATE = statement(
    """
    DELETE FROM compaction_chunks
    WHERE datasource = :datasource
      AND start_ms = :start_ms
      AND end_ms = :end_ms
    """
)
REMOVE_STATES = statement("DELETE FROM compaction_chunks WHERE datasource = :datasource")
