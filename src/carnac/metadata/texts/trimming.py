"""What a trim reads, marks and removes, and the trash.

Written from `carnac.metadata.definitions.trimming` by `make statements`.
"""

from __future__ import annotations

from carnac.metadata.session import SqlText, Statement

OLDEST_READER = Statement(
    sqlite=SqlText("SELECT min(leases.revision) AS min_1 FROM leases WHERE leases.kind = 'reader' AND NOT ((leases.expires_at_ms - leases.ttl_ms) + leases.ttl_ms <= ? OR (leases.expires_at_ms - leases.ttl_ms) - leases.ttl_ms >= ?)", ('now_ms', 'now_ms')),
    postgresql=SqlText("SELECT min(leases.revision) AS min_1 FROM leases WHERE leases.kind = 'reader' AND NOT ((leases.expires_at_ms - leases.ttl_ms) + leases.ttl_ms <= %(now_ms)s::BIGINT OR (leases.expires_at_ms - leases.ttl_ms) - leases.ttl_ms >= %(now_ms)s::BIGINT)"),
)
DROPPED_IN = Statement(
    sqlite=SqlText('SELECT entries.entry_id, entries.segment_key, entries.dropped_revision FROM entries WHERE entries.dropped_revision BETWEEN ? AND ?', ('first', 'last')),
    postgresql=SqlText('SELECT entries.entry_id, entries.segment_key, entries.dropped_revision FROM entries WHERE entries.dropped_revision BETWEEN %(first)s::BIGINT AND %(last)s::BIGINT'),
)
LIVES_OF = Statement(
    sqlite=SqlText('SELECT entries.segment_key, entries.entry_id, entries.dropped_revision FROM entries WHERE entries.segment_key IN (SELECT value FROM json_each(?))', ('segment_keys',)),
    postgresql=SqlText('SELECT entries.segment_key, entries.entry_id, entries.dropped_revision FROM entries WHERE entries.segment_key = ANY(%(segment_keys)s::BIGINT[])'),
)
UNTRASHED = Statement(
    sqlite=SqlText('SELECT segments.segment_key, segments.record FROM segments WHERE segments.segment_key IN (SELECT value FROM json_each(?)) AND segments.trashed_at_ms IS NULL', ('segment_keys',)),
    postgresql=SqlText('SELECT segments.segment_key, segments.record FROM segments WHERE segments.segment_key = ANY(%(segment_keys)s::BIGINT[]) AND segments.trashed_at_ms IS NULL'),
)
GONE_NAMED = Statement(
    sqlite=SqlText('SELECT segments.segment_id, entries.entry_id, entries.dropped_revision FROM entries JOIN segments ON segments.segment_key = entries.segment_key WHERE entries.dropped_revision IS NOT NULL AND segments.trashed_at_ms IS NULL ORDER BY entries.entry_id'),
    postgresql=SqlText('SELECT segments.segment_id, entries.entry_id, entries.dropped_revision FROM entries JOIN segments ON segments.segment_key = entries.segment_key WHERE entries.dropped_revision IS NOT NULL AND segments.trashed_at_ms IS NULL ORDER BY entries.entry_id'),
)
LIVE_AMONG = Statement(
    sqlite=SqlText('SELECT segments.segment_id FROM segments JOIN entries ON segments.segment_key = entries.segment_key WHERE segments.segment_id IN (SELECT value FROM json_each(?)) AND entries.dropped_revision IS NULL', ('segment_ids',)),
    postgresql=SqlText('SELECT segments.segment_id FROM segments JOIN entries ON segments.segment_key = entries.segment_key WHERE segments.segment_id = ANY(%(segment_ids)s::TEXT[]) AND entries.dropped_revision IS NULL'),
)
SET_UNTIL = Statement(
    sqlite=SqlText('UPDATE commits SET until_ms=? WHERE commits.revision = ?', ('until_ms', 'k_revision')),
    postgresql=SqlText('UPDATE commits SET until_ms=%(until_ms)s::BIGINT WHERE commits.revision = %(k_revision)s::BIGINT'),
)
DELETE_COMMITS = Statement(
    sqlite=SqlText('DELETE FROM commits WHERE commits.revision BETWEEN ? AND ?', ('first', 'last')),
    postgresql=SqlText('DELETE FROM commits WHERE commits.revision BETWEEN %(first)s::BIGINT AND %(last)s::BIGINT'),
)
DELETE_COMMIT_DATASOURCES = Statement(
    sqlite=SqlText('DELETE FROM commit_datasources WHERE commit_datasources.revision BETWEEN ? AND ?', ('first', 'last')),
    postgresql=SqlText('DELETE FROM commit_datasources WHERE commit_datasources.revision BETWEEN %(first)s::BIGINT AND %(last)s::BIGINT'),
)
DELETE_ENTRIES = Statement(
    sqlite=SqlText('DELETE FROM entries WHERE entries.entry_id IN (SELECT value FROM json_each(?))', ('ids',)),
    postgresql=SqlText('DELETE FROM entries WHERE entries.entry_id = ANY(%(ids)s::BIGINT[])'),
)
TRASH = Statement(
    sqlite=SqlText('UPDATE segments SET trashed_at_ms=? WHERE segments.segment_key IN (SELECT value FROM json_each(?))', ('at_ms', 'segment_keys')),
    postgresql=SqlText('UPDATE segments SET trashed_at_ms=%(at_ms)s::BIGINT WHERE segments.segment_key = ANY(%(segment_keys)s::BIGINT[])'),
)
GONE_LOOKUPS = Statement(
    sqlite=SqlText('SELECT lookups.name, lookups.added_revision, lookups.dropped_revision FROM lookups WHERE lookups.dropped_revision IS NOT NULL'),
    postgresql=SqlText('SELECT lookups.name, lookups.added_revision, lookups.dropped_revision FROM lookups WHERE lookups.dropped_revision IS NOT NULL'),
)
DELETE_LOOKUP = Statement(
    sqlite=SqlText('DELETE FROM lookups WHERE lookups.name = ? AND lookups.added_revision = ?', ('name', 'added_revision')),
    postgresql=SqlText('DELETE FROM lookups WHERE lookups.name = %(name)s::VARCHAR AND lookups.added_revision = %(added_revision)s::BIGINT'),
)
COVERS_IN = Statement(
    sqlite=SqlText('SELECT covers.datasource_id, covers.revision, covers.start_ms, covers.end_ms FROM covers WHERE covers.revision BETWEEN ? AND ?', ('first', 'last')),
    postgresql=SqlText('SELECT covers.datasource_id, covers.revision, covers.start_ms, covers.end_ms FROM covers WHERE covers.revision BETWEEN %(first)s::BIGINT AND %(last)s::BIGINT'),
)
REVERTS_IN = Statement(
    sqlite=SqlText("SELECT commits.revision FROM commits WHERE commits.revision BETWEEN ? AND ? AND commits.kind = 'revert'", ('first', 'last')),
    postgresql=SqlText("SELECT commits.revision FROM commits WHERE commits.revision BETWEEN %(first)s::BIGINT AND %(last)s::BIGINT AND commits.kind = 'revert'"),
)
DELETE_COVERS = Statement(
    sqlite=SqlText('DELETE FROM covers WHERE covers.revision BETWEEN ? AND ?', ('first', 'last')),
    postgresql=SqlText('DELETE FROM covers WHERE covers.revision BETWEEN %(first)s::BIGINT AND %(last)s::BIGINT'),
)
FRAMES = Statement(
    sqlite=SqlText('SELECT key_frames.datasource_id, key_frames.chunk_start, key_frames.chunk_end, key_frames.revision FROM key_frames ORDER BY key_frames.datasource_id, key_frames.chunk_start, key_frames.chunk_end, key_frames.revision'),
    postgresql=SqlText('SELECT key_frames.datasource_id, key_frames.chunk_start, key_frames.chunk_end, key_frames.revision FROM key_frames ORDER BY key_frames.datasource_id, key_frames.chunk_start, key_frames.chunk_end, key_frames.revision'),
)
DELETE_FRAME = Statement(
    sqlite=SqlText('DELETE FROM key_frames WHERE key_frames.datasource_id = ? AND key_frames.chunk_start = ? AND key_frames.chunk_end = ? AND key_frames.revision = ?', ('datasource_id', 'chunk_start', 'chunk_end', 'revision')),
    postgresql=SqlText('DELETE FROM key_frames WHERE key_frames.datasource_id = %(datasource_id)s::BIGINT AND key_frames.chunk_start = %(chunk_start)s::BIGINT AND key_frames.chunk_end = %(chunk_end)s::BIGINT AND key_frames.revision = %(revision)s::BIGINT'),
)
DELETE_DEAD_CHUNKS = Statement(
    sqlite=SqlText('DELETE FROM chunks WHERE chunks.entries = 0 AND chunks.revision <= ? AND NOT (EXISTS (SELECT entries.entry_id FROM entries WHERE entries.datasource_id = chunks.datasource_id AND entries.chunk_start = chunks.start_ms AND entries.chunk_end = chunks.end_ms AND entries.dropped_revision IS NOT NULL))', ('oldest',)),
    postgresql=SqlText('DELETE FROM chunks WHERE chunks.entries = 0 AND chunks.revision <= %(oldest)s::BIGINT AND NOT (EXISTS (SELECT entries.entry_id FROM entries WHERE entries.datasource_id = chunks.datasource_id AND entries.chunk_start = chunks.start_ms AND entries.chunk_end = chunks.end_ms AND entries.dropped_revision IS NOT NULL))'),
)
COUNT_OLD_BATCHES = Statement(
    sqlite=SqlText('SELECT count(*) AS count_1 FROM batches WHERE batches.at_ms < ? AND (batches.revision NOT IN (SELECT max(batches.revision) AS max_1 FROM batches GROUP BY batches.writer))', ('before_ms',)),
    postgresql=SqlText('SELECT count(*) AS count_1 FROM batches WHERE batches.at_ms < %(before_ms)s::BIGINT AND (batches.revision NOT IN (SELECT max(batches.revision) AS max_1 FROM batches GROUP BY batches.writer))'),
)
DELETE_OLD_BATCHES = Statement(
    sqlite=SqlText('DELETE FROM batches WHERE batches.at_ms < ? AND (batches.revision NOT IN (SELECT max(batches.revision) AS max_1 FROM batches GROUP BY batches.writer))', ('before_ms',)),
    postgresql=SqlText('DELETE FROM batches WHERE batches.at_ms < %(before_ms)s::BIGINT AND (batches.revision NOT IN (SELECT max(batches.revision) AS max_1 FROM batches GROUP BY batches.writer))'),
)
TRASHED = Statement(
    sqlite=SqlText('SELECT segments.record, segments.trashed_at_ms FROM segments WHERE segments.trashed_at_ms IS NOT NULL ORDER BY segments.segment_key'),
    postgresql=SqlText('SELECT segments.record, segments.trashed_at_ms FROM segments WHERE segments.trashed_at_ms IS NOT NULL ORDER BY segments.segment_key'),
)
FORGET_SEGMENTS = Statement(
    sqlite=SqlText('DELETE FROM segments WHERE segments.segment_id IN (SELECT value FROM json_each(?)) AND segments.trashed_at_ms IS NOT NULL', ('segment_ids',)),
    postgresql=SqlText('DELETE FROM segments WHERE segments.segment_id = ANY(%(segment_ids)s::TEXT[]) AND segments.trashed_at_ms IS NOT NULL'),
)
DELETE_EMPTY_SCHEMAS = Statement(
    sqlite=SqlText('DELETE FROM schemas WHERE schemas.segments = 0 AND NOT (EXISTS (SELECT segments.segment_key FROM segments WHERE segments.datasource_id = schemas.datasource_id AND segments.digest = schemas.digest))'),
    postgresql=SqlText('DELETE FROM schemas WHERE schemas.segments = 0 AND NOT (EXISTS (SELECT segments.segment_key FROM segments WHERE segments.datasource_id = schemas.datasource_id AND segments.digest = schemas.digest))'),
)
DELETE_EMPTY_DATASOURCES = Statement(
    sqlite=SqlText('DELETE FROM datasources WHERE NOT (EXISTS (SELECT commit_datasources.revision FROM commit_datasources WHERE commit_datasources.datasource_id = datasources.datasource_id)) AND NOT (EXISTS (SELECT schemas.digest FROM schemas WHERE schemas.datasource_id = datasources.datasource_id)) AND NOT (EXISTS (SELECT covers.revision FROM covers WHERE covers.datasource_id = datasources.datasource_id)) AND NOT (EXISTS (SELECT chunks.revision FROM chunks WHERE chunks.datasource_id = datasources.datasource_id))'),
    postgresql=SqlText('DELETE FROM datasources WHERE NOT (EXISTS (SELECT commit_datasources.revision FROM commit_datasources WHERE commit_datasources.datasource_id = datasources.datasource_id)) AND NOT (EXISTS (SELECT schemas.digest FROM schemas WHERE schemas.datasource_id = datasources.datasource_id)) AND NOT (EXISTS (SELECT covers.revision FROM covers WHERE covers.datasource_id = datasources.datasource_id)) AND NOT (EXISTS (SELECT chunks.revision FROM chunks WHERE chunks.datasource_id = datasources.datasource_id))'),
)
KNOWN_PATHS = Statement(
    sqlite=SqlText('SELECT segments.path FROM segments'),
    postgresql=SqlText('SELECT segments.path FROM segments'),
)
