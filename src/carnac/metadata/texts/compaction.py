"""What compaction keeps: its specs, and the states of chunks.

Written from `carnac.metadata.definitions.compaction` by `make statements`.
"""

from __future__ import annotations

from carnac.metadata.session import SqlText, Statement

STATE_COLUMNS = ('start_ms', 'end_ms', 'status', 'revision', 'segments', 'judged_by', 'reason', 'priority_millionths', 'cost', 'failures', 'retry_at_ms', 'arrived_bytes', 'rewritten_bytes')
SPECS = Statement(
    sqlite=SqlText('SELECT compaction_specs.datasource, compaction_specs.spec FROM compaction_specs ORDER BY compaction_specs.datasource'),
    postgresql=SqlText('SELECT compaction_specs.datasource, compaction_specs.spec FROM compaction_specs ORDER BY compaction_specs.datasource'),
)
PUT_SPEC = Statement(
    sqlite=SqlText('INSERT INTO compaction_specs (datasource, spec, changed_at_ms) VALUES (?, ?, ?) ON CONFLICT (datasource) DO UPDATE SET spec = excluded.spec, changed_at_ms = excluded.changed_at_ms', ('datasource', 'spec', 'changed_at_ms')),
    postgresql=SqlText('INSERT INTO compaction_specs (datasource, spec, changed_at_ms) VALUES (%(datasource)s::VARCHAR, %(spec)s::VARCHAR, %(changed_at_ms)s::BIGINT) ON CONFLICT (datasource) DO UPDATE SET spec = excluded.spec, changed_at_ms = excluded.changed_at_ms'),
)
REMOVE_SPEC = Statement(
    sqlite=SqlText('DELETE FROM compaction_specs WHERE compaction_specs.datasource = ?', ('datasource',)),
    postgresql=SqlText('DELETE FROM compaction_specs WHERE compaction_specs.datasource = %(datasource)s::VARCHAR'),
)
STATES = Statement(
    sqlite=SqlText('SELECT compaction_chunks.start_ms, compaction_chunks.end_ms, compaction_chunks.status, compaction_chunks.revision, compaction_chunks.segments, compaction_chunks.judged_by, compaction_chunks.reason, compaction_chunks.priority_millionths, compaction_chunks.cost, compaction_chunks.failures, compaction_chunks.retry_at_ms, compaction_chunks.arrived_bytes, compaction_chunks.rewritten_bytes FROM compaction_chunks WHERE compaction_chunks.datasource = ? ORDER BY compaction_chunks.start_ms, compaction_chunks.end_ms', ('datasource',)),
    postgresql=SqlText('SELECT compaction_chunks.start_ms, compaction_chunks.end_ms, compaction_chunks.status, compaction_chunks.revision, compaction_chunks.segments, compaction_chunks.judged_by, compaction_chunks.reason, compaction_chunks.priority_millionths, compaction_chunks.cost, compaction_chunks.failures, compaction_chunks.retry_at_ms, compaction_chunks.arrived_bytes, compaction_chunks.rewritten_bytes FROM compaction_chunks WHERE compaction_chunks.datasource = %(datasource)s::VARCHAR ORDER BY compaction_chunks.start_ms, compaction_chunks.end_ms'),
)
PUT_STATE = Statement(
    sqlite=SqlText('INSERT INTO compaction_chunks (datasource, start_ms, end_ms, status, revision, segments, judged_by, reason, priority_millionths, cost, failures, retry_at_ms, arrived_bytes, rewritten_bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (datasource, start_ms, end_ms) DO UPDATE SET status = excluded.status, revision = excluded.revision, segments = excluded.segments, judged_by = excluded.judged_by, reason = excluded.reason, priority_millionths = excluded.priority_millionths, cost = excluded.cost, failures = excluded.failures, retry_at_ms = excluded.retry_at_ms, arrived_bytes = excluded.arrived_bytes, rewritten_bytes = excluded.rewritten_bytes', ('datasource', 'start_ms', 'end_ms', 'status', 'revision', 'segments', 'judged_by', 'reason', 'priority_millionths', 'cost', 'failures', 'retry_at_ms', 'arrived_bytes', 'rewritten_bytes')),
    postgresql=SqlText('INSERT INTO compaction_chunks (datasource, start_ms, end_ms, status, revision, segments, judged_by, reason, priority_millionths, cost, failures, retry_at_ms, arrived_bytes, rewritten_bytes) VALUES (%(datasource)s::VARCHAR, %(start_ms)s::BIGINT, %(end_ms)s::BIGINT, %(status)s::VARCHAR, %(revision)s::BIGINT, %(segments)s::BIGINT, %(judged_by)s::VARCHAR, %(reason)s::VARCHAR, %(priority_millionths)s::BIGINT, %(cost)s::BIGINT, %(failures)s::BIGINT, %(retry_at_ms)s::BIGINT, %(arrived_bytes)s::BIGINT, %(rewritten_bytes)s::BIGINT) ON CONFLICT (datasource, start_ms, end_ms) DO UPDATE SET status = excluded.status, revision = excluded.revision, segments = excluded.segments, judged_by = excluded.judged_by, reason = excluded.reason, priority_millionths = excluded.priority_millionths, cost = excluded.cost, failures = excluded.failures, retry_at_ms = excluded.retry_at_ms, arrived_bytes = excluded.arrived_bytes, rewritten_bytes = excluded.rewritten_bytes'),
)
REMOVE_STATE = Statement(
    sqlite=SqlText('DELETE FROM compaction_chunks WHERE compaction_chunks.datasource = ? AND compaction_chunks.start_ms = ? AND compaction_chunks.end_ms = ?', ('datasource', 'start_ms', 'end_ms')),
    postgresql=SqlText('DELETE FROM compaction_chunks WHERE compaction_chunks.datasource = %(datasource)s::VARCHAR AND compaction_chunks.start_ms = %(start_ms)s::BIGINT AND compaction_chunks.end_ms = %(end_ms)s::BIGINT'),
)
REMOVE_STATES = Statement(
    sqlite=SqlText('DELETE FROM compaction_chunks WHERE compaction_chunks.datasource = ?', ('datasource',)),
    postgresql=SqlText('DELETE FROM compaction_chunks WHERE compaction_chunks.datasource = %(datasource)s::VARCHAR'),
)
