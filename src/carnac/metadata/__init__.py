"""Where is the log kept? In SQLite or PostgreSQL, with one behaviour suite for both.

`store` is the port `MetadataStore`; `publish`, `read`, `records`, `locking` and `upkeep` are what its methods do, in
transactions of a `database` (`backends`), by the statements of `sql` over the tables of `schema`, through a `session`.

The databases are imported when a store of their kind is opened.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from carnac.core.redaction import show_url
from carnac.errors import Invalid
from carnac.ports import Clock, IdSource

if TYPE_CHECKING:
    from carnac.metadata.database import Database
    from carnac.metadata.store import MetadataStore

__all__ = ["back_up", "find_obstacle", "open_metadata"]

_SQLITE = "sqlite:///"
_TEMPORARY = "memory://"


def open_metadata(
    url: str,
    *,
    clock: Clock,
    ids: IdSource,
    create: bool = True,
    patience_ms: int | None = None,
    on_statement: Callable[[str], None] | None = None,
    follow: Callable[[Callable[[], int | None]], None] | None = None,
) -> MetadataStore:
    """Open the metadata store at `url`.

    Args:
        create: Make the tables if there are none. A file is made in any case. A file that cannot be written is opened
            for reading; writes raise `ReadOnly`.
        url: `sqlite:///relative.db`, `sqlite:////absolute.db`, `postgresql://user@host/database`, or
            `memory://`: a new store that is gone when it is closed.
        patience_ms: Time that a write waits for those of other processes before it is `Unavailable`; None: a minute.
        on_statement: Called with each SQL statement of a write before it runs; for fault injection.
        follow: Given what tells the time of the database's server, before the clock is asked for that of a new store.

    Raises:
        NotFound: The database holds no store, and `create` is not set. Unavailable: It does not answer.
        Invalid: The URL is of no known kind, or the store was made by a newer Carnac, or before the first release.
        ReadOnly: The store was made by an older Carnac, and its file cannot be written. Corrupt: It is no database.
    """
    from carnac.metadata.database import PATIENCE_MS
    from carnac.metadata.schema.migrate import migrate_if_needed
    from carnac.metadata.store import MetadataStore

    patience = PATIENCE_MS if patience_ms is None else patience_ms
    database: Database
    if url == _TEMPORARY:
        from carnac.metadata.backends.temporary import TemporarySqliteDatabase

        database = TemporarySqliteDatabase(
            created_at_ms=clock.now_ms(), store_id=ids.new_id(), on_statement=on_statement
        )
    elif url.startswith(_SQLITE) and len(url) > len(_SQLITE):
        database = _open_file(Path(url.removeprefix(_SQLITE)), clock, patience, on_statement)
    elif url.startswith(("postgresql://", "postgresql+psycopg://")):
        from carnac.metadata.backends.postgresql import PostgresqlDatabase

        database = PostgresqlDatabase(
            url, now_ms=clock.now_ms, patience_ms=patience, on_statement=on_statement
        )
    else:
        raise Invalid(
            f"'{show_url(url)}' is not the URL of a metadata store; write sqlite:///path, postgresql://… or memory://",
            url=show_url(url),
        )
    try:
        metadata = MetadataStore(database, clock=clock, ids=ids)
        if follow is not None:
            follow(metadata.server_now_ms)
        migrate_if_needed(database, now_ms=clock.now_ms, new_id=ids.new_id, create=create)
    except BaseException:
        database.close()
        raise
    return metadata


def find_obstacle(url: str) -> str | None:
    """Return why the metadata store at a URL, which is there, cannot be written from here; None if it can."""
    if url.startswith(_SQLITE) and len(url) > len(_SQLITE):
        from carnac.metadata.backends import sqlite_reading

        return sqlite_reading.find_obstacle(Path(url.removeprefix(_SQLITE)))
    if url.startswith(("postgresql://", "postgresql+psycopg://")):
        from carnac.metadata.backends.postgresql import PostgresqlDatabase
        from carnac.metadata.database import translated

        database = PostgresqlDatabase(url)
        with contextlib.closing(database), translated(database):
            return database.find_obstacle()
    return None


def back_up(url: str, target: Path) -> None:
    """Write the metadata at a URL into an empty file, as of one moment; no other process waits meanwhile.

    Raises:
        Invalid: The metadata are not in a file.
        Corrupt: The metadata are damaged.
        OSError: The target cannot be written.
    """
    if not url.startswith(_SQLITE) or len(url) <= len(_SQLITE):
        raise Invalid(
            "the metadata of this store are not in a file; back PostgreSQL up with pg_dump"
        )
    from carnac.metadata.backends import sqlite_driver, sqlite_reading

    path = Path(url.removeprefix(_SQLITE))
    is_writable = sqlite_reading.find_obstacle(path) is None
    (sqlite_driver if is_writable else sqlite_reading).back_up(path, target)


def _open_file(
    path: Path, clock: Clock, patience_ms: int, on_statement: Callable[[str], None] | None
) -> Database:
    from carnac.metadata.backends.sqlite_reading import ReadOnlySqliteDatabase, find_obstacle

    obstacle = find_obstacle(path)
    if obstacle is not None:
        return ReadOnlySqliteDatabase(path, obstacle)
    from carnac.metadata.backends.sqlite import SqliteDatabase

    return SqliteDatabase(
        path, now_ms=clock.now_ms, patience_ms=patience_ms, on_statement=on_statement
    )
