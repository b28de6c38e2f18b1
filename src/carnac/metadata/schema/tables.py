"""The tables of the metadata store. `docs/decisions/0006-metadata-tables.md` says why they look like this.

Keys are made by the store, not by the database: an entry, a segment and a datasource born in a commit get
`revision << 20 | ordinal`. So rows of one commit are a range of the primary key, and no statement has to ask the
database for a key that it made.

`entries` is the log in normal form: the state at revision r is what was added at or before r and not dropped until
after it. The live ones have indexes of their own (`partial_indexes`): what is long gone costs a live lookup nothing.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    literal_column,
)

METADATA = MetaData()
VERSION_TABLE = "carnac_version"
"""Alembic's own; it is no part of `METADATA`."""
ZERO: ColumnElement[int] = literal_column("0")
"""Written as it is, not as a parameter, so that a database sees that a partial index fits."""

_KEY = BigInteger().with_variant(Integer(), "sqlite")  # so that SQLite uses it as the rowid


def _key(name: str) -> Column[int]:
    return Column(name, _KEY, primary_key=True, autoincrement=False)


def _int(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False)


def _maybe_int(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=True)


def _text(name: str) -> Column[str]:
    return Column(name, Text, nullable=False)


def _maybe_text(name: str) -> Column[str]:
    return Column(name, Text, nullable=True)


origin = Table("origin", METADATA, _key("id"), _int("created_at_ms"))
"""One row: when the store was created."""

settings = Table("settings", METADATA, Column("name", Text, primary_key=True), _text("value"))

datasources = Table(
    "datasources",
    METADATA,
    _key("datasource_id"),
    _text("name"),
    UniqueConstraint("name", name="datasources_by_name"),
)
"""Bound: a datasource without entries and segments is forgotten by trim."""

commits = Table(
    "commits",
    METADATA,
    _key("revision"),
    _text("kind"),
    _int("at_ms"),
    _maybe_int("until_ms"),  # when the next commit was made, if that one has been trimmed
    _maybe_text("writer"),
    _maybe_text("batch"),
    _maybe_int("base_revision"),
    _text("message"),
    _text("details"),  # JSON: offsets, names of the lookups, proof
)
"""Bound: the retained revisions. `at_ms` never decreases with the revision, so time needs no index of its own."""

commit_datasources = Table(
    "commit_datasources",
    METADATA,
    _int("revision"),
    _int("datasource_id"),
    _int("segments"),
    _int("entries_added"),
    _int("entries_dropped"),
    _int("rows"),
    _int("size_bytes"),
    _text("covers"),  # JSON
    PrimaryKeyConstraint("datasource_id", "revision", name="commit_datasources_key"),
    Index("commit_datasources_by_revision", "revision"),
    sqlite_with_rowid=False,
)

covers = Table(
    "covers",
    METADATA,
    _int("datasource_id"),
    _int("revision"),
    _int("start_ms"),
    _int("end_ms"),
    PrimaryKeyConstraint("datasource_id", "revision", "start_ms", name="covers_key"),
    sqlite_with_rowid=False,
)
"""What commits superseded, one row for each interval. Trim unites those of forgotten commits."""

batches = Table(
    "batches",
    METADATA,
    _text("writer"),
    _text("batch"),
    _int("revision"),
    _int("at_ms"),
    PrimaryKeyConstraint("writer", "batch", name="batches_key"),
    sqlite_with_rowid=False,
)
"""Outlives the commits. Bound: the store's batch retention."""

schemas = Table(
    "schemas",
    METADATA,
    _int("datasource_id"),
    _int("digest"),
    _text("columns"),  # JSON
    _int("first_key"),
    _int("segments"),
    _int("rows"),
    _int("size_bytes"),
    PrimaryKeyConstraint("datasource_id", "digest", name="schemas_key"),
    sqlite_with_rowid=False,
)
"""The distinct lists of columns of a datasource's segments, with the live segments of each in numbers."""

segments = Table(
    "segments",
    METADATA,
    _key("segment_key"),
    _text("segment_id"),
    _int("datasource_id"),
    _int("digest"),
    _text("path"),
    _int("rows"),
    _int("size_bytes"),
    _text("record"),
    _maybe_int("trashed_at_ms"),
    UniqueConstraint("segment_id", name="segments_by_id"),
)
"""Bound: what retained revisions name, and the trash."""

entries = Table(
    "entries",
    METADATA,
    _key("entry_id"),
    _int("datasource_id"),
    _int("segment_key"),
    _text("segment_id"),
    _int("chunk_start"),
    _int("chunk_end"),
    _int("span_start"),
    _int("span_end"),
    _int("shown_start"),  # the hull of what it shows
    _int("shown_end"),
    _maybe_text("clip"),  # JSON
    _int("major_ms"),
    _int("minor"),
    _int("partition_id"),
    _text("overshadowed"),
    _text("update_group"),
    _maybe_int("dropped_revision"),
    Index("entries_by_segment", "segment_key"),
)
"""Bound: the live entries, and those that a retained revision shows or a retained commit dropped."""

chunks = Table(
    "chunks",
    METADATA,
    _int("datasource_id"),
    _int("start_ms"),
    _int("end_ms"),
    _int("entries"),  # live; 0: not a chunk now, but it was one
    _int("major_ms"),
    _int("minor"),
    _int("top_major_ms"),  # highest ever
    _int("next_partition_id"),
    _int("revision"),
    _maybe_int("shown_start"),
    _maybe_int("shown_end"),
    _int("changes"),  # entries added and dropped since the last key frame
    PrimaryKeyConstraint("datasource_id", "start_ms", "end_ms", name="chunks_key"),
    sqlite_with_rowid=False,
)
"""Every interval that is or was a chunk, summed up from its entries in the transaction that changes them."""

key_frames = Table(
    "key_frames",
    METADATA,
    _int("datasource_id"),
    _int("chunk_start"),
    _int("chunk_end"),
    _int("revision"),
    _text("entry_ids"),  # JSON
    PrimaryKeyConstraint(
        "datasource_id", "chunk_start", "chunk_end", "revision", name="key_frames_key"
    ),
)
"""The live entries of a chunk after a revision, so that reading the past replays a bounded number of changes."""

lookups = Table(
    "lookups",
    METADATA,
    _text("name"),
    _int("added_revision"),
    _maybe_int("dropped_revision"),
    _text("mapping"),  # JSON
    PrimaryKeyConstraint("name", "added_revision", name="lookups_key"),
    Index("lookups_by_revision", "added_revision"),
)

tags = Table(
    "tags",
    METADATA,
    Column("name", Text, primary_key=True),
    _int("revision"),
    _int("created_at_ms"),
)

leases = Table(
    "leases",
    METADATA,
    Column("lease_id", Text, primary_key=True),
    _text("kind"),
    _int("revision"),
    _text("holder"),
    _int("acquired_at_ms"),
    _int("expires_at_ms"),
    _int("ttl_ms"),
)
"""Bound: those that have not expired; every acquisition sweeps the others."""

locks = Table(
    "locks",
    METADATA,
    _key("lock_id"),
    _text("task_id"),
    _text("group_id"),
    _text("datasource"),
    _int("start_ms"),
    _int("end_ms"),
    _maybe_text("partitions"),  # null: the time chunk; empty: segments to come
    _text("type"),
    _int("priority"),
    _text("state"),
    _int("fence"),
    _int("is_publishing"),
    _text("holder"),
    _int("requested_at_ms"),
    _maybe_int("granted_at_ms"),
    _int("heartbeat_at_ms"),
    _int("lease_ms"),
    _int("waits_until_ms"),
    _maybe_text("revoked_reason"),
    _maybe_int("revoked_at_ms"),
    _maybe_int("revoked_by"),
    Index("locks_by_time", "datasource", "start_ms", "end_ms"),
    Index("locks_by_task", "task_id"),
)
"""Bound: what live tasks hold and wait for, and revocations of the last hour."""

lock_numbers = Table("lock_numbers", METADATA, _key("id"), _int("last_number"))
"""One row, from the first lock on: the highest arrival number or fence given."""

tasks = Table(
    "tasks",
    METADATA,
    Column("task_id", Text, primary_key=True),
    _int("number"),
    _text("type"),
    _text("datasource"),
    _text("group_id"),
    _text("digest"),
    _text("context"),  # JSON
    _int("priority"),
    _int("slots"),
    _text("dependencies"),  # JSON
    _text("waits_for"),  # JSON
    _int("retry_limit"),
    _int("retry_delay_ms"),
    _int("retry_longest_delay_ms"),
    _int("failures"),
    _int("attempts"),
    _text("state"),
    _maybe_int("wakes_at_ms"),
    _int("created_at_ms"),
    _int("changed_at_ms"),
    _maybe_int("started_at_ms"),
    _maybe_int("finished_at_ms"),
    _maybe_text("error"),
    UniqueConstraint("number", name="tasks_by_number"),
    Index("tasks_by_state", "state", "priority", "number"),
    Index("tasks_by_datasource", "datasource", "number"),
    Index("tasks_by_end", "finished_at_ms"),
)
"""Bound: tasks that are not over, and those that were over within the task retention."""

task_payloads = Table(
    "task_payloads",
    METADATA,
    Column("task_id", Text, primary_key=True),
    _text("payload"),  # JSON
)
"""Tasks as they were submitted: apart, since a task's row is written often and this may be long."""

task_waits = Table(
    "task_waits",
    METADATA,
    _text("waits_for"),
    _text("task_id"),
    PrimaryKeyConstraint("waits_for", "task_id", name="task_waits_key"),
    Index("task_waits_by_task", "task_id"),
    sqlite_with_rowid=False,
)
"""`tasks.waits_for`, the other way round: who goes on when a task is over."""

task_attempts = Table(
    "task_attempts",
    METADATA,
    _text("task_id"),
    _int("number"),
    _text("state"),
    _int("slots"),
    _text("runner"),
    _maybe_text("handle"),
    _text("holder"),
    _int("created_at_ms"),
    _maybe_int("claimed_at_ms"),
    _int("heartbeat_at_ms"),
    _int("lease_ms"),
    _maybe_int("ended_at_ms"),
    _int("is_settled"),
    _maybe_text("progress"),  # JSON
    _maybe_text("error"),
    PrimaryKeyConstraint("task_id", "number", name="task_attempts_key"),
)
"""Bound: the tasks, times their retries."""

task_reports = Table(
    "task_reports",
    METADATA,
    _text("task_id"),
    _int("number"),
    _text("report"),  # JSON
    PrimaryKeyConstraint("task_id", "number", name="task_reports_key"),
)
"""What attempts did. Bound: the attempts."""

task_numbers = Table("task_numbers", METADATA, _key("id"), _int("last_number"))
"""One row, from the first task on: the highest arrival number given."""

leaders = Table(
    "leaders",
    METADATA,
    Column("role", Text, primary_key=True),
    _text("leader_id"),
    _int("fence"),
    _text("holder"),
    _text("url"),
    _int("since_ms"),
    _int("heartbeat_at_ms"),
    _int("lease_ms"),
)
"""One row for each role: who leads, or did last."""

pending_segments = Table(
    "pending_segments",
    METADATA,
    Column("request", Text, primary_key=True),  # digest of datasource, sequence, previous id
    _text("pending_id"),
    _text("datasource"),
    _int("start_ms"),
    _int("end_ms"),
    _int("major_ms"),
    _int("partition_id"),
    _text("sequence"),
    _text("previous_id"),
    _text("owner"),
    _maybe_text("lease_id"),
    _int("created_at_ms"),
    UniqueConstraint("pending_id", name="pending_segments_by_id"),
    sqlite_with_rowid=False,
)
"""Bound: what live tasks and writers have reserved and not published yet; so few that nothing is kept by owner."""

pending_chunks = Table(
    "pending_chunks",
    METADATA,
    _text("datasource"),
    _int("start_ms"),
    _int("end_ms"),
    _int("major_ms"),
    _int("next_partition_id"),
    PrimaryKeyConstraint("datasource", "start_ms", "end_ms", name="pending_chunks_key"),
    sqlite_with_rowid=False,
)
"""Chunks that do not exist yet and in which segments are pending. Bound: the pending segments."""

servers = Table(
    "servers",
    METADATA,
    Column("server_id", Text, primary_key=True),
    _text("role"),
    _text("url"),
    _text("holder"),
    _text("tier"),
    _int("capacity_bytes"),
    _int("started_at_ms"),
    _int("heartbeat_at_ms"),
    _int("lease_ms"),
    _int("is_draining"),
    _int("is_decommissioning"),
    _maybe_int("planning_revision"),
    _maybe_int("oldest_revision"),
)
"""Bound: processes that serve, or did within the last hour; historicals, within the last week."""

told = Table("told", METADATA, _key("id"), _int("revision"), _int("fence"), _int("at_ms"))
"""One row, from the first time that a coordinator said something: what brokers plan on."""

rules = Table("rules", METADATA, Column("datasource", Text, primary_key=True), _text("rules"))
"""Load rules in force. Bound: the datasources that operators set rules for."""

rule_changes = Table(
    "rule_changes",
    METADATA,
    _key("number"),
    _text("datasource"),
    _text("rules"),  # JSON
    _text("author"),
    _text("comment"),
    _int("at_ms"),
    Index("rule_changes_by_datasource", "datasource", "number"),
)
"""Bound: the newest hundred of each datasource that operators set rules for."""

compaction_specs = Table(
    "compaction_specs",
    METADATA,
    Column("datasource", Text, primary_key=True),
    _text("spec"),  # JSON
    _int("changed_at_ms"),
)
"""How datasources are compacted. Bound: the datasources."""

compaction_chunks = Table(
    "compaction_chunks",
    METADATA,
    _text("datasource"),
    _int("start_ms"),
    _int("end_ms"),
    _text("status"),
    _int("revision"),
    _int("segments"),
    _text("judged_by"),
    _text("reason"),
    _int("priority_millionths"),
    _int("cost"),
    _int("failures"),
    _int("retry_at_ms"),
    _int("arrived_bytes"),
    _int("rewritten_bytes"),
    PrimaryKeyConstraint("datasource", "start_ms", "end_ms", name="compaction_chunks_key"),
    sqlite_with_rowid=False,
)
"""What the controller of compaction knows of chunks. Bound: the time chunks of datasources that are compacted."""
