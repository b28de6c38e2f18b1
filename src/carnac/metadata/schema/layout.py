"""The tables of the metadata store, as SQL. `docs/decisions/0006-metadata-tables.md` says why they look like this.

Keys are made by the store, not by the database: an entry, a segment and a datasource born in a commit get
`revision << 20 | ordinal`. So rows of one commit are a range of the primary key, and no statement has to ask the
database for a key that it made.

`entries` is the log in normal form. The state at revision r is the entries that were added at or before r and not
dropped until after it. Live entries have indexes of their own, so that entries that are long gone cost a live lookup
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from carnac.metadata.session import SQLITE
from carnac.metadata.sql.columns import KEYS, TABLES

VERSION_TABLE = "carnac_version"

_UNIQUE = {
    "datasources": "datasources_by_name UNIQUE (name)",
    "segments": "segments_by_id UNIQUE (segment_id)",
    "tasks": "tasks_by_number UNIQUE (number)",
    "pending_segments": "pending_segments_by_id UNIQUE (pending_id)",
}
_WITHOUT_ROWID = KEYS.keys() - {"key_frames", "lookups", "task_attempts", "task_reports"} | {
    "pending_segments"
}
"""Tables that SQLite keeps in the order of their key."""
_INDEXES = """
CREATE INDEX entries_by_segment ON entries (segment_key) WHERE entry_id <> segment_key;
CREATE INDEX entries_live ON entries (datasource_id, chunk_start, chunk_end, entry_id)
  WHERE dropped_revision IS NULL AND is_indexed = 1;
CREATE INDEX entries_gone ON entries (datasource_id, chunk_start, chunk_end, entry_id)
  WHERE dropped_revision IS NOT NULL;
CREATE INDEX entries_by_drop ON entries (dropped_revision) WHERE dropped_revision IS NOT NULL;
CREATE UNIQUE INDEX chunks_live ON chunks (datasource_id, start_ms) WHERE shown_start IS NOT NULL;
CREATE INDEX lookups_by_revision ON lookups (added_revision);
CREATE INDEX locks_by_time ON locks (datasource, start_ms, end_ms);
CREATE INDEX locks_by_task ON locks (task_id);
CREATE INDEX tasks_by_state ON tasks (state, priority, number);
CREATE INDEX tasks_by_datasource ON tasks (datasource, number);
CREATE INDEX tasks_by_end ON tasks (finished_at_ms);
CREATE INDEX task_waits_by_task ON task_waits (task_id);
CREATE INDEX task_attempts_live ON task_attempts (task_id, number) WHERE is_settled = 0;
CREATE INDEX supervisor_specs_by_id ON supervisor_specs (supervisor_id, number);
CREATE INDEX rule_changes_by_datasource ON rule_changes (datasource, number);
"""
"""`chunks_live` is unique: live chunks are disjoint (CH-1), so their starts differ. `entries > 0` would say the same,
and have the index written with each commit, since a column of its condition changes."""


def layout(kind: str) -> str:
    """Return the statements that make the tables in an empty database of a kind (`Session.kind`)."""
    strict = " STRICT" if kind == SQLITE else ""
    version = f"CREATE TABLE {VERSION_TABLE} (version_num TEXT NOT NULL PRIMARY KEY){strict};\n"
    return version + "".join(_table(name, kind) for name in TABLES) + _INDEXES


def _table(name: str, kind: str) -> str:
    lines = [*_columns(TABLES[name], kind)]
    if name in KEYS:
        lines.append(f"CONSTRAINT {name}_key PRIMARY KEY ({KEYS[name]})")
    if name in _UNIQUE:
        lines.append(f"CONSTRAINT {_UNIQUE[name]}")
    options = ""
    if kind == SQLITE:  # else it keeps a fraction or a text in a column of whole numbers
        options = " STRICT, WITHOUT ROWID" if name in _WITHOUT_ROWID else " STRICT"
    stated = ",\n  ".join(lines)
    return f"CREATE TABLE {name} (\n  {stated}\n){options};\n"


def _columns(stated: str, kind: str) -> Iterator[str]:
    for word in stated.split():
        name = word.rstrip("?*").removesuffix(":text")
        is_key = word.endswith("*")
        whole = "INTEGER" if kind == SQLITE else "BIGINT"  # as a key, SQLite's own rowid
        null = "" if word.endswith("?") else " NOT NULL"
        yield f"{name} {'TEXT' if ':text' in word else whole}{null}{' PRIMARY KEY' * is_key}"
