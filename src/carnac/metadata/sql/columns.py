"""The columns of the tables that have many, in the order of `schema.tables`."""

from __future__ import annotations

ATTEMPT = (
    "task_id, number, state, slots, runner, handle, holder, created_at_ms, claimed_at_ms, "
    "heartbeat_at_ms, lease_ms, ended_at_ms, is_settled, progress, error"
)
CHUNK = (
    "datasource_id, start_ms, end_ms, entries, major_ms, minor, top_major_ms, "
    "next_partition_id, revision, shown_start, shown_end, changes"
)
COMMIT = "revision, kind, at_ms, until_ms, writer, batch, base_revision, message, details"
COMMIT_DATASOURCE = (
    "revision, datasource_id, segments, entries_added, entries_dropped, rows, size_bytes, covers"
)
COMPACTION_CHUNK = (
    "datasource, start_ms, end_ms, status, revision, segments, judged_by, reason, "
    "priority_millionths, cost, failures, retry_at_ms, arrived_bytes, rewritten_bytes"
)
ENTRY = (
    "entry_id, datasource_id, segment_key, segment_id, chunk_start, chunk_end, span_start, "
    "span_end, shown_start, shown_end, clip, major_ms, minor, partition_id, overshadowed, "
    "update_group, dropped_revision"
)
KEY_FRAME = "datasource_id, chunk_start, chunk_end, revision, entry_ids"
LEADER = "role, leader_id, fence, holder, url, since_ms, heartbeat_at_ms, lease_ms"
LEASE = "lease_id, kind, revision, holder, acquired_at_ms, expires_at_ms, ttl_ms"
LOCK = (
    "lock_id, task_id, group_id, datasource, start_ms, end_ms, partitions, type, priority, "
    "state, fence, is_publishing, holder, requested_at_ms, granted_at_ms, heartbeat_at_ms, "
    "lease_ms, waits_until_ms, revoked_reason, revoked_at_ms, revoked_by"
)
PENDING = (
    "request, pending_id, datasource, start_ms, end_ms, major_ms, partition_id, sequence, "
    "previous_id, owner, lease_id, created_at_ms"
)
SCHEMA = "datasource_id, digest, columns, first_key, segments, rows, size_bytes"
SEGMENT = (
    "segment_key, segment_id, datasource_id, digest, path, rows, size_bytes, record, trashed_at_ms"
)
SERVER = (
    "server_id, role, url, holder, tier, capacity_bytes, started_at_ms, heartbeat_at_ms, "
    "lease_ms, is_draining, is_decommissioning, planning_revision, oldest_revision"
)
TASK = (
    "task_id, number, type, datasource, group_id, digest, context, priority, slots, "
    "dependencies, waits_for, retry_limit, retry_delay_ms, retry_longest_delay_ms, failures, "
    "attempts, state, wakes_at_ms, created_at_ms, changed_at_ms, started_at_ms, finished_at_ms, "
    "error"
)
