"""The statements of reading: states of datasources, commits, lookups.

Written from `carnac.metadata.definitions.queries` by `make statements`.
"""

from __future__ import annotations

from carnac.metadata.session import SqlText, Statement

ENTRY_WIDTH = 17
LIVE_SEGMENTS = Statement(
    sqlite=SqlText('SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision, segments.segment_key AS segment_key_1, segments.record FROM entries JOIN segments ON segments.segment_key = entries.segment_key WHERE entries.datasource_id = ? AND entries.dropped_revision IS NULL AND entries.chunk_start >= ? AND entries.chunk_start < ? AND entries.shown_start < ? AND entries.shown_end > ?', ('datasource_id', 'first_start', 'end_ms', 'end_ms', 'start_ms')),
    postgresql=SqlText('SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision, segments.segment_key AS segment_key_1, segments.record FROM entries JOIN segments ON segments.segment_key = entries.segment_key WHERE entries.datasource_id = %(datasource_id)s::BIGINT AND entries.dropped_revision IS NULL AND entries.chunk_start >= %(first_start)s::BIGINT AND entries.chunk_start < %(end_ms)s::BIGINT AND entries.shown_start < %(end_ms)s::BIGINT AND entries.shown_end > %(start_ms)s::BIGINT'),
)
LIVE_NUMBERS = Statement(
    sqlite=SqlText('SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision, segments.segment_key AS segment_key_1, segments.digest, segments.rows, segments.size_bytes FROM entries JOIN segments ON segments.segment_key = entries.segment_key WHERE entries.datasource_id = ? AND entries.dropped_revision IS NULL AND entries.chunk_start >= ? AND entries.chunk_start < ? AND entries.shown_start < ? AND entries.shown_end > ?', ('datasource_id', 'first_start', 'end_ms', 'end_ms', 'start_ms')),
    postgresql=SqlText('SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision, segments.segment_key AS segment_key_1, segments.digest, segments.rows, segments.size_bytes FROM entries JOIN segments ON segments.segment_key = entries.segment_key WHERE entries.datasource_id = %(datasource_id)s::BIGINT AND entries.dropped_revision IS NULL AND entries.chunk_start >= %(first_start)s::BIGINT AND entries.chunk_start < %(end_ms)s::BIGINT AND entries.shown_start < %(end_ms)s::BIGINT AND entries.shown_end > %(start_ms)s::BIGINT'),
)
ADDED_SEGMENTS = Statement(
    sqlite=SqlText('SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision, segments.segment_key AS segment_key_1, segments.record FROM entries JOIN segments ON segments.segment_key = entries.segment_key WHERE entries.datasource_id = ? AND entries.chunk_start = ? AND entries.chunk_end = ? AND entries.entry_id >= ? AND entries.entry_id < ? AND entries.dropped_revision IS NULL UNION ALL SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision, segments.segment_key AS segment_key_1, segments.record FROM entries JOIN segments ON segments.segment_key = entries.segment_key WHERE entries.datasource_id = ? AND entries.chunk_start = ? AND entries.chunk_end = ? AND entries.entry_id >= ? AND entries.entry_id < ? AND entries.dropped_revision > ?', ('datasource_id', 'start_ms', 'end_ms', 'first_id', 'end_id', 'datasource_id', 'start_ms', 'end_ms', 'first_id', 'end_id', 'revision')),
    postgresql=SqlText('SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision, segments.segment_key AS segment_key_1, segments.record FROM entries JOIN segments ON segments.segment_key = entries.segment_key WHERE entries.datasource_id = %(datasource_id)s::BIGINT AND entries.chunk_start = %(start_ms)s::BIGINT AND entries.chunk_end = %(end_ms)s::BIGINT AND entries.entry_id >= %(first_id)s::BIGINT AND entries.entry_id < %(end_id)s::BIGINT AND entries.dropped_revision IS NULL UNION ALL SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision, segments.segment_key AS segment_key_1, segments.record FROM entries JOIN segments ON segments.segment_key = entries.segment_key WHERE entries.datasource_id = %(datasource_id)s::BIGINT AND entries.chunk_start = %(start_ms)s::BIGINT AND entries.chunk_end = %(end_ms)s::BIGINT AND entries.entry_id >= %(first_id)s::BIGINT AND entries.entry_id < %(end_id)s::BIGINT AND entries.dropped_revision > %(revision)s::BIGINT'),
)
ADDED_NUMBERS = Statement(
    sqlite=SqlText('SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision, segments.segment_key AS segment_key_1, segments.digest, segments.rows, segments.size_bytes FROM entries JOIN segments ON segments.segment_key = entries.segment_key WHERE entries.datasource_id = ? AND entries.chunk_start = ? AND entries.chunk_end = ? AND entries.entry_id >= ? AND entries.entry_id < ? AND entries.dropped_revision IS NULL UNION ALL SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision, segments.segment_key AS segment_key_1, segments.digest, segments.rows, segments.size_bytes FROM entries JOIN segments ON segments.segment_key = entries.segment_key WHERE entries.datasource_id = ? AND entries.chunk_start = ? AND entries.chunk_end = ? AND entries.entry_id >= ? AND entries.entry_id < ? AND entries.dropped_revision > ?', ('datasource_id', 'start_ms', 'end_ms', 'first_id', 'end_id', 'datasource_id', 'start_ms', 'end_ms', 'first_id', 'end_id', 'revision')),
    postgresql=SqlText('SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision, segments.segment_key AS segment_key_1, segments.digest, segments.rows, segments.size_bytes FROM entries JOIN segments ON segments.segment_key = entries.segment_key WHERE entries.datasource_id = %(datasource_id)s::BIGINT AND entries.chunk_start = %(start_ms)s::BIGINT AND entries.chunk_end = %(end_ms)s::BIGINT AND entries.entry_id >= %(first_id)s::BIGINT AND entries.entry_id < %(end_id)s::BIGINT AND entries.dropped_revision IS NULL UNION ALL SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision, segments.segment_key AS segment_key_1, segments.digest, segments.rows, segments.size_bytes FROM entries JOIN segments ON segments.segment_key = entries.segment_key WHERE entries.datasource_id = %(datasource_id)s::BIGINT AND entries.chunk_start = %(start_ms)s::BIGINT AND entries.chunk_end = %(end_ms)s::BIGINT AND entries.entry_id >= %(first_id)s::BIGINT AND entries.entry_id < %(end_id)s::BIGINT AND entries.dropped_revision > %(revision)s::BIGINT'),
)
FRAME_SEGMENTS = Statement(
    sqlite=SqlText('SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision, segments.segment_key AS segment_key_1, segments.record FROM entries JOIN segments ON segments.segment_key = entries.segment_key WHERE entries.entry_id IN (SELECT value FROM json_each(?)) AND (entries.dropped_revision IS NULL OR entries.dropped_revision > ?)', ('entry_ids', 'revision')),
    postgresql=SqlText('SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision, segments.segment_key AS segment_key_1, segments.record FROM entries JOIN segments ON segments.segment_key = entries.segment_key WHERE entries.entry_id = ANY(%(entry_ids)s::BIGINT[]) AND (entries.dropped_revision IS NULL OR entries.dropped_revision > %(revision)s::BIGINT)'),
)
FRAME_NUMBERS = Statement(
    sqlite=SqlText('SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision, segments.segment_key AS segment_key_1, segments.digest, segments.rows, segments.size_bytes FROM entries JOIN segments ON segments.segment_key = entries.segment_key WHERE entries.entry_id IN (SELECT value FROM json_each(?)) AND (entries.dropped_revision IS NULL OR entries.dropped_revision > ?)', ('entry_ids', 'revision')),
    postgresql=SqlText('SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision, segments.segment_key AS segment_key_1, segments.digest, segments.rows, segments.size_bytes FROM entries JOIN segments ON segments.segment_key = entries.segment_key WHERE entries.entry_id = ANY(%(entry_ids)s::BIGINT[]) AND (entries.dropped_revision IS NULL OR entries.dropped_revision > %(revision)s::BIGINT)'),
)
FIND_FRAME = Statement(
    sqlite=SqlText('SELECT key_frames.revision, key_frames.entry_ids FROM key_frames WHERE key_frames.datasource_id = ? AND key_frames.chunk_start = ? AND key_frames.chunk_end = ? AND key_frames.revision <= ? ORDER BY key_frames.revision DESC LIMIT 1 OFFSET ?', ('datasource_id', 'start_ms', 'end_ms', 'revision', 'param_1'), {'param_1': 0}),
    postgresql=SqlText('SELECT key_frames.revision, key_frames.entry_ids FROM key_frames WHERE key_frames.datasource_id = %(datasource_id)s::BIGINT AND key_frames.chunk_start = %(start_ms)s::BIGINT AND key_frames.chunk_end = %(end_ms)s::BIGINT AND key_frames.revision <= %(revision)s::BIGINT ORDER BY key_frames.revision DESC LIMIT 1'),
)
FIRST_CHUNK_START = Statement(
    sqlite=SqlText('SELECT max(chunks.start_ms) AS max_1 FROM chunks WHERE chunks.datasource_id = ? AND chunks.entries > 0 AND chunks.start_ms <= ?', ('datasource_id', 'start_ms')),
    postgresql=SqlText('SELECT max(chunks.start_ms) AS max_1 FROM chunks WHERE chunks.datasource_id = %(datasource_id)s::BIGINT AND chunks.entries > 0 AND chunks.start_ms <= %(start_ms)s::BIGINT'),
)
LIVE_CHUNKS = Statement(
    sqlite=SqlText('SELECT chunks.datasource_id, chunks.start_ms, chunks.end_ms, chunks.entries, chunks.major_ms, chunks.minor, chunks.top_major_ms, chunks.next_partition_id, chunks.revision, chunks.shown_start, chunks.shown_end, chunks.changes FROM chunks WHERE chunks.datasource_id = ? AND chunks.entries > 0 ORDER BY chunks.start_ms', ('datasource_id',)),
    postgresql=SqlText('SELECT chunks.datasource_id, chunks.start_ms, chunks.end_ms, chunks.entries, chunks.major_ms, chunks.minor, chunks.top_major_ms, chunks.next_partition_id, chunks.revision, chunks.shown_start, chunks.shown_end, chunks.changes FROM chunks WHERE chunks.datasource_id = %(datasource_id)s::BIGINT AND chunks.entries > 0 ORDER BY chunks.start_ms'),
)
COUNT_LIVE = Statement(
    sqlite=SqlText('SELECT coalesce(sum(chunks.entries), 0) AS coalesce_1 FROM chunks WHERE chunks.datasource_id = ? AND chunks.entries > 0', ('datasource_id',)),
    postgresql=SqlText('SELECT coalesce(sum(chunks.entries), 0) AS coalesce_1 FROM chunks WHERE chunks.datasource_id = %(datasource_id)s::BIGINT AND chunks.entries > 0'),
)
LIVE_EXTENTS = Statement(
    sqlite=SqlText('SELECT datasources.datasource_id, datasources.name, count(*) AS count_1, min(chunks.shown_start) AS min_1, max(chunks.shown_end) AS max_1 FROM datasources JOIN chunks ON chunks.datasource_id = datasources.datasource_id WHERE chunks.entries > 0 GROUP BY datasources.datasource_id, datasources.name'),
    postgresql=SqlText('SELECT datasources.datasource_id, datasources.name, count(*) AS count_1, min(chunks.shown_start) AS min_1, max(chunks.shown_end) AS max_1 FROM datasources JOIN chunks ON chunks.datasource_id = datasources.datasource_id WHERE chunks.entries > 0 GROUP BY datasources.datasource_id, datasources.name'),
)
LIVE_TOTALS = Statement(
    sqlite=SqlText('SELECT schemas.datasource_id, sum(schemas.segments) AS sum_1, sum(schemas.rows) AS sum_2, sum(schemas.size_bytes) AS sum_3 FROM schemas GROUP BY schemas.datasource_id'),
    postgresql=SqlText('SELECT schemas.datasource_id, sum(schemas.segments) AS sum_1, sum(schemas.rows) AS sum_2, sum(schemas.size_bytes) AS sum_3 FROM schemas GROUP BY schemas.datasource_id'),
)
LAST_CHANGE = Statement(
    sqlite=SqlText('SELECT max(commit_datasources.revision) AS max_1 FROM commit_datasources WHERE commit_datasources.datasource_id = ? AND commit_datasources.revision <= ?', ('datasource_id', 'revision')),
    postgresql=SqlText('SELECT max(commit_datasources.revision) AS max_1 FROM commit_datasources WHERE commit_datasources.datasource_id = %(datasource_id)s::BIGINT AND commit_datasources.revision <= %(revision)s::BIGINT'),
)
SCHEMAS = Statement(
    sqlite=SqlText('SELECT schemas.digest, schemas.columns, schemas.segments FROM schemas WHERE schemas.datasource_id = ? ORDER BY schemas.first_key', ('datasource_id',)),
    postgresql=SqlText('SELECT schemas.digest, schemas.columns, schemas.segments FROM schemas WHERE schemas.datasource_id = %(datasource_id)s::BIGINT ORDER BY schemas.first_key'),
)
FIND_SEGMENT = Statement(
    sqlite=SqlText('SELECT segments.record FROM segments WHERE segments.segment_id = ?', ('segment_id',)),
    postgresql=SqlText('SELECT segments.record FROM segments WHERE segments.segment_id = %(segment_id)s::VARCHAR'),
)
SEGMENTS_AFTER = Statement(
    sqlite=SqlText('SELECT segments.record FROM segments WHERE segments.segment_id > ? AND segments.trashed_at_ms IS NULL ORDER BY segments.segment_id LIMIT ? OFFSET ?', ('after', 'limit', 'param_1'), {'param_1': 0}),
    postgresql=SqlText('SELECT segments.record FROM segments WHERE segments.segment_id > %(after)s::VARCHAR AND segments.trashed_at_ms IS NULL ORDER BY segments.segment_id LIMIT %(limit)s'),
)
FIND_COMMIT = Statement(
    sqlite=SqlText('SELECT commits.revision, commits.kind, commits.at_ms, commits.until_ms, commits.writer, commits.batch, commits.base_revision, commits.message, commits.details FROM commits WHERE commits.revision = ?', ('revision',)),
    postgresql=SqlText('SELECT commits.revision, commits.kind, commits.at_ms, commits.until_ms, commits.writer, commits.batch, commits.base_revision, commits.message, commits.details FROM commits WHERE commits.revision = %(revision)s::BIGINT'),
)
COMMITS_AFTER = Statement(
    sqlite=SqlText('SELECT commits.revision, commits.kind, commits.at_ms, commits.until_ms, commits.writer, commits.batch, commits.base_revision, commits.message, commits.details FROM commits WHERE commits.revision > ? ORDER BY commits.revision LIMIT ? OFFSET ?', ('after', 'limit', 'param_1'), {'param_1': 0}),
    postgresql=SqlText('SELECT commits.revision, commits.kind, commits.at_ms, commits.until_ms, commits.writer, commits.batch, commits.base_revision, commits.message, commits.details FROM commits WHERE commits.revision > %(after)s::BIGINT ORDER BY commits.revision LIMIT %(limit)s'),
)
NEWEST_COMMITS = Statement(
    sqlite=SqlText('SELECT commits.revision, commits.kind, commits.at_ms, commits.until_ms, commits.writer, commits.batch, commits.base_revision, commits.message, commits.details FROM commits WHERE commits.revision < ? ORDER BY commits.revision DESC LIMIT ? OFFSET ?', ('before', 'limit', 'param_1'), {'param_1': 0}),
    postgresql=SqlText('SELECT commits.revision, commits.kind, commits.at_ms, commits.until_ms, commits.writer, commits.batch, commits.base_revision, commits.message, commits.details FROM commits WHERE commits.revision < %(before)s::BIGINT ORDER BY commits.revision DESC LIMIT %(limit)s'),
)
NEWEST_COMMITS_OF = Statement(
    sqlite=SqlText('SELECT commits.revision, commits.kind, commits.at_ms, commits.until_ms, commits.writer, commits.batch, commits.base_revision, commits.message, commits.details FROM commits JOIN commit_datasources ON commit_datasources.revision = commits.revision WHERE commit_datasources.datasource_id = ? AND commit_datasources.revision < ? ORDER BY commit_datasources.revision DESC LIMIT ? OFFSET ?', ('datasource_id', 'before', 'limit', 'param_1'), {'param_1': 0}),
    postgresql=SqlText('SELECT commits.revision, commits.kind, commits.at_ms, commits.until_ms, commits.writer, commits.batch, commits.base_revision, commits.message, commits.details FROM commits JOIN commit_datasources ON commit_datasources.revision = commits.revision WHERE commit_datasources.datasource_id = %(datasource_id)s::BIGINT AND commit_datasources.revision < %(before)s::BIGINT ORDER BY commit_datasources.revision DESC LIMIT %(limit)s'),
)
CHANGES_BETWEEN = Statement(
    sqlite=SqlText('SELECT commit_datasources.revision, commit_datasources.datasource_id, commit_datasources.segments, commit_datasources.entries_added, commit_datasources.entries_dropped, commit_datasources.rows, commit_datasources.size_bytes, commit_datasources.covers, datasources.name FROM commit_datasources JOIN datasources ON datasources.datasource_id = commit_datasources.datasource_id WHERE commit_datasources.revision BETWEEN ? AND ?', ('first', 'last')),
    postgresql=SqlText('SELECT commit_datasources.revision, commit_datasources.datasource_id, commit_datasources.segments, commit_datasources.entries_added, commit_datasources.entries_dropped, commit_datasources.rows, commit_datasources.size_bytes, commit_datasources.covers, datasources.name FROM commit_datasources JOIN datasources ON datasources.datasource_id = commit_datasources.datasource_id WHERE commit_datasources.revision BETWEEN %(first)s::BIGINT AND %(last)s::BIGINT'),
)
CHANGES_OF = Statement(
    sqlite=SqlText('SELECT commit_datasources.revision, commit_datasources.datasource_id, commit_datasources.segments, commit_datasources.entries_added, commit_datasources.entries_dropped, commit_datasources.rows, commit_datasources.size_bytes, commit_datasources.covers, datasources.name FROM commit_datasources JOIN datasources ON datasources.datasource_id = commit_datasources.datasource_id WHERE commit_datasources.revision IN (SELECT value FROM json_each(?))', ('revisions',)),
    postgresql=SqlText('SELECT commit_datasources.revision, commit_datasources.datasource_id, commit_datasources.segments, commit_datasources.entries_added, commit_datasources.entries_dropped, commit_datasources.rows, commit_datasources.size_bytes, commit_datasources.covers, datasources.name FROM commit_datasources JOIN datasources ON datasources.datasource_id = commit_datasources.datasource_id WHERE commit_datasources.revision = ANY(%(revisions)s::BIGINT[])'),
)
ENTRIES_ADDED = Statement(
    sqlite=SqlText('SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision FROM entries WHERE entries.entry_id >= ? AND entries.entry_id < ? ORDER BY entries.entry_id', ('first_id', 'end_id')),
    postgresql=SqlText('SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision FROM entries WHERE entries.entry_id >= %(first_id)s::BIGINT AND entries.entry_id < %(end_id)s::BIGINT ORDER BY entries.entry_id'),
)
ENTRIES_DROPPED = Statement(
    sqlite=SqlText('SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision FROM entries WHERE entries.dropped_revision >= ? AND entries.dropped_revision <= ? ORDER BY entries.entry_id', ('first', 'last')),
    postgresql=SqlText('SELECT entries.entry_id, entries.datasource_id, entries.segment_key, entries.segment_id, entries.chunk_start, entries.chunk_end, entries.span_start, entries.span_end, entries.shown_start, entries.shown_end, entries.clip, entries.major_ms, entries.minor, entries.partition_id, entries.overshadowed, entries.update_group, entries.dropped_revision FROM entries WHERE entries.dropped_revision >= %(first)s::BIGINT AND entries.dropped_revision <= %(last)s::BIGINT ORDER BY entries.entry_id'),
)
SEGMENTS_ADDED = Statement(
    sqlite=SqlText('SELECT segments.segment_key, segments.datasource_id, segments.record FROM segments WHERE segments.segment_key >= ? AND segments.segment_key < ? ORDER BY segments.segment_key', ('first_id', 'end_id')),
    postgresql=SqlText('SELECT segments.segment_key, segments.datasource_id, segments.record FROM segments WHERE segments.segment_key >= %(first_id)s::BIGINT AND segments.segment_key < %(end_id)s::BIGINT ORDER BY segments.segment_key'),
)
LOOKUPS_ADDED = Statement(
    sqlite=SqlText('SELECT lookups.name, lookups.added_revision, lookups.mapping FROM lookups WHERE lookups.added_revision BETWEEN ? AND ?', ('first', 'last')),
    postgresql=SqlText('SELECT lookups.name, lookups.added_revision, lookups.mapping FROM lookups WHERE lookups.added_revision BETWEEN %(first)s::BIGINT AND %(last)s::BIGINT'),
)
LOOKUPS_AT = Statement(
    sqlite=SqlText('SELECT lookups.name, lookups.mapping FROM lookups WHERE lookups.added_revision <= ? AND (lookups.dropped_revision IS NULL OR lookups.dropped_revision > ?)', ('revision', 'revision')),
    postgresql=SqlText('SELECT lookups.name, lookups.mapping FROM lookups WHERE lookups.added_revision <= %(revision)s::BIGINT AND (lookups.dropped_revision IS NULL OR lookups.dropped_revision > %(revision)s::BIGINT)'),
)
RETAINED = Statement(
    sqlite=SqlText('SELECT commits.revision, commits.at_ms, commits.until_ms FROM commits ORDER BY commits.revision'),
    postgresql=SqlText('SELECT commits.revision, commits.at_ms, commits.until_ms FROM commits ORDER BY commits.revision'),
)
LAST_UNTIL = Statement(
    sqlite=SqlText('SELECT commits.revision, commits.at_ms, commits.until_ms FROM commits WHERE commits.at_ms <= ? ORDER BY commits.revision DESC LIMIT 1 OFFSET ?', ('at_ms', 'param_1'), {'param_1': 0}),
    postgresql=SqlText('SELECT commits.revision, commits.at_ms, commits.until_ms FROM commits WHERE commits.at_ms <= %(at_ms)s::BIGINT ORDER BY commits.revision DESC LIMIT 1'),
)
FIRST_ABOVE = Statement(
    sqlite=SqlText('SELECT commits.revision, commits.at_ms, commits.until_ms FROM commits WHERE commits.revision > ? ORDER BY commits.revision LIMIT 1 OFFSET ?', ('revision', 'param_1'), {'param_1': 0}),
    postgresql=SqlText('SELECT commits.revision, commits.at_ms, commits.until_ms FROM commits WHERE commits.revision > %(revision)s::BIGINT ORDER BY commits.revision LIMIT 1'),
)
NEAREST_BELOW = Statement(
    sqlite=SqlText('SELECT max(commits.revision) AS max_1 FROM commits WHERE commits.revision < ?', ('revision',)),
    postgresql=SqlText('SELECT max(commits.revision) AS max_1 FROM commits WHERE commits.revision < %(revision)s::BIGINT'),
)
NEAREST_ABOVE = Statement(
    sqlite=SqlText('SELECT min(commits.revision) AS min_1 FROM commits WHERE commits.revision > ?', ('revision',)),
    postgresql=SqlText('SELECT min(commits.revision) AS min_1 FROM commits WHERE commits.revision > %(revision)s::BIGINT'),
)
OLDEST = Statement(
    sqlite=SqlText('SELECT min(commits.revision) AS min_1 FROM commits'),
    postgresql=SqlText('SELECT min(commits.revision) AS min_1 FROM commits'),
)
