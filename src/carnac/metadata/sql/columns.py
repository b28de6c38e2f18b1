"""The columns of all tables, in order: stated once, for the tables and for the statements about them.

A column is a whole number, or a text (`:text`). `?` may be null; `*` is the key of its table, alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from carnac.core.log.entries import ENTRY_BITS
from carnac.metadata.sql.dialects import Statement, row_of, statement

TABLES = {
    # one row: when the store was created, and the random id by which it is told from every other one
    "origin": "id* created_at_ms store_id:text",
    # set by the operator
    "settings": "name:text* value:text",
    # bound: one without entries and segments is forgotten by trim
    "datasources": "datasource_id* name:text",
    # bound: the retained revisions; at_ms never decreases with the revision, so time needs no index
    # until_ms: when the next commit was made, if that one has been trimmed
    # details: JSON: offsets and what they start from, names of the lookups, proof
    # changes: JSON: what it did to each datasource, in numbers
    # settled_revision: `commit_datasources`, `schemas` and `chunks` need not know yet of the commits after it, which
    # only add segments to one datasource; the rows of these say the same, and are not many
    "commits": (
        "revision* kind:text at_ms until_ms? writer:text? batch:text? base_revision? message:text "
        "details:text changes:text settled_revision"
    ),
    # `commits.changes`, the other way round; bound: retained revisions, times the datasources that each changed
    "commit_datasources": "datasource_id revision",
    # intervals that commits superseded, a row for each; trim unites those of forgotten commits
    "covers": "datasource_id revision start_ms end_ms",
    # outlives the commits; bound: the store's batch retention
    "batches": "writer:text batch:text revision at_ms",
    # how far a writer has read a source; outlives the commits; bound: the sources that nobody has had forgotten
    "positions": "writer:text source:text reached:text came_from:text revision at_ms",
    # the distinct lists of columns of a datasource's segments, with the live segments of each in numbers
    "schemas": "datasource_id digest columns:text first_key segments rows size_bytes",
    # bound: what retained revisions name, and the trash
    "segments": (
        "segment_key* segment_id:text datasource_id digest path:text rows size_bytes record:text "
        "trashed_at_ms?"
    ),
    # bound: files of erasures that no reader may hold any more, or the trash period
    "erased_files": "path:text* revision at_ms",
    # bound: the live entries, and those that a retained revision shows or a retained commit dropped
    # shown_start: the hull of what it shows
    # is_indexed: 0: of a small append that left the index of live entries to a later one; see `live_entries`
    "entries": (
        "entry_id* datasource_id segment_key segment_id:text chunk_start chunk_end span_start "
        "span_end shown_start shown_end clip:text? major_ms minor partition_id overshadowed:text "
        "update_group:text is_indexed dropped_revision?"
    ),
    # every interval that is or was a chunk, summed up from its entries in the transaction that changes them, but for
    # those of small appends after `revision`, which leave it to a later one (`UNSETTLED_ENTRIES`)
    # entries: live; 0: not a chunk now, but it was one
    # top_major_ms: highest ever
    # changes: entries added and dropped since the last key frame
    "chunks": (
        "datasource_id start_ms end_ms entries major_ms minor top_major_ms next_partition_id revision "
        "shown_start? shown_end? changes"
    ),
    # the live entries of a chunk after a revision, so that reading the past replays a bounded number of changes
    "key_frames": "datasource_id chunk_start chunk_end revision entry_ids:text",
    # bound: the retained revisions
    "lookups": "name:text added_revision dropped_revision? mapping:text",
    # set by the operator
    "tags": "name:text* revision created_at_ms",
    # bound: those that have not expired; every acquisition sweeps the others
    "leases": "lease_id:text* kind:text revision holder:text acquired_at_ms expires_at_ms ttl_ms",
    # bound: what live tasks hold and wait for, and revocations of the last hour
    # partitions: null: the time chunk; empty: segments to come
    "locks": (
        "lock_id* task_id:text group_id:text datasource:text start_ms end_ms partitions:text? "
        "type:text priority state:text fence is_publishing holder:text requested_at_ms granted_at_ms? "
        "heartbeat_at_ms lease_ms waits_until_ms revoked_reason:text? revoked_at_ms? revoked_by?"
    ),
    # one row, from the first lock on: the highest arrival number or fence given
    "lock_numbers": "id* last_number",
    # bound: tasks that are not over, and those that were over within the task retention
    "tasks": (
        "task_id:text* number type:text datasource:text group_id:text digest:text context:text "
        "priority slots dependencies:text waits_for:text retry_limit retry_delay_ms "
        "retry_longest_delay_ms failures attempts state:text wakes_at_ms? created_at_ms changed_at_ms "
        "started_at_ms? finished_at_ms? error:text?"
    ),
    # as they were submitted: apart, since a task's row is written often and this may be long
    "task_payloads": "task_id:text* payload:text",
    # `tasks.waits_for`, the other way round: which tasks go on when one is over
    "task_waits": "waits_for:text task_id:text",
    # bound: the tasks, times their retries
    "task_attempts": (
        "task_id:text number state:text slots runner:text handle:text? holder:text created_at_ms "
        "claimed_at_ms? heartbeat_at_ms lease_ms ended_at_ms? is_settled progress:text? error:text?"
    ),
    # reports of what attempts did
    "task_reports": "task_id:text number report:text",
    # one row, from the first task on: the highest arrival number given
    "task_numbers": "id* last_number",
    # one row for each role: the process that leads, or did last
    "leaders": "role:text* leader_id:text fence holder:text url:text since_ms heartbeat_at_ms lease_ms",
    # bound: what live tasks and writers have reserved and not published yet
    # request: digest of datasource, sequence, previous id
    "pending_segments": (
        "request:text* pending_id:text datasource:text start_ms end_ms major_ms partition_id "
        "sequence:text previous_id:text owner:text lease_id:text? created_at_ms"
    ),
    # chunks that do not exist yet and in which segments are pending
    "pending_chunks": "datasource:text start_ms end_ms major_ms next_partition_id",
    # bound: processes that serve, or did within the last hour; historicals, within the last week
    "servers": (
        "server_id:text* role:text url:text holder:text tier:text capacity_bytes started_at_ms "
        "heartbeat_at_ms lease_ms is_draining is_decommissioning planning_revision? oldest_revision?"
    ),
    # one row, from the first time that a coordinator said something: what brokers plan on
    "told": "id* revision fence at_ms",
    # load rules in force; bound: the datasources that operators set rules for
    "rules": "datasource:text* rules:text",
    # bound: the newest hundred of each such datasource
    "rule_changes": "number* datasource:text rules:text author:text comment:text at_ms",
    # specs of reading streams: each that was set, and an empty one where a supervisor ended; the newest is in force
    # bound: the newest hundred of each supervisor
    "supervisor_specs": "number* supervisor_id:text spec:text at_ms",
    # users who may ask processes that serve; set by the operator
    "users": "name:text* permission datasources:text password:text created_at_ms",
    # how datasources are compacted
    "compaction_specs": "datasource:text* spec:text changed_at_ms",
    # chunks as the controller of compaction knows them; bound: the time chunks that are compacted
    "compaction_chunks": (
        "datasource:text start_ms end_ms status:text revision segments judged_by:text reason:text "
        "priority_millionths cost failures retry_at_ms arrived_bytes rewritten_bytes"
    ),
}
KEYS = {
    "commit_datasources": "datasource_id, revision",
    "covers": "datasource_id, revision, start_ms",
    "batches": "writer, batch",
    "positions": "writer, source",
    "schemas": "datasource_id, digest",
    "chunks": "datasource_id, start_ms, end_ms",
    "key_frames": "datasource_id, chunk_start, chunk_end, revision",
    "lookups": "name, added_revision",
    "task_waits": "waits_for, task_id",
    "task_attempts": "task_id, number",
    "task_reports": "task_id, number",
    "pending_chunks": "datasource, start_ms, end_ms",
    "compaction_chunks": "datasource, start_ms, end_ms",
}
"""Keys of several columns."""


def _names(table: str) -> str:
    return ", ".join(word.split(":")[0].rstrip("?*") for word in TABLES[table].split())


def _key(table: str) -> str:
    return KEYS.get(table) or next(
        word.split(":")[0].rstrip("*") for word in TABLES[table].split() if "*" in word
    )


def _of(table: str, columns: Sequence[str]) -> str:
    """Return the condition for rows by columns, or by their key; the parameters have the same names."""
    return " AND ".join(f"{name} = :{name}" for name in columns or _key(table).split(", "))


def select(table: str, where: str = "", *, order: str = "") -> Statement:
    """Return the query for whole rows."""
    condition = f" WHERE {where}" if where else ""
    ordered = f" ORDER BY {order}" if order else ""
    return statement(f"SELECT {_names(table)} FROM {table}{condition}{ordered}")


def find(table: str, *by: str, order: str = "") -> Statement:
    """Return the query for whole rows by some columns (none: by the key)."""
    return select(table, _of(table, by), order=order)


def insert(table: str) -> Statement:
    """Return the statement that inserts a row; the parameters are all columns, in order."""
    return statement(f"INSERT INTO {table} {row_of(_names(table))}")


def insert_from(source: str, table: str, made: Mapping[str, str]) -> str:
    """Return the text that inserts a row for each of a source.

    Args:
        made: Columns that have an expression; the others have a parameter of their name.
    """
    names = _names(table)
    values = ", ".join(made.get(name, f":{name}") for name in names.split(", "))
    return f"INSERT INTO {table} ({names}) SELECT {values} FROM {source}"


def put(table: str, keeps: tuple[str, ...] = ()) -> Statement:
    """Return the statement that inserts a row, or replaces the one of the same key.

    Args:
        keeps: Columns that stay as they are when a row is replaced.
    """
    columns, key = _names(table).split(", "), _key(table)
    new = (
        f"{name} = excluded.{name}" for name in columns if name not in (*key.split(", "), *keeps)
    )
    return statement(
        f"INSERT INTO {table} {row_of(_names(table))} "
        f"ON CONFLICT ({key}) DO UPDATE SET {', '.join(new)}"
    )


def delete(table: str, *by: str) -> Statement:
    """Return the statement that deletes the rows that `find` finds."""
    return statement(f"DELETE FROM {table} WHERE {_of(table, by)}")


def forget(table: str, of: str) -> Statement:
    """Return the statement that deletes numbered rows of something, all but so many of the newest."""
    return statement(
        f"""
        DELETE FROM {table}
        WHERE {of} = :{of} AND number <= (
          SELECT number FROM {table} WHERE {of} = :{of} ORDER BY number DESC LIMIT 1 OFFSET :kept
        )
        """
    )


def entries_of(keys: str) -> str:
    """Return the condition for the entries of segments.

    Only entries with another key than their segment's have an index.

    Args:
        keys: Condition that follows the column of a segment's key: `= key`, or `IN :keys[]`.
    """
    return (
        f"((entries.entry_id {keys} AND entries.segment_key = entries.entry_id)"
        f" OR (entries.segment_key {keys} AND entries.entry_id <> entries.segment_key))"
    )


OVERLAPS = "start_ms < :end_ms AND end_ms > :start_ms"
IS_OVER = "(expires_at_ms <= :now_ms OR expires_at_ms - ttl_ms - ttl_ms >= :now_ms)"
"""Of a lease: it has expired, or the clock was set back since."""
_SETTLED = "(SELECT settled_revision FROM commits ORDER BY revision DESC LIMIT 1)"
FIRST_UNSETTLED_KEY = f"({_SETTLED} + 1) * {1 << ENTRY_BITS}"
"""Segments from this key on are live, and not counted by their schemas yet."""
UNSETTLED_CHANGES = f"""
    SELECT segments.datasource_id, commits.revision
    FROM commits
    JOIN segments ON segments.segment_key = commits.revision * {1 << ENTRY_BITS}
    WHERE commits.revision > {_SETTLED}
"""
"""Changes that `commit_datasources` does not know yet, by the first segment of each commit."""


def live_entries(select: str, condition: str) -> str:
    """Return the query for live entries: those in their index, and the newest, which are not in it yet."""
    found = f"{select} WHERE {condition} AND entries.dropped_revision IS NULL"
    return f"""
        {found} AND entries.is_indexed = 1
        UNION ALL
        {found} AND entries.is_indexed = 0 AND entries.entry_id >= {FIRST_UNSETTLED_KEY}
    """


UNSETTLED_ENTRIES = f"""
    entries
    JOIN chunks ON chunks.datasource_id = entries.datasource_id
      AND chunks.start_ms = entries.chunk_start AND chunks.end_ms = entries.chunk_end
    WHERE entries.entry_id >= {FIRST_UNSETTLED_KEY}
      AND entries.entry_id >= (chunks.revision + 1) * {1 << ENTRY_BITS}
"""
"""Entries that the rows of their chunks do not count yet: live ones, added after the chunk's revision."""

CHUNK = _names("chunks")
COMMIT = _names("commits")
COMPACTION_CHUNK = _names("compaction_chunks")
ENTRY = _names("entries")
LOCK = _names("locks")
PENDING = _names("pending_segments")
SCHEMA = _names("schemas")
TASK = _names("tasks")
