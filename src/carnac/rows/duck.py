"""DuckDB inside a task: a private, bounded connection, and its errors in our words."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from carnac.core.texts import first_line
from carnac.errors import Corrupt, Invalid, Unavailable
from carnac.ports.temporary import make_private
from carnac.rows.normalise.projection import LOADED, run
from carnac.rows.output import NO_TEMPORARY_ROOM
from carnac.rows.rollup import OVERFLOW_MARK

if TYPE_CHECKING:
    import duckdb

MIN_MEMORY_BYTES = 64 << 20
"""Less than this, and DuckDB fails at tasks that it could do on disk."""


@dataclass(slots=True)
class _Shared:
    """The connection that the tasks of a block share, once one of them asks for it.

    Attributes:
        temp_dir, memory_bytes: Of the connection, if the thread has none yet.
    """

    temp_dir: str
    memory_bytes: int
    connection: duckdb.DuckDBPyConnection | None = None


class _Held(threading.local):
    """Per thread: the connection that its tasks share now, and the one that waits for the next time."""

    shared: _Shared | None = None
    idle: duckdb.DuckDBPyConnection | None = None


_HELD = _Held()


@contextmanager
def one_connection(*, temp_dir: str, memory_bytes: int) -> Iterator[None]:
    """Have what this thread does inside share one connection, which stays open for the next time.

    To open one, and to make in it what expressions call, takes longer than to read a thousand rows; so there is none
    before somebody needs it. Inside of another block of the same thread there is one already.

    Args:
        temp_dir, memory_bytes: Of the connection, if this thread has none yet.
    """
    if _HELD.shared is not None:
        yield
        return
    shared = _HELD.shared = _Shared(temp_dir, memory_bytes)
    try:
        yield
        if shared.connection is not None:
            # its rows would stay in memory until the next ones come
            run(shared.connection, f"DROP TABLE IF EXISTS {LOADED}")
            _HELD.idle = shared.connection
    except BaseException:
        if shared.connection is not None:
            shared.connection.close()
        raise
    finally:
        _HELD.shared = None


@contextmanager
def connect(
    *, temp_dir: str, memory_bytes: int, threads: int = 1
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection to a database in memory that spills into `temp_dir`, which is gone afterwards if it is empty.

    Time is UTC, rows come in any order unless the query says one, and no extension is ever loaded.
    """
    shared = _HELD.shared
    if shared is not None:
        if shared.connection is None:
            idle, _HELD.idle = _HELD.idle, None
            shared.connection = idle or _open(shared.temp_dir, shared.memory_bytes, threads=1)
        yield shared.connection
        return
    connection = _open(temp_dir, memory_bytes, threads=threads)
    try:
        yield connection
    finally:
        connection.close()
        with suppress(OSError):  # somebody else's files are in it
            Path(temp_dir).rmdir()


def _open(temp_dir: str, memory_bytes: int, *, threads: int) -> duckdb.DuckDBPyConnection:
    import duckdb

    make_private(Path(temp_dir))
    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": threads,
        "memory_limit": f"{max(memory_bytes, MIN_MEMORY_BYTES)}B",
        "temp_directory": temp_dir,
        "preserve_insertion_order": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    connection = duckdb.connect(":memory:", config=settings)
    connection.execute("SET TimeZone = 'UTC'").complete()
    return connection


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn DuckDB's errors into ours.

    Args:
        what: Name of the work for messages: `merging chunk …`.

    Raises:
        Invalid: A sum of a metric does not fit into its type.
        Unavailable: Out of memory, out of disk, or an input does not answer.
        Corrupt: An input is not readable.
    """
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        text = str(error)
        if OVERFLOW_MARK in text:
            metric = text.split(OVERFLOW_MARK, 1)[1].splitlines()[0].strip()
            raise Invalid(
                f"the sum of metric '{metric}' does not fit into its type; use a double sum",
                metric=metric,
            ) from error
        reason = first_line(error)
        if isinstance(error, duckdb.OutOfMemoryException):
            raise Unavailable(
                f"{what} needs more memory or temporary disk space: {reason}"
            ) from error
        if isinstance(error, duckdb.IOException) and "No space left" in text:
            raise Unavailable(NO_TEMPORARY_ROOM.format(tempfile.gettempdir())) from error
        if isinstance(error, duckdb.IOException):
            raise Unavailable(f"{what} failed: {reason}") from error
        raise Corrupt(f"{what} failed: {reason}") from error
