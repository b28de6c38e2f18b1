"""Records of compaction: its specs, and the states of chunks."""

from __future__ import annotations

from carnac.metadata.sql import columns as c
from carnac.metadata.sql.dialects import new_of, row_of, statement

SPECS = statement("SELECT datasource, spec FROM compaction_specs ORDER BY datasource")
PUT_SPEC = statement(
    """
    INSERT INTO compaction_specs (datasource, spec, changed_at_ms)
    VALUES (:datasource, :spec, :changed_at_ms)
    ON CONFLICT (datasource)
    DO UPDATE SET spec = excluded.spec, changed_at_ms = excluded.changed_at_ms
    """
)
REMOVE_SPEC = statement("DELETE FROM compaction_specs WHERE datasource = :datasource")
STATES = statement(
    f"""
    SELECT {c.COMPACTION_CHUNK.partition(", ")[2]}
    FROM compaction_chunks
    WHERE datasource = :datasource
    ORDER BY start_ms, end_ms
    """
)
PUT_STATE = statement(
    f"""
    INSERT INTO compaction_chunks {row_of(c.COMPACTION_CHUNK)}
    ON CONFLICT (datasource, start_ms, end_ms)
    DO UPDATE SET {new_of(c.COMPACTION_CHUNK, "datasource", "start_ms", "end_ms")}
    """
)
REMOVE_STATE = statement(
    """
    DELETE FROM compaction_chunks
    WHERE datasource = :datasource
      AND start_ms = :start_ms
      AND end_ms = :end_ms
    """
)
REMOVE_STATES = statement("DELETE FROM compaction_chunks WHERE datasource = :datasource")
