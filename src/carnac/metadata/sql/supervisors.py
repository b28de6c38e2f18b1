"""Records of supervisors: every spec that was set, the newest of each in force."""

from __future__ import annotations

from carnac.metadata.sql import columns as c
from carnac.metadata.sql.dialects import statement

CURRENT = c.select(
    "supervisor_specs",
    "number IN (SELECT max(number) FROM supervisor_specs GROUP BY supervisor_id)",
    order="supervisor_id",
)
HISTORY = c.select("supervisor_specs", order="number DESC")
LAST = statement("SELECT max(number) FROM supervisor_specs")
INSERT = c.insert("supervisor_specs")
FORGET = c.forget("supervisor_specs", "supervisor_id")
