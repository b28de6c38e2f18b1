"""SQLite's driver, as all who open a database file use it: how a reader is set, and what an error means."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import suppress
from pathlib import Path

from carnac.errors import CarnacError, Corrupt, DiskFull, Invalid, Unavailable
from carnac.metadata.database import driver_error, first_line, unfit_value

BUSY_TIMEOUT_MS = 60_000
"""For what the queue does not order: recovery after a crash, and closing."""
CACHE_KIB = 32_768
READER_PRAGMAS = (
    f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}",
    f"PRAGMA cache_size=-{CACHE_KIB}",
    "PRAGMA temp_store=MEMORY",
    "PRAGMA query_only=ON",
    "PRAGMA schema_version",  # the first look at the file: what is in its way shows here, before a transaction begins
)
LITTLE_ROOM_BYTES = 1 << 20
"""A disk with less is full when SQLite cannot write to it; it does not always say so."""
_UNSYNCED = {sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC}
"""A commit that could not be synced may be there after a crash all the same: it is not told as one that is not."""
_CORRUPT = ("malformed", "not a database", "encrypted")


def translate(error: Exception, path: Path) -> CarnacError | None:
    """Return what an error of SQLite's driver about the database at `path` means; None if it is of somebody else."""
    error = driver_error(error)
    if not isinstance(error, sqlite3.Error):
        return None
    text = first_line(error)
    if is_full(error, path):
        return DiskFull(
            f"the disk of the metadata store {path} is full; make room and retry (carnac gc deletes what is garbage)"
        )
    if isinstance(error, sqlite3.DataError):
        return unfit_value(error)
    if isinstance(error, sqlite3.IntegrityError):
        return Invalid(f"the publication names something that the store has already: {text}")
    if any(word in text for word in _CORRUPT):
        return Corrupt(f"the metadata store {path} is damaged: {text}")
    return Unavailable(f"the metadata store {path} does not answer: {text}")


def is_full(error: sqlite3.Error, path: Path) -> bool:
    """Whether an error comes of a disk without room; SQLite may say only that it could not read, write or open."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)
    if code == sqlite3.SQLITE_FULL:
        return True
    if code & 0xFF not in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) or code in _UNSYNCED:
        return False
    with suppress(OSError):
        return shutil.disk_usage(path.parent).free < LITTLE_ROOM_BYTES
    return False
