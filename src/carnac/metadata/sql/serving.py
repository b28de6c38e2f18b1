"""Records of a serving cluster: its servers, its users, the told revision, and load rules."""

from __future__ import annotations

from carnac.metadata.sql import columns as c
from carnac.metadata.sql.dialects import row_of, statement

SERVERS = statement(f"SELECT {c.SERVER} FROM servers ORDER BY server_id")
FIND_SERVER = statement(f"SELECT {c.SERVER} FROM servers WHERE server_id = :server_id")
PUT_SERVER = c.put("servers", keeps=("is_decommissioning",))
"""A server's heartbeat leaves the operator's settings for it as they are."""
LEAVE = statement("UPDATE servers SET lease_ms = 0 WHERE server_id = :server_id")
DECOMMISSION = statement(
    "UPDATE servers SET is_decommissioning = :is_decommissioning WHERE server_id = :server_id"
)
SWEEP_SERVERS = statement(
    """
    DELETE FROM servers
    WHERE (role = 'historical') = (:is_historical = 1)
      AND (heartbeat_at_ms + lease_ms <= :before_ms
        OR heartbeat_at_ms - lease_ms >= :after_ms)
    """
)
USERS = statement(f"SELECT {c.USER} FROM users ORDER BY name")
FIND_USER = statement("SELECT name FROM users WHERE name = :name")
PUT_USER = c.put("users", keeps=("created_at_ms",))
REMOVE_USER = statement("DELETE FROM users WHERE name = :name")
TOLD = statement("SELECT revision, fence, at_ms FROM told")
PUT_TOLD = c.put("told")
RULES = statement("SELECT datasource, rules FROM rules ORDER BY datasource")
PUT_RULES = c.put("rules")
REMOVE_RULES = statement("DELETE FROM rules WHERE datasource = :datasource")
LAST_CHANGE = statement("SELECT max(number) FROM rule_changes")
INSERT_CHANGE = statement(f"INSERT INTO rule_changes {row_of(c.RULE_CHANGE)}")
FORGET_CHANGES = statement(
    """
    DELETE FROM rule_changes
    WHERE datasource = :datasource
      AND number <= (
        SELECT number
        FROM rule_changes
        WHERE datasource = :datasource
        ORDER BY number DESC
        LIMIT 1 OFFSET :kept
      )
    """
)
_CHANGES = "SELECT datasource, rules, author, comment, at_ms FROM rule_changes"
_CHANGES_WITHIN = f"{_CHANGES} WHERE at_ms >= :from_ms AND at_ms < :until_ms"
CHANGES = statement(f"{_CHANGES_WITHIN} ORDER BY number DESC LIMIT :limit")
CHANGES_OF = statement(
    f"{_CHANGES_WITHIN} AND datasource = :datasource ORDER BY number DESC LIMIT :limit"
)
