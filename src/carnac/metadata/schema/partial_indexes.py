"""The indexes of `tables` that hold only some of a table's rows. Importing this module adds them.

Apart, because SQLAlchemy imports both dialects with all their drivers to read such an index, which takes a third as
long as to import SQLAlchemy. Only who makes or compares tables needs them.
"""

from __future__ import annotations

from sqlalchemy import Column, ColumnElement, Index

from carnac.metadata.schema.tables import ZERO, chunks, entries, task_attempts


def _index(
    name: str, *columns: Column[int], where: ColumnElement[bool], unique: bool = False
) -> None:
    Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


_LIVE = entries.c.dropped_revision.is_(None)
_GONE = entries.c.dropped_revision.is_not(None)
_CHUNK = (entries.c.datasource_id, entries.c.chunk_start, entries.c.chunk_end)

_index("entries_live", *_CHUNK, entries.c.entry_id, where=_LIVE)
_index("entries_gone", *_CHUNK, entries.c.entry_id, where=_GONE)
_index("entries_by_drop", entries.c.dropped_revision, where=_GONE)
_index(
    "chunks_live",
    chunks.c.datasource_id,
    chunks.c.start_ms,
    where=chunks.c.entries > 0,
    unique=True,  # live chunks are disjoint (CH-1), so their starts differ
)
_index(
    "task_attempts_live",
    task_attempts.c.task_id,
    task_attempts.c.number,
    where=task_attempts.c.is_settled == ZERO,
)
