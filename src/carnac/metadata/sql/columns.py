"""The columns of all tables, in order: stated once, for the tables and for the statements about them.

A column is a whole number, or a text (`:text`). `?` may be null; `*` is the key of its table, alone.
"""

from __future__ import annotations

TABLES = {
    "origin": "id* created_at_ms",
    "settings": "name:text* value:text",
    "datasources": "datasource_id* name:text",
    # until_ms: when the next commit was made, if that one has been trimmed
    # details: JSON: offsets, names of the lookups, proof
    "commits": (
        "revision* kind:text at_ms until_ms? writer:text? batch:text? base_revision? message:text "
        "details:text"
    ),
    "commit_datasources": "revision datasource_id segments entries_added entries_dropped rows size_bytes covers:text",
    "covers": "datasource_id revision start_ms end_ms",
    "batches": "writer:text batch:text revision at_ms",
    "schemas": "datasource_id digest columns:text first_key segments rows size_bytes",
    "segments": (
        "segment_key* segment_id:text datasource_id digest path:text rows size_bytes record:text "
        "trashed_at_ms?"
    ),
    # shown_start: the hull of what it shows
    "entries": (
        "entry_id* datasource_id segment_key segment_id:text chunk_start chunk_end span_start "
        "span_end shown_start shown_end clip:text? major_ms minor partition_id overshadowed:text "
        "update_group:text dropped_revision?"
    ),
    # entries: live; 0: not a chunk now, but it was one
    # top_major_ms: highest ever
    # changes: entries added and dropped since the last key frame
    "chunks": (
        "datasource_id start_ms end_ms entries major_ms minor top_major_ms next_partition_id revision "
        "shown_start? shown_end? changes"
    ),
    "key_frames": "datasource_id chunk_start chunk_end revision entry_ids:text",
    "lookups": "name:text added_revision dropped_revision? mapping:text",
    "tags": "name:text* revision created_at_ms",
    "leases": "lease_id:text* kind:text revision holder:text acquired_at_ms expires_at_ms ttl_ms",
    # partitions: null: the time chunk; empty: segments to come
    "locks": (
        "lock_id* task_id:text group_id:text datasource:text start_ms end_ms partitions:text? "
        "type:text priority state:text fence is_publishing holder:text requested_at_ms granted_at_ms? "
        "heartbeat_at_ms lease_ms waits_until_ms revoked_reason:text? revoked_at_ms? revoked_by?"
    ),
    "lock_numbers": "id* last_number",
    "tasks": (
        "task_id:text* number type:text datasource:text group_id:text digest:text context:text "
        "priority slots dependencies:text waits_for:text retry_limit retry_delay_ms "
        "retry_longest_delay_ms failures attempts state:text wakes_at_ms? created_at_ms changed_at_ms "
        "started_at_ms? finished_at_ms? error:text?"
    ),
    "task_payloads": "task_id:text* payload:text",
    "task_waits": "waits_for:text task_id:text",
    "task_attempts": (
        "task_id:text number state:text slots runner:text handle:text? holder:text created_at_ms "
        "claimed_at_ms? heartbeat_at_ms lease_ms ended_at_ms? is_settled progress:text? error:text?"
    ),
    "task_reports": "task_id:text number report:text",
    "task_numbers": "id* last_number",
    "leaders": "role:text* leader_id:text fence holder:text url:text since_ms heartbeat_at_ms lease_ms",
    # request: digest of datasource, sequence, previous id
    "pending_segments": (
        "request:text* pending_id:text datasource:text start_ms end_ms major_ms partition_id "
        "sequence:text previous_id:text owner:text lease_id:text? created_at_ms"
    ),
    "pending_chunks": "datasource:text start_ms end_ms major_ms next_partition_id",
    "servers": (
        "server_id:text* role:text url:text holder:text tier:text capacity_bytes started_at_ms "
        "heartbeat_at_ms lease_ms is_draining is_decommissioning planning_revision? oldest_revision?"
    ),
    "told": "id* revision fence at_ms",
    "rules": "datasource:text* rules:text",
    "rule_changes": "number* datasource:text rules:text author:text comment:text at_ms",
    "compaction_specs": "datasource:text* spec:text changed_at_ms",
    "compaction_chunks": (
        "datasource:text start_ms end_ms status:text revision segments judged_by:text reason:text "
        "priority_millionths cost failures retry_at_ms arrived_bytes rewritten_bytes"
    ),
}


def _names(table: str) -> str:
    return ", ".join(word.split(":")[0].rstrip("?*") for word in TABLES[table].split())


ATTEMPT = _names("task_attempts")
CHUNK = _names("chunks")
COMMIT = _names("commits")
COMMIT_DATASOURCE = _names("commit_datasources")
COMPACTION_CHUNK = _names("compaction_chunks")
ENTRY = _names("entries")
KEY_FRAME = _names("key_frames")
LEADER = _names("leaders")
LEASE = _names("leases")
LOCK = _names("locks")
PENDING = _names("pending_segments")
SCHEMA = _names("schemas")
SEGMENT = _names("segments")
SERVER = _names("servers")
TASK = _names("tasks")
