"""What the gauges and the self-examination read.

Written from `carnac.metadata.definitions.checks` by `make statements`.
"""

from __future__ import annotations

from carnac.metadata.session import SqlText, Statement

SERVER_NOW = Statement(
    sqlite=SqlText('SELECT NULL AS anon_1'),
    postgresql=SqlText('SELECT CAST(extract(epoch from clock_timestamp()) * 1000 AS BIGINT) AS "extract(epoch from clock_timestamp()) * 1000"'),
)
SIGNS_AFTER = Statement(
    sqlite=SqlText('SELECT leaders.holder AS holder, leaders.heartbeat_at_ms AS sign_ms FROM leaders WHERE leaders.heartbeat_at_ms > ? AND leaders.lease_ms > ? UNION ALL SELECT task_attempts.holder AS holder, task_attempts.heartbeat_at_ms AS sign_ms FROM task_attempts WHERE task_attempts.heartbeat_at_ms > ? AND task_attempts.ended_at_ms IS NULL UNION ALL SELECT locks.holder AS holder, locks.heartbeat_at_ms AS sign_ms FROM locks WHERE locks.heartbeat_at_ms > ? AND locks.revoked_at_ms IS NULL UNION ALL SELECT leases.holder AS holder, leases.expires_at_ms - leases.ttl_ms AS sign_ms FROM leases WHERE leases.expires_at_ms - leases.ttl_ms > ?', ('at_ms', 'lease_ms_1', 'at_ms', 'at_ms', 'at_ms'), {'lease_ms_1': 0}),
    postgresql=SqlText('SELECT leaders.holder AS holder, leaders.heartbeat_at_ms AS sign_ms FROM leaders WHERE leaders.heartbeat_at_ms > %(at_ms)s::BIGINT AND leaders.lease_ms > %(lease_ms_1)s::BIGINT UNION ALL SELECT task_attempts.holder AS holder, task_attempts.heartbeat_at_ms AS sign_ms FROM task_attempts WHERE task_attempts.heartbeat_at_ms > %(at_ms)s::BIGINT AND task_attempts.ended_at_ms IS NULL UNION ALL SELECT locks.holder AS holder, locks.heartbeat_at_ms AS sign_ms FROM locks WHERE locks.heartbeat_at_ms > %(at_ms)s::BIGINT AND locks.revoked_at_ms IS NULL UNION ALL SELECT leases.holder AS holder, leases.expires_at_ms - leases.ttl_ms AS sign_ms FROM leases WHERE leases.expires_at_ms - leases.ttl_ms > %(at_ms)s::BIGINT', (), {'lease_ms_1': 0}),
)
COUNTS = {
'origin': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM origin'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM origin'),
),
'settings': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM settings'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM settings'),
),
'datasources': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM datasources'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM datasources'),
),
'commits': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM commits'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM commits'),
),
'commit_datasources': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM commit_datasources'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM commit_datasources'),
),
'covers': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM covers'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM covers'),
),
'batches': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM batches'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM batches'),
),
'schemas': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM schemas'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM schemas'),
),
'segments': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM segments'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM segments'),
),
'entries': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM entries'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM entries'),
),
'chunks': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM chunks'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM chunks'),
),
'key_frames': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM key_frames'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM key_frames'),
),
'lookups': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM lookups'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM lookups'),
),
'tags': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM tags'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM tags'),
),
'leases': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM leases'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM leases'),
),
'locks': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM locks'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM locks'),
),
'lock_numbers': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM lock_numbers'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM lock_numbers'),
),
'tasks': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM tasks'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM tasks'),
),
'task_payloads': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM task_payloads'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM task_payloads'),
),
'task_waits': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM task_waits'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM task_waits'),
),
'task_attempts': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM task_attempts'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM task_attempts'),
),
'task_reports': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM task_reports'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM task_reports'),
),
'task_numbers': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM task_numbers'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM task_numbers'),
),
'leaders': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM leaders'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM leaders'),
),
'pending_segments': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM pending_segments'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM pending_segments'),
),
'pending_chunks': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM pending_chunks'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM pending_chunks'),
),
'compaction_specs': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM compaction_specs'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM compaction_specs'),
),
'compaction_chunks': Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM compaction_chunks'),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM compaction_chunks'),
),
}
LIVE_OF = Statement(
    sqlite=SqlText('SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision FROM entries WHERE entries.datasource_id = ? AND entries.dropped_revision IS NULL', ('datasource_id',)),
    postgresql=SqlText('SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision FROM entries WHERE entries.datasource_id = %(datasource_id)s::BIGINT AND entries.dropped_revision IS NULL'),
)
CHUNKS_OF = Statement(
    sqlite=SqlText('SELECT chunks.datasource_id, chunks.start_ms, chunks.end_ms, chunks.entries, chunks.major_ms, chunks.minor, chunks.top_major_ms, chunks.next_partition_id, chunks.revision, chunks.shown_start, chunks.shown_end, chunks.changes FROM chunks WHERE chunks.datasource_id = ?', ('datasource_id',)),
    postgresql=SqlText('SELECT chunks.datasource_id, chunks.start_ms, chunks.end_ms, chunks.entries, chunks.major_ms, chunks.minor, chunks.top_major_ms, chunks.next_partition_id, chunks.revision, chunks.shown_start, chunks.shown_end, chunks.changes FROM chunks WHERE chunks.datasource_id = %(datasource_id)s::BIGINT'),
)
SCHEMAS_OF = Statement(
    sqlite=SqlText('SELECT schemas.digest, schemas.segments, schemas.rows, schemas.size_bytes FROM schemas WHERE schemas.datasource_id = ?', ('datasource_id',)),
    postgresql=SqlText('SELECT schemas.digest, schemas.segments, schemas.rows, schemas.size_bytes FROM schemas WHERE schemas.datasource_id = %(datasource_id)s::BIGINT'),
)
SEGMENTS_OF = Statement(
    sqlite=SqlText('SELECT segments.segment_key, segments.digest, segments.rows, segments.size_bytes, segments.record, segments.path FROM segments WHERE segments.datasource_id = ?', ('datasource_id',)),
    postgresql=SqlText('SELECT segments.segment_key, segments.digest, segments.rows, segments.size_bytes, segments.record, segments.path FROM segments WHERE segments.datasource_id = %(datasource_id)s::BIGINT'),
)
FRAMES_OF = Statement(
    sqlite=SqlText('SELECT key_frames.chunk_start, key_frames.chunk_end, key_frames.revision, key_frames.entry_ids FROM key_frames WHERE key_frames.datasource_id = ?', ('datasource_id',)),
    postgresql=SqlText('SELECT key_frames.chunk_start, key_frames.chunk_end, key_frames.revision, key_frames.entry_ids FROM key_frames WHERE key_frames.datasource_id = %(datasource_id)s::BIGINT'),
)
ALL_OF = Statement(
    sqlite=SqlText('SELECT entries.entry_id, entries.chunk_start, entries.chunk_end, entries.dropped_revision FROM entries WHERE entries.datasource_id = ?', ('datasource_id',)),
    postgresql=SqlText('SELECT entries.entry_id, entries.chunk_start, entries.chunk_end, entries.dropped_revision FROM entries WHERE entries.datasource_id = %(datasource_id)s::BIGINT'),
)
