"""The statements of the publish path, and small ones for settings, tags and leases.

Written from `carnac.metadata.definitions.statements` by `make statements`.
"""

from __future__ import annotations

from carnac.metadata.session import SqlText, Statement

HEAD = Statement(
    sqlite=SqlText('SELECT commits.revision, commits.at_ms FROM commits ORDER BY commits.revision DESC LIMIT 1 OFFSET ?', ('param_1',), {'param_1': 0}),
    postgresql=SqlText('SELECT commits.revision, commits.at_ms FROM commits ORDER BY commits.revision DESC LIMIT 1'),
)
STORE_VERSION = Statement(
    sqlite=SqlText('SELECT version_num FROM carnac_version'),
    postgresql=SqlText('SELECT version_num FROM carnac_version'),
)
ORIGIN = Statement(
    sqlite=SqlText('SELECT origin.created_at_ms FROM origin'),
    postgresql=SqlText('SELECT origin.created_at_ms FROM origin'),
)
SET_ORIGIN = Statement(
    sqlite=SqlText('UPDATE origin SET created_at_ms=?', ('at_ms',)),
    postgresql=SqlText('UPDATE origin SET created_at_ms=%(at_ms)s::BIGINT'),
)
FIND_BATCH = Statement(
    sqlite=SqlText('SELECT batches.revision, batches.at_ms FROM batches WHERE batches.writer = ? AND batches.batch = ?', ('writer', 'batch')),
    postgresql=SqlText('SELECT batches.revision, batches.at_ms FROM batches WHERE batches.writer = %(writer)s::VARCHAR AND batches.batch = %(batch)s::VARCHAR'),
)
FIND_BATCHES = Statement(
    sqlite=SqlText('SELECT batches.writer, batches.batch, batches.revision, batches.at_ms FROM batches WHERE (batches.writer, batches.batch) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))', ('pairs',)),
    postgresql=SqlText('SELECT batches.writer, batches.batch, batches.revision, batches.at_ms FROM batches WHERE (batches.writer, batches.batch) IN (SELECT value ->> 0, value ->> 1 FROM jsonb_array_elements(%(pairs)s::VARCHAR::JSONB))'),
)
FIND_DATASOURCE = Statement(
    sqlite=SqlText('SELECT datasources.datasource_id FROM datasources WHERE datasources.name = ?', ('name',)),
    postgresql=SqlText('SELECT datasources.datasource_id FROM datasources WHERE datasources.name = %(name)s::VARCHAR'),
)
DATASOURCES = Statement(
    sqlite=SqlText('SELECT datasources.datasource_id, datasources.name FROM datasources'),
    postgresql=SqlText('SELECT datasources.datasource_id, datasources.name FROM datasources'),
)
CHUNKS_LIVE_OVER = Statement(
    sqlite=SqlText('SELECT chunks.datasource_id, chunks.start_ms, chunks.end_ms, chunks.entries, chunks.major_ms, chunks.minor, chunks.top_major_ms, chunks.next_partition_id, chunks.revision, chunks.shown_start, chunks.shown_end, chunks.changes FROM chunks WHERE chunks.datasource_id = ? AND chunks.entries > 0 AND chunks.start_ms >= coalesce((SELECT max(earlier.start_ms) AS max_1 FROM chunks AS earlier WHERE earlier.datasource_id = ? AND earlier.entries > 0 AND earlier.start_ms <= ?), ?) AND chunks.start_ms < ? AND chunks.end_ms > ? ORDER BY chunks.start_ms', ('datasource_id', 'datasource_id', 'start_ms', 'start_ms', 'end_ms', 'start_ms')),
    postgresql=SqlText('SELECT chunks.datasource_id, chunks.start_ms, chunks.end_ms, chunks.entries, chunks.major_ms, chunks.minor, chunks.top_major_ms, chunks.next_partition_id, chunks.revision, chunks.shown_start, chunks.shown_end, chunks.changes FROM chunks WHERE chunks.datasource_id = %(datasource_id)s::BIGINT AND chunks.entries > 0 AND chunks.start_ms >= coalesce((SELECT max(earlier.start_ms) AS max_1 FROM chunks AS earlier WHERE earlier.datasource_id = %(datasource_id)s::BIGINT AND earlier.entries > 0 AND earlier.start_ms <= %(start_ms)s::BIGINT), %(start_ms)s) AND chunks.start_ms < %(end_ms)s::BIGINT AND chunks.end_ms > %(start_ms)s::BIGINT ORDER BY chunks.start_ms'),
)
CHUNKS_EVER_OVER = Statement(
    sqlite=SqlText('SELECT chunks.datasource_id, chunks.start_ms, chunks.end_ms, chunks.entries, chunks.major_ms, chunks.minor, chunks.top_major_ms, chunks.next_partition_id, chunks.revision, chunks.shown_start, chunks.shown_end, chunks.changes FROM chunks WHERE chunks.datasource_id = ? AND chunks.start_ms < ? AND chunks.end_ms > ?', ('datasource_id', 'end_ms', 'start_ms')),
    postgresql=SqlText('SELECT chunks.datasource_id, chunks.start_ms, chunks.end_ms, chunks.entries, chunks.major_ms, chunks.minor, chunks.top_major_ms, chunks.next_partition_id, chunks.revision, chunks.shown_start, chunks.shown_end, chunks.changes FROM chunks WHERE chunks.datasource_id = %(datasource_id)s::BIGINT AND chunks.start_ms < %(end_ms)s::BIGINT AND chunks.end_ms > %(start_ms)s::BIGINT'),
)
FIND_CHUNK = Statement(
    sqlite=SqlText('SELECT chunks.datasource_id, chunks.start_ms, chunks.end_ms, chunks.entries, chunks.major_ms, chunks.minor, chunks.top_major_ms, chunks.next_partition_id, chunks.revision, chunks.shown_start, chunks.shown_end, chunks.changes FROM chunks WHERE chunks.datasource_id = ? AND chunks.start_ms = ? AND chunks.end_ms = ?', ('datasource_id', 'start_ms', 'end_ms')),
    postgresql=SqlText('SELECT chunks.datasource_id, chunks.start_ms, chunks.end_ms, chunks.entries, chunks.major_ms, chunks.minor, chunks.top_major_ms, chunks.next_partition_id, chunks.revision, chunks.shown_start, chunks.shown_end, chunks.changes FROM chunks WHERE chunks.datasource_id = %(datasource_id)s::BIGINT AND chunks.start_ms = %(start_ms)s::BIGINT AND chunks.end_ms = %(end_ms)s::BIGINT'),
)
LIVE_ENTRIES_OF_CHUNK = Statement(
    sqlite=SqlText('SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision FROM entries WHERE entries.datasource_id = ? AND entries.chunk_start = ? AND entries.chunk_end = ? AND entries.dropped_revision IS NULL', ('datasource_id', 'start_ms', 'end_ms')),
    postgresql=SqlText('SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision FROM entries WHERE entries.datasource_id = %(datasource_id)s::BIGINT AND entries.chunk_start = %(start_ms)s::BIGINT AND entries.chunk_end = %(end_ms)s::BIGINT AND entries.dropped_revision IS NULL'),
)
LIVE_ENTRIES_OF_SEGMENTS = Statement(
    sqlite=SqlText('SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision FROM entries JOIN segments ON segments.segment_key = entries.segment_key WHERE segments.segment_id IN (SELECT value FROM json_each(?)) AND entries.datasource_id = ? AND entries.dropped_revision IS NULL', ('segment_ids', 'datasource_id')),
    postgresql=SqlText('SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision FROM entries JOIN segments ON segments.segment_key = entries.segment_key WHERE segments.segment_id = ANY(%(segment_ids)s::TEXT[]) AND entries.datasource_id = %(datasource_id)s::BIGINT AND entries.dropped_revision IS NULL'),
)
DROPPED_BY = Statement(
    sqlite=SqlText('SELECT max(entries.dropped_revision) AS max_1 FROM entries JOIN segments ON segments.segment_key = entries.segment_key WHERE segments.segment_id = ? AND entries.datasource_id = ? AND entries.dropped_revision > ?', ('segment_id', 'datasource_id', 'after')),
    postgresql=SqlText('SELECT max(entries.dropped_revision) AS max_1 FROM entries JOIN segments ON segments.segment_key = entries.segment_key WHERE segments.segment_id = %(segment_id)s::VARCHAR AND entries.datasource_id = %(datasource_id)s::BIGINT AND entries.dropped_revision > %(after)s::BIGINT'),
)
LIVES_AFTER = Statement(
    sqlite=SqlText('SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision, commits.kind FROM entries JOIN segments ON segments.segment_key = entries.segment_key LEFT OUTER JOIN commits ON commits.revision = entries.dropped_revision WHERE segments.segment_id IN (SELECT value FROM json_each(?)) AND entries.datasource_id = ? AND (entries.dropped_revision IS NULL OR entries.dropped_revision > ?)', ('segment_ids', 'datasource_id', 'after')),
    postgresql=SqlText('SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision, commits.kind FROM entries JOIN segments ON segments.segment_key = entries.segment_key LEFT OUTER JOIN commits ON commits.revision = entries.dropped_revision WHERE segments.segment_id = ANY(%(segment_ids)s::TEXT[]) AND entries.datasource_id = %(datasource_id)s::BIGINT AND (entries.dropped_revision IS NULL OR entries.dropped_revision > %(after)s::BIGINT)'),
)
CHANGED_AFTER = Statement(
    sqlite=SqlText('SELECT max(chunks.revision) AS max_1 FROM chunks WHERE chunks.datasource_id = ? AND chunks.start_ms < ? AND chunks.end_ms > ? AND chunks.revision > ?', ('datasource_id', 'end_ms', 'start_ms', 'after')),
    postgresql=SqlText('SELECT max(chunks.revision) AS max_1 FROM chunks WHERE chunks.datasource_id = %(datasource_id)s::BIGINT AND chunks.start_ms < %(end_ms)s::BIGINT AND chunks.end_ms > %(start_ms)s::BIGINT AND chunks.revision > %(after)s::BIGINT'),
)
COVERING_AFTER = Statement(
    sqlite=SqlText('SELECT max(covers.revision) AS max_1 FROM covers WHERE covers.datasource_id = ? AND covers.revision > ? AND covers.start_ms < ? AND covers.end_ms > ?', ('datasource_id', 'after', 'end_ms', 'start_ms')),
    postgresql=SqlText('SELECT max(covers.revision) AS max_1 FROM covers WHERE covers.datasource_id = %(datasource_id)s::BIGINT AND covers.revision > %(after)s::BIGINT AND covers.start_ms < %(end_ms)s::BIGINT AND covers.end_ms > %(start_ms)s::BIGINT'),
)
LOOKUP_SET_BY = Statement(
    sqlite=SqlText('SELECT lookups.added_revision FROM lookups WHERE lookups.name = ? AND lookups.dropped_revision IS NULL', ('name',)),
    postgresql=SqlText('SELECT lookups.added_revision FROM lookups WHERE lookups.name = %(name)s::VARCHAR AND lookups.dropped_revision IS NULL'),
)
INSERT_DATASOURCE = Statement(
    sqlite=SqlText('INSERT INTO datasources (datasource_id, name) VALUES (?, ?)', ('datasource_id', 'name')),
    postgresql=SqlText('INSERT INTO datasources (datasource_id, name) VALUES (%(datasource_id)s::BIGINT, %(name)s::VARCHAR)'),
)
INSERT_COMMIT = Statement(
    sqlite=SqlText('INSERT INTO commits (revision, kind, at_ms, until_ms, writer, batch, base_revision, message, details) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)', ('revision', 'kind', 'at_ms', 'until_ms', 'writer', 'batch', 'base_revision', 'message', 'details')),
    postgresql=SqlText('INSERT INTO commits (revision, kind, at_ms, until_ms, writer, batch, base_revision, message, details) VALUES (%(revision)s::BIGINT, %(kind)s::VARCHAR, %(at_ms)s::BIGINT, %(until_ms)s::BIGINT, %(writer)s::VARCHAR, %(batch)s::VARCHAR, %(base_revision)s::BIGINT, %(message)s::VARCHAR, %(details)s::VARCHAR)'),
)
INSERT_COMMIT_DATASOURCE = Statement(
    sqlite=SqlText('INSERT INTO commit_datasources (revision, datasource_id, segments, entries_added, entries_dropped, rows, size_bytes, covers) VALUES (?, ?, ?, ?, ?, ?, ?, ?)', ('revision', 'datasource_id', 'segments', 'entries_added', 'entries_dropped', 'rows', 'size_bytes', 'covers')),
    postgresql=SqlText('INSERT INTO commit_datasources (revision, datasource_id, segments, entries_added, entries_dropped, rows, size_bytes, covers) VALUES (%(revision)s::BIGINT, %(datasource_id)s::BIGINT, %(segments)s::BIGINT, %(entries_added)s::BIGINT, %(entries_dropped)s::BIGINT, %(rows)s::BIGINT, %(size_bytes)s::BIGINT, %(covers)s::VARCHAR)'),
)
INSERT_COVER = Statement(
    sqlite=SqlText('INSERT INTO covers (datasource_id, revision, start_ms, end_ms) VALUES (?, ?, ?, ?)', ('datasource_id', 'revision', 'start_ms', 'end_ms')),
    postgresql=SqlText('INSERT INTO covers (datasource_id, revision, start_ms, end_ms) VALUES (%(datasource_id)s::BIGINT, %(revision)s::BIGINT, %(start_ms)s::BIGINT, %(end_ms)s::BIGINT)'),
)
INSERT_BATCH = Statement(
    sqlite=SqlText('INSERT INTO batches (writer, batch, revision, at_ms) VALUES (?, ?, ?, ?)', ('writer', 'batch', 'revision', 'at_ms')),
    postgresql=SqlText('INSERT INTO batches (writer, batch, revision, at_ms) VALUES (%(writer)s::VARCHAR, %(batch)s::VARCHAR, %(revision)s::BIGINT, %(at_ms)s::BIGINT)'),
)
INSERT_SEGMENT = Statement(
    sqlite=SqlText('INSERT INTO segments (segment_key, segment_id, datasource_id, digest, path, rows, size_bytes, record, trashed_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)', ('segment_key', 'segment_id', 'datasource_id', 'digest', 'path', 'rows', 'size_bytes', 'record', 'trashed_at_ms')),
    postgresql=SqlText('INSERT INTO segments (segment_key, segment_id, datasource_id, digest, path, rows, size_bytes, record, trashed_at_ms) VALUES (%(segment_key)s::BIGINT, %(segment_id)s::VARCHAR, %(datasource_id)s::BIGINT, %(digest)s::BIGINT, %(path)s::VARCHAR, %(rows)s::BIGINT, %(size_bytes)s::BIGINT, %(record)s::VARCHAR, %(trashed_at_ms)s::BIGINT)'),
)
INSERT_ENTRY = Statement(
    sqlite=SqlText('INSERT INTO entries (entry_id, datasource_id, segment_key, segment_id, chunk_start, chunk_end, span_start, span_end, shown_start, shown_end, clip, major_ms, minor, partition_id, overshadowed, update_group, dropped_revision) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)', ('entry_id', 'datasource_id', 'segment_key', 'segment_id', 'chunk_start', 'chunk_end', 'span_start', 'span_end', 'shown_start', 'shown_end', 'clip', 'major_ms', 'minor', 'partition_id', 'overshadowed', 'update_group', 'dropped_revision')),
    postgresql=SqlText('INSERT INTO entries (entry_id, datasource_id, segment_key, segment_id, chunk_start, chunk_end, span_start, span_end, shown_start, shown_end, clip, major_ms, minor, partition_id, overshadowed, update_group, dropped_revision) VALUES (%(entry_id)s::BIGINT, %(datasource_id)s::BIGINT, %(segment_key)s::BIGINT, %(segment_id)s::VARCHAR, %(chunk_start)s::BIGINT, %(chunk_end)s::BIGINT, %(span_start)s::BIGINT, %(span_end)s::BIGINT, %(shown_start)s::BIGINT, %(shown_end)s::BIGINT, %(clip)s::VARCHAR, %(major_ms)s::BIGINT, %(minor)s::BIGINT, %(partition_id)s::BIGINT, %(overshadowed)s::VARCHAR, %(update_group)s::VARCHAR, %(dropped_revision)s::BIGINT)'),
)
INSERT_KEY_FRAME = Statement(
    sqlite=SqlText('INSERT INTO key_frames (datasource_id, chunk_start, chunk_end, revision, entry_ids) VALUES (?, ?, ?, ?, ?)', ('datasource_id', 'chunk_start', 'chunk_end', 'revision', 'entry_ids')),
    postgresql=SqlText('INSERT INTO key_frames (datasource_id, chunk_start, chunk_end, revision, entry_ids) VALUES (%(datasource_id)s::BIGINT, %(chunk_start)s::BIGINT, %(chunk_end)s::BIGINT, %(revision)s::BIGINT, %(entry_ids)s::VARCHAR)'),
)
INSERT_LOOKUP = Statement(
    sqlite=SqlText('INSERT INTO lookups (name, added_revision, dropped_revision, mapping) VALUES (?, ?, ?, ?)', ('name', 'added_revision', 'dropped_revision', 'mapping')),
    postgresql=SqlText('INSERT INTO lookups (name, added_revision, dropped_revision, mapping) VALUES (%(name)s::VARCHAR, %(added_revision)s::BIGINT, %(dropped_revision)s::BIGINT, %(mapping)s::VARCHAR)'),
)
PUT_CHUNK = Statement(
    sqlite=SqlText('INSERT INTO chunks (datasource_id, start_ms, end_ms, entries, major_ms, minor, top_major_ms, next_partition_id, revision, shown_start, shown_end, changes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (datasource_id, start_ms, end_ms) DO UPDATE SET entries = excluded.entries, major_ms = excluded.major_ms, minor = excluded.minor, top_major_ms = excluded.top_major_ms, next_partition_id = excluded.next_partition_id, revision = excluded.revision, shown_start = excluded.shown_start, shown_end = excluded.shown_end, changes = excluded.changes', ('datasource_id', 'start_ms', 'end_ms', 'entries', 'major_ms', 'minor', 'top_major_ms', 'next_partition_id', 'revision', 'shown_start', 'shown_end', 'changes')),
    postgresql=SqlText('INSERT INTO chunks (datasource_id, start_ms, end_ms, entries, major_ms, minor, top_major_ms, next_partition_id, revision, shown_start, shown_end, changes) VALUES (%(datasource_id)s::BIGINT, %(start_ms)s::BIGINT, %(end_ms)s::BIGINT, %(entries)s::BIGINT, %(major_ms)s::BIGINT, %(minor)s::BIGINT, %(top_major_ms)s::BIGINT, %(next_partition_id)s::BIGINT, %(revision)s::BIGINT, %(shown_start)s::BIGINT, %(shown_end)s::BIGINT, %(changes)s::BIGINT) ON CONFLICT (datasource_id, start_ms, end_ms) DO UPDATE SET entries = excluded.entries, major_ms = excluded.major_ms, minor = excluded.minor, top_major_ms = excluded.top_major_ms, next_partition_id = excluded.next_partition_id, revision = excluded.revision, shown_start = excluded.shown_start, shown_end = excluded.shown_end, changes = excluded.changes'),
)
ADD_TO_SCHEMA = Statement(
    sqlite=SqlText('INSERT INTO schemas (datasource_id, digest, columns, first_key, segments, rows, size_bytes) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (datasource_id, digest) DO UPDATE SET segments = (schemas.segments + excluded.segments), rows = (schemas.rows + excluded.rows), size_bytes = (schemas.size_bytes + excluded.size_bytes)', ('datasource_id', 'digest', 'columns', 'first_key', 'segments', 'rows', 'size_bytes')),
    postgresql=SqlText('INSERT INTO schemas (datasource_id, digest, columns, first_key, segments, rows, size_bytes) VALUES (%(datasource_id)s::BIGINT, %(digest)s::BIGINT, %(columns)s::VARCHAR, %(first_key)s::BIGINT, %(segments)s::BIGINT, %(rows)s::BIGINT, %(size_bytes)s::BIGINT) ON CONFLICT (datasource_id, digest) DO UPDATE SET segments = (schemas.segments + excluded.segments), rows = (schemas.rows + excluded.rows), size_bytes = (schemas.size_bytes + excluded.size_bytes)'),
)
DROP_ENTRIES = Statement(
    sqlite=SqlText('UPDATE entries SET dropped_revision=? WHERE entries.entry_id IN (SELECT value FROM json_each(?))', ('revision', 'entry_ids')),
    postgresql=SqlText('UPDATE entries SET dropped_revision=%(revision)s::BIGINT WHERE entries.entry_id = ANY(%(entry_ids)s::BIGINT[])'),
)
DROP_LOOKUP = Statement(
    sqlite=SqlText('UPDATE lookups SET dropped_revision=? WHERE lookups.name = ? AND lookups.dropped_revision IS NULL', ('revision', 'k_name')),
    postgresql=SqlText('UPDATE lookups SET dropped_revision=%(revision)s::BIGINT WHERE lookups.name = %(k_name)s::VARCHAR AND lookups.dropped_revision IS NULL'),
)
SEGMENT_KEYS = Statement(
    sqlite=SqlText('SELECT segments.segment_id, segments.segment_key, segments.digest, segments.rows, segments.size_bytes, segments.trashed_at_ms FROM segments WHERE segments.segment_id IN (SELECT value FROM json_each(?))', ('segment_ids',)),
    postgresql=SqlText('SELECT segments.segment_id, segments.segment_key, segments.digest, segments.rows, segments.size_bytes, segments.trashed_at_ms FROM segments WHERE segments.segment_id = ANY(%(segment_ids)s::TEXT[])'),
)
LIVE_SEGMENT_KEYS = Statement(
    sqlite=SqlText('SELECT DISTINCT entries.segment_key FROM entries WHERE entries.segment_key IN (SELECT value FROM json_each(?)) AND entries.dropped_revision IS NULL', ('segment_keys',)),
    postgresql=SqlText('SELECT DISTINCT entries.segment_key FROM entries WHERE entries.segment_key = ANY(%(segment_keys)s::BIGINT[]) AND entries.dropped_revision IS NULL'),
)
LIVE_SUMMARY = Statement(
    sqlite=SqlText('SELECT max(entries.major_ms) AS max_1, max(entries.minor) AS max_2, min(entries.shown_start) AS min_1, max(entries.shown_end) AS max_3 FROM entries WHERE entries.datasource_id = ? AND entries.chunk_start = ? AND entries.chunk_end = ? AND entries.dropped_revision IS NULL', ('datasource_id', 'start_ms', 'end_ms')),
    postgresql=SqlText('SELECT max(entries.major_ms) AS max_1, max(entries.minor) AS max_2, min(entries.shown_start) AS min_1, max(entries.shown_end) AS max_3 FROM entries WHERE entries.datasource_id = %(datasource_id)s::BIGINT AND entries.chunk_start = %(start_ms)s::BIGINT AND entries.chunk_end = %(end_ms)s::BIGINT AND entries.dropped_revision IS NULL'),
)
LIVE_IDS_OF_CHUNK = Statement(
    sqlite=SqlText('SELECT entries.entry_id FROM entries WHERE entries.datasource_id = ? AND entries.chunk_start = ? AND entries.chunk_end = ? AND entries.dropped_revision IS NULL ORDER BY entries.entry_id', ('datasource_id', 'start_ms', 'end_ms')),
    postgresql=SqlText('SELECT entries.entry_id FROM entries WHERE entries.datasource_id = %(datasource_id)s::BIGINT AND entries.chunk_start = %(start_ms)s::BIGINT AND entries.chunk_end = %(end_ms)s::BIGINT AND entries.dropped_revision IS NULL ORDER BY entries.entry_id'),
)
SETTINGS = Statement(
    sqlite=SqlText('SELECT settings.name, settings.value FROM settings'),
    postgresql=SqlText('SELECT settings.name, settings.value FROM settings'),
)
PUT_SETTING = Statement(
    sqlite=SqlText('INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value', ('name', 'value')),
    postgresql=SqlText('INSERT INTO settings (name, value) VALUES (%(name)s::VARCHAR, %(value)s::VARCHAR) ON CONFLICT (name) DO UPDATE SET value = excluded.value'),
)
TAGS = Statement(
    sqlite=SqlText('SELECT tags.name, tags.revision, tags.created_at_ms FROM tags'),
    postgresql=SqlText('SELECT tags.name, tags.revision, tags.created_at_ms FROM tags'),
)
FIND_TAG = Statement(
    sqlite=SqlText('SELECT tags.revision FROM tags WHERE tags.name = ?', ('name',)),
    postgresql=SqlText('SELECT tags.revision FROM tags WHERE tags.name = %(name)s::VARCHAR'),
)
PUT_TAG = Statement(
    sqlite=SqlText('INSERT INTO tags (name, revision, created_at_ms) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET revision = excluded.revision, created_at_ms = excluded.created_at_ms', ('name', 'revision', 'created_at_ms')),
    postgresql=SqlText('INSERT INTO tags (name, revision, created_at_ms) VALUES (%(name)s::VARCHAR, %(revision)s::BIGINT, %(created_at_ms)s::BIGINT) ON CONFLICT (name) DO UPDATE SET revision = excluded.revision, created_at_ms = excluded.created_at_ms'),
)
REMOVE_TAG = Statement(
    sqlite=SqlText('DELETE FROM tags WHERE tags.name = ? RETURNING name', ('name',)),
    postgresql=SqlText('DELETE FROM tags WHERE tags.name = %(name)s::VARCHAR RETURNING tags.name'),
)
INSERT_LEASE = Statement(
    sqlite=SqlText('INSERT INTO leases (lease_id, kind, revision, holder, acquired_at_ms, expires_at_ms, ttl_ms) VALUES (?, ?, ?, ?, ?, ?, ?)', ('lease_id', 'kind', 'revision', 'holder', 'acquired_at_ms', 'expires_at_ms', 'ttl_ms')),
    postgresql=SqlText('INSERT INTO leases (lease_id, kind, revision, holder, acquired_at_ms, expires_at_ms, ttl_ms) VALUES (%(lease_id)s::VARCHAR, %(kind)s::VARCHAR, %(revision)s::BIGINT, %(holder)s::VARCHAR, %(acquired_at_ms)s::BIGINT, %(expires_at_ms)s::BIGINT, %(ttl_ms)s::BIGINT)'),
)
LEASES = Statement(
    sqlite=SqlText('SELECT leases.lease_id, leases.kind, leases.revision, leases.holder, leases.acquired_at_ms, leases.expires_at_ms, leases.ttl_ms FROM leases WHERE NOT ((leases.expires_at_ms - leases.ttl_ms) + leases.ttl_ms <= ? OR (leases.expires_at_ms - leases.ttl_ms) - leases.ttl_ms >= ?) ORDER BY leases.acquired_at_ms, leases.lease_id', ('now_ms', 'now_ms')),
    postgresql=SqlText('SELECT leases.lease_id, leases.kind, leases.revision, leases.holder, leases.acquired_at_ms, leases.expires_at_ms, leases.ttl_ms FROM leases WHERE NOT ((leases.expires_at_ms - leases.ttl_ms) + leases.ttl_ms <= %(now_ms)s::BIGINT OR (leases.expires_at_ms - leases.ttl_ms) - leases.ttl_ms >= %(now_ms)s::BIGINT) ORDER BY leases.acquired_at_ms, leases.lease_id'),
)
FIND_LEASE = Statement(
    sqlite=SqlText('SELECT leases.lease_id, leases.kind, leases.revision, leases.holder, leases.acquired_at_ms, leases.expires_at_ms, leases.ttl_ms FROM leases WHERE leases.lease_id = ? AND NOT ((leases.expires_at_ms - leases.ttl_ms) + leases.ttl_ms <= ? OR (leases.expires_at_ms - leases.ttl_ms) - leases.ttl_ms >= ?)', ('lease_id', 'now_ms', 'now_ms')),
    postgresql=SqlText('SELECT leases.lease_id, leases.kind, leases.revision, leases.holder, leases.acquired_at_ms, leases.expires_at_ms, leases.ttl_ms FROM leases WHERE leases.lease_id = %(lease_id)s::VARCHAR AND NOT ((leases.expires_at_ms - leases.ttl_ms) + leases.ttl_ms <= %(now_ms)s::BIGINT OR (leases.expires_at_ms - leases.ttl_ms) - leases.ttl_ms >= %(now_ms)s::BIGINT)'),
)
FIND_LEASES = Statement(
    sqlite=SqlText('SELECT leases.lease_id, leases.kind, leases.revision, leases.holder, leases.acquired_at_ms, leases.expires_at_ms, leases.ttl_ms FROM leases WHERE leases.lease_id IN (SELECT value FROM json_each(?))', ('lease_ids',)),
    postgresql=SqlText('SELECT leases.lease_id, leases.kind, leases.revision, leases.holder, leases.acquired_at_ms, leases.expires_at_ms, leases.ttl_ms FROM leases WHERE leases.lease_id = ANY(%(lease_ids)s::TEXT[])'),
)
MOVE_LEASE = Statement(
    sqlite=SqlText('UPDATE leases SET revision=?, expires_at_ms=?, ttl_ms=? WHERE leases.lease_id = ?', ('revision', 'expires_at_ms', 'ttl_ms', 'k_lease_id')),
    postgresql=SqlText('UPDATE leases SET revision=%(revision)s::BIGINT, expires_at_ms=%(expires_at_ms)s::BIGINT, ttl_ms=%(ttl_ms)s::BIGINT WHERE leases.lease_id = %(k_lease_id)s::VARCHAR'),
)
RELEASE_LEASE = Statement(
    sqlite=SqlText('DELETE FROM leases WHERE leases.lease_id = ?', ('lease_id',)),
    postgresql=SqlText('DELETE FROM leases WHERE leases.lease_id = %(lease_id)s::VARCHAR'),
)
SWEEP_LEASES = Statement(
    sqlite=SqlText('DELETE FROM leases WHERE (leases.expires_at_ms - leases.ttl_ms) + leases.ttl_ms <= ? OR (leases.expires_at_ms - leases.ttl_ms) - leases.ttl_ms >= ?', ('now_ms', 'now_ms')),
    postgresql=SqlText('DELETE FROM leases WHERE (leases.expires_at_ms - leases.ttl_ms) + leases.ttl_ms <= %(now_ms)s::BIGINT OR (leases.expires_at_ms - leases.ttl_ms) - leases.ttl_ms >= %(now_ms)s::BIGINT'),
)
