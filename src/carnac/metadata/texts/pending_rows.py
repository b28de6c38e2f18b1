"""The statements over pending segments and the chunks they found.

Written from `carnac.metadata.definitions.pending_rows` by `make statements`.
"""

from __future__ import annotations

from carnac.metadata.session import SqlText, Statement

FIND_BY_REQUEST = Statement(
    sqlite=SqlText('SELECT pending_segments.pending_id, pending_segments.datasource, pending_segments.start_ms, pending_segments.end_ms, pending_segments.major_ms, pending_segments.partition_id, pending_segments.sequence, pending_segments.previous_id, pending_segments.owner, pending_segments.lease_id, pending_segments.created_at_ms FROM pending_segments WHERE pending_segments.request IN (SELECT value FROM json_each(?))', ('requests',)),
    postgresql=SqlText('SELECT pending_segments.pending_id, pending_segments.datasource, pending_segments.start_ms, pending_segments.end_ms, pending_segments.major_ms, pending_segments.partition_id, pending_segments.sequence, pending_segments.previous_id, pending_segments.owner, pending_segments.lease_id, pending_segments.created_at_ms FROM pending_segments WHERE pending_segments.request = ANY(%(requests)s::TEXT[])'),
)
FIND_BY_ID = Statement(
    sqlite=SqlText('SELECT pending_segments.pending_id, pending_segments.datasource, pending_segments.start_ms, pending_segments.end_ms, pending_segments.major_ms, pending_segments.partition_id, pending_segments.sequence, pending_segments.previous_id, pending_segments.owner, pending_segments.lease_id, pending_segments.created_at_ms FROM pending_segments WHERE pending_segments.pending_id IN (SELECT value FROM json_each(?))', ('pending_ids',)),
    postgresql=SqlText('SELECT pending_segments.pending_id, pending_segments.datasource, pending_segments.start_ms, pending_segments.end_ms, pending_segments.major_ms, pending_segments.partition_id, pending_segments.sequence, pending_segments.previous_id, pending_segments.owner, pending_segments.lease_id, pending_segments.created_at_ms FROM pending_segments WHERE pending_segments.pending_id = ANY(%(pending_ids)s::TEXT[])'),
)
ALL = Statement(
    sqlite=SqlText('SELECT pending_segments.pending_id, pending_segments.datasource, pending_segments.start_ms, pending_segments.end_ms, pending_segments.major_ms, pending_segments.partition_id, pending_segments.sequence, pending_segments.previous_id, pending_segments.owner, pending_segments.lease_id, pending_segments.created_at_ms FROM pending_segments'),
    postgresql=SqlText('SELECT pending_segments.pending_id, pending_segments.datasource, pending_segments.start_ms, pending_segments.end_ms, pending_segments.major_ms, pending_segments.partition_id, pending_segments.sequence, pending_segments.previous_id, pending_segments.owner, pending_segments.lease_id, pending_segments.created_at_ms FROM pending_segments'),
)
OF_OWNER = Statement(
    sqlite=SqlText('SELECT pending_segments.pending_id, pending_segments.datasource, pending_segments.start_ms, pending_segments.end_ms, pending_segments.major_ms, pending_segments.partition_id, pending_segments.sequence, pending_segments.previous_id, pending_segments.owner, pending_segments.lease_id, pending_segments.created_at_ms FROM pending_segments WHERE pending_segments.owner = ?', ('owner',)),
    postgresql=SqlText('SELECT pending_segments.pending_id, pending_segments.datasource, pending_segments.start_ms, pending_segments.end_ms, pending_segments.major_ms, pending_segments.partition_id, pending_segments.sequence, pending_segments.previous_id, pending_segments.owner, pending_segments.lease_id, pending_segments.created_at_ms FROM pending_segments WHERE pending_segments.owner = %(owner)s::VARCHAR'),
)
PUT = Statement(
    sqlite=SqlText('INSERT INTO pending_segments (request, pending_id, datasource, start_ms, end_ms, major_ms, partition_id, sequence, previous_id, owner, lease_id, created_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (request) DO UPDATE SET created_at_ms = excluded.created_at_ms', ('request', 'pending_id', 'datasource', 'start_ms', 'end_ms', 'major_ms', 'partition_id', 'sequence', 'previous_id', 'owner', 'lease_id', 'created_at_ms')),
    postgresql=SqlText('INSERT INTO pending_segments (request, pending_id, datasource, start_ms, end_ms, major_ms, partition_id, sequence, previous_id, owner, lease_id, created_at_ms) VALUES (%(request)s::VARCHAR, %(pending_id)s::VARCHAR, %(datasource)s::VARCHAR, %(start_ms)s::BIGINT, %(end_ms)s::BIGINT, %(major_ms)s::BIGINT, %(partition_id)s::BIGINT, %(sequence)s::VARCHAR, %(previous_id)s::VARCHAR, %(owner)s::VARCHAR, %(lease_id)s::VARCHAR, %(created_at_ms)s::BIGINT) ON CONFLICT (request) DO UPDATE SET created_at_ms = excluded.created_at_ms'),
)
REMOVE = Statement(
    sqlite=SqlText('DELETE FROM pending_segments WHERE pending_segments.pending_id IN (SELECT value FROM json_each(?))', ('pending_ids',)),
    postgresql=SqlText('DELETE FROM pending_segments WHERE pending_segments.pending_id = ANY(%(pending_ids)s::TEXT[])'),
)
REMOVE_OF_OWNER = Statement(
    sqlite=SqlText('DELETE FROM pending_segments WHERE pending_segments.owner = ?', ('owner',)),
    postgresql=SqlText('DELETE FROM pending_segments WHERE pending_segments.owner = %(owner)s::VARCHAR'),
)
REMOVE_OF_LEASE = Statement(
    sqlite=SqlText('DELETE FROM pending_segments WHERE pending_segments.lease_id = ?', ('lease_id',)),
    postgresql=SqlText('DELETE FROM pending_segments WHERE pending_segments.lease_id = %(lease_id)s::VARCHAR'),
)
SWEEP = Statement(
    sqlite=SqlText("DELETE FROM pending_segments WHERE pending_segments.lease_id IS NOT NULL AND NOT (EXISTS (SELECT * FROM leases WHERE leases.lease_id = pending_segments.lease_id)) OR pending_segments.lease_id IS NULL AND pending_segments.created_at_ms < ? AND NOT (EXISTS (SELECT * FROM task_attempts WHERE (task_attempts.state = 'starting' OR task_attempts.state = 'running') AND (task_attempts.task_id || '/' || CAST(task_attempts.number AS TEXT)) = pending_segments.owner))", ('before_ms',)),
    postgresql=SqlText("DELETE FROM pending_segments WHERE pending_segments.lease_id IS NOT NULL AND NOT (EXISTS (SELECT * FROM leases WHERE leases.lease_id = pending_segments.lease_id)) OR pending_segments.lease_id IS NULL AND pending_segments.created_at_ms < %(before_ms)s::BIGINT AND NOT (EXISTS (SELECT * FROM task_attempts WHERE (task_attempts.state = 'starting' OR task_attempts.state = 'running') AND (task_attempts.task_id || '/' || CAST(task_attempts.number AS TEXT)) = pending_segments.owner))"),
)
CHUNKS = Statement(
    sqlite=SqlText('SELECT pending_chunks.datasource, pending_chunks.start_ms, pending_chunks.end_ms, pending_chunks.major_ms, pending_chunks.next_partition_id FROM pending_chunks WHERE pending_chunks.datasource = ? AND pending_chunks.start_ms < ? AND pending_chunks.end_ms > ?', ('datasource', 'end_ms', 'start_ms')),
    postgresql=SqlText('SELECT pending_chunks.datasource, pending_chunks.start_ms, pending_chunks.end_ms, pending_chunks.major_ms, pending_chunks.next_partition_id FROM pending_chunks WHERE pending_chunks.datasource = %(datasource)s::VARCHAR AND pending_chunks.start_ms < %(end_ms)s::BIGINT AND pending_chunks.end_ms > %(start_ms)s::BIGINT'),
)
PUT_CHUNK = Statement(
    sqlite=SqlText('INSERT INTO pending_chunks (datasource, start_ms, end_ms, major_ms, next_partition_id) VALUES (?, ?, ?, ?, ?) ON CONFLICT (datasource, start_ms, end_ms) DO UPDATE SET major_ms = excluded.major_ms, next_partition_id = excluded.next_partition_id', ('datasource', 'start_ms', 'end_ms', 'major_ms', 'next_partition_id')),
    postgresql=SqlText('INSERT INTO pending_chunks (datasource, start_ms, end_ms, major_ms, next_partition_id) VALUES (%(datasource)s::VARCHAR, %(start_ms)s::BIGINT, %(end_ms)s::BIGINT, %(major_ms)s::BIGINT, %(next_partition_id)s::BIGINT) ON CONFLICT (datasource, start_ms, end_ms) DO UPDATE SET major_ms = excluded.major_ms, next_partition_id = excluded.next_partition_id'),
)
REMOVE_CHUNK = Statement(
    sqlite=SqlText('DELETE FROM pending_chunks WHERE pending_chunks.datasource = ? AND pending_chunks.start_ms = ? AND pending_chunks.end_ms = ?', ('datasource', 'start_ms', 'end_ms')),
    postgresql=SqlText('DELETE FROM pending_chunks WHERE pending_chunks.datasource = %(datasource)s::VARCHAR AND pending_chunks.start_ms = %(start_ms)s::BIGINT AND pending_chunks.end_ms = %(end_ms)s::BIGINT'),
)
SWEEP_CHUNKS = Statement(
    sqlite=SqlText('DELETE FROM pending_chunks WHERE NOT (EXISTS (SELECT * FROM pending_segments WHERE pending_segments.datasource = pending_chunks.datasource AND pending_segments.start_ms = pending_chunks.start_ms AND pending_segments.end_ms = pending_chunks.end_ms))'),
    postgresql=SqlText('DELETE FROM pending_chunks WHERE NOT (EXISTS (SELECT * FROM pending_segments WHERE pending_segments.datasource = pending_chunks.datasource AND pending_segments.start_ms = pending_chunks.start_ms AND pending_segments.end_ms = pending_chunks.end_ms))'),
)
USE_UP = Statement(
    sqlite=SqlText('UPDATE chunks SET next_partition_id=? WHERE chunks.datasource_id = ? AND chunks.start_ms = ? AND chunks.end_ms = ?', ('next_partition_id', 'k_datasource_id', 'k_start_ms', 'k_end_ms')),
    postgresql=SqlText('UPDATE chunks SET next_partition_id=%(next_partition_id)s::BIGINT WHERE chunks.datasource_id = %(k_datasource_id)s::BIGINT AND chunks.start_ms = %(k_start_ms)s::BIGINT AND chunks.end_ms = %(k_end_ms)s::BIGINT'),
)
