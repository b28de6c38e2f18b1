"""The tables of the metadata store. `docs/decisions/0006-metadata-tables.md` says why they look like this.

Keys are made by the store, not by the database: an entry, a segment and a datasource born in a commit get
`revision << 20 | ordinal`. So rows of one commit are a range of the primary key, and no statement has to ask the
database for a key that it made.

`entries` is the log in normal form: the state at revision r is what was added at or before r and not dropped until
after it. The live ones have indexes of their own (`partial_indexes`): what is long gone costs a live lookup nothing.
"""

from __future__ import annotations

from typing import Any

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

from carnac.metadata.sql.columns import TABLES

METADATA = MetaData()
VERSION_TABLE = "carnac_version"
"""Alembic's own; it is no part of `METADATA`."""
ZERO: ColumnElement[int] = literal_column("0")
"""Written as it is, not as a parameter, so that a database sees that a partial index fits."""

_KEY = BigInteger().with_variant(Integer(), "sqlite")  # so that SQLite uses it as the rowid


def _column(stated: str) -> Column[Any]:
    name = stated.rstrip("?*").removesuffix(":text")
    is_key, is_text = stated.endswith("*"), ":text" in stated
    if is_key:
        return (
            Column(name, Text, primary_key=True)
            if is_text
            else Column(name, _KEY, primary_key=True, autoincrement=False)
        )
    return Column(name, Text if is_text else BigInteger, nullable=stated.endswith("?"))


def _table(
    name: str, *others: Index | UniqueConstraint, key: tuple[str, ...] = (), has_rowid: bool = True
) -> Table:
    """Return a table of the columns that `sql.columns` states.

    Args:
        key: Names of the columns that are the key together.
        has_rowid: Of SQLite.
    """
    columns = [_column(stated) for stated in TABLES[name].split()]
    keys = [PrimaryKeyConstraint(*key, name=f"{name}_key")] if key else []
    return Table(name, METADATA, *columns, *keys, *others, sqlite_with_rowid=has_rowid)


origin = _table("origin")
"""One row: when the store was created."""

settings = _table("settings")
"""Set by the operator."""

datasources = _table("datasources", UniqueConstraint("name", name="datasources_by_name"))
"""Bound: a datasource without entries and segments is forgotten by trim."""

commits = _table("commits")
"""Bound: the retained revisions. `at_ms` never decreases with the revision, so time needs no index of its own."""

commit_datasources = _table(
    "commit_datasources",
    Index("commit_datasources_by_revision", "revision"),
    key=("datasource_id", "revision"),
    has_rowid=False,
)
"""Bound: retained revisions, times the datasources that each changed."""

covers = _table("covers", key=("datasource_id", "revision", "start_ms"), has_rowid=False)
"""What commits superseded, one row for each interval. Trim unites those of forgotten commits."""

batches = _table("batches", key=("writer", "batch"), has_rowid=False)
"""Outlives the commits. Bound: the store's batch retention."""

schemas = _table("schemas", key=("datasource_id", "digest"), has_rowid=False)
"""The distinct lists of columns of a datasource's segments, with the live segments of each in numbers."""

segments = _table("segments", UniqueConstraint("segment_id", name="segments_by_id"))
"""Bound: what retained revisions name, and the trash."""

entries = _table("entries", Index("entries_by_segment", "segment_key"))
"""Bound: the live entries, and those that a retained revision shows or a retained commit dropped."""

chunks = _table("chunks", key=("datasource_id", "start_ms", "end_ms"), has_rowid=False)
"""Every interval that is or was a chunk, summed up from its entries in the transaction that changes them."""

key_frames = _table("key_frames", key=("datasource_id", "chunk_start", "chunk_end", "revision"))
"""The live entries of a chunk after a revision, so that reading the past replays a bounded number of changes."""

lookups = _table(
    "lookups", Index("lookups_by_revision", "added_revision"), key=("name", "added_revision")
)
"""Bound: the retained revisions."""

tags = _table("tags")
"""Set by the operator."""

leases = _table("leases")
"""Bound: those that have not expired; every acquisition sweeps the others."""

locks = _table(
    "locks",
    Index("locks_by_time", "datasource", "start_ms", "end_ms"),
    Index("locks_by_task", "task_id"),
)
"""Bound: what live tasks hold and wait for, and revocations of the last hour."""

lock_numbers = _table("lock_numbers")
"""One row, from the first lock on: the highest arrival number or fence given."""

tasks = _table(
    "tasks",
    UniqueConstraint("number", name="tasks_by_number"),
    Index("tasks_by_state", "state", "priority", "number"),
    Index("tasks_by_datasource", "datasource", "number"),
    Index("tasks_by_end", "finished_at_ms"),
)
"""Bound: tasks that are not over, and those that were over within the task retention."""

task_payloads = _table("task_payloads")
"""Tasks as they were submitted: apart, since a task's row is written often and this may be long."""

task_waits = _table(
    "task_waits",
    Index("task_waits_by_task", "task_id"),
    key=("waits_for", "task_id"),
    has_rowid=False,
)
"""`tasks.waits_for`, the other way round: who goes on when a task is over."""

task_attempts = _table("task_attempts", key=("task_id", "number"))
"""Bound: the tasks, times their retries."""

task_reports = _table("task_reports", key=("task_id", "number"))
"""What attempts did. Bound: the attempts."""

task_numbers = _table("task_numbers")
"""One row, from the first task on: the highest arrival number given."""

leaders = _table("leaders")
"""One row for each role: who leads, or did last."""

pending_segments = _table(
    "pending_segments",
    UniqueConstraint("pending_id", name="pending_segments_by_id"),
    has_rowid=False,
)
"""Bound: what live tasks and writers have reserved and not published yet; so few that nothing is kept by owner."""

pending_chunks = _table("pending_chunks", key=("datasource", "start_ms", "end_ms"), has_rowid=False)
"""Chunks that do not exist yet and in which segments are pending. Bound: the pending segments."""

servers = _table("servers")
"""Bound: processes that serve, or did within the last hour; historicals, within the last week."""

told = _table("told")
"""One row, from the first time that a coordinator said something: what brokers plan on."""

rules = _table("rules")
"""Load rules in force. Bound: the datasources that operators set rules for."""

rule_changes = _table("rule_changes", Index("rule_changes_by_datasource", "datasource", "number"))
"""Bound: the newest hundred of each datasource that operators set rules for."""

compaction_specs = _table("compaction_specs")
"""How datasources are compacted. Bound: the datasources."""

compaction_chunks = _table(
    "compaction_chunks", key=("datasource", "start_ms", "end_ms"), has_rowid=False
)
"""What the controller of compaction knows of chunks. Bound: the time chunks of datasources that are compacted."""
