"""Records of supervisors: every spec that was set, the newest of each in force."""

from __future__ import annotations

from carnac.metadata.sql import columns as c
from carnac.metadata.sql.dialects import row_of, statement

CURRENT = statement(
    f"""
    SELECT {c.SUPERVISOR_SPEC}
    FROM supervisor_specs
    WHERE number IN (SELECT max(number) FROM supervisor_specs GROUP BY supervisor_id)
    ORDER BY supervisor_id
    """
)
HISTORY = statement(f"SELECT {c.SUPERVISOR_SPEC} FROM supervisor_specs ORDER BY number DESC")
LAST = statement("SELECT max(number) FROM supervisor_specs")
INSERT = statement(f"INSERT INTO supervisor_specs {row_of(c.SUPERVISOR_SPEC)}")
FORGET = statement(
    """
    DELETE FROM supervisor_specs
    WHERE supervisor_id = :supervisor_id
      AND number <= (
        SELECT number
        FROM supervisor_specs
        WHERE supervisor_id = :supervisor_id
        ORDER BY number DESC
        LIMIT 1 OFFSET :kept
      )
    """
)
