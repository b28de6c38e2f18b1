"""Records of a serving cluster: its servers, its users, the told revision, and load rules."""

from __future__ import annotations

from carnac.metadata.sql import columns as c
from carnac.metadata.sql.dialects import statement

SERVERS = c.select("servers", order="server_id")
FIND_SERVER = c.find("servers")
PUT_SERVER = c.put("servers", ("is_decommissioning",))
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
USERS = c.select("users", order="name")
FIND_USER = c.find("users")
PUT_USER = c.put("users", ("created_at_ms",))
REMOVE_USER = c.delete("users")
TOLD = statement("SELECT revision, fence, at_ms FROM told")
PUT_TOLD = c.put("told")
RULES = statement("SELECT datasource, rules FROM rules ORDER BY datasource")
PUT_RULES = c.put("rules")
REMOVE_RULES = c.delete("rules")
LAST_CHANGE = statement("SELECT max(number) FROM rule_changes")
INSERT_CHANGE = c.insert("rule_changes")
FORGET_CHANGES = c.forget("rule_changes", "datasource")
_CHANGES = "SELECT datasource, rules, author, comment, at_ms FROM rule_changes"
_CHANGES_WITHIN = f"{_CHANGES} WHERE at_ms >= :from_ms AND at_ms < :until_ms"
CHANGES = statement(f"{_CHANGES_WITHIN} ORDER BY number DESC LIMIT :limit")
CHANGES_OF = statement(
    f"{_CHANGES_WITHIN} AND datasource = :datasource ORDER BY number DESC LIMIT :limit"
)
