"""SQLite's driver, as all code that opens a database file uses it: how one is opened, and what an error means.

The driver is APSW: it comes with a SQLite of its own, which is the same on every machine, and with `cksumvfs`, a layer
of SQLite's below which each page of the file ends with a checksum. It is made when the page is written and verified
when it is read, so a page that is not what was written is an error, whatever was on it (decision 0023).
"""

from __future__ import annotations

import errno
import shutil
import threading
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

import apsw

from carnac.core.texts import first_line
from carnac.errors import CarnacError, Corrupt, DiskFull, Invalid, NotFound, Unavailable
from carnac.metadata.backends.sqlite_log import (
    MARK,
    is_log_of_another,
    is_marked,
    raise_interruption,
    watch_log,
)
from carnac.metadata.database import unfit_value

BUSY_TIMEOUT_MS = 60_000
"""For what the queue does not order: recovery after a crash, and closing."""
CACHE_KIB = 32_768
READER_PRAGMAS = (
    f"PRAGMA cache_size=-{CACHE_KIB}",
    "PRAGMA temp_store=MEMORY",
    "PRAGMA query_only=ON",
)
LITTLE_ROOM_BYTES = 1 << 20
"""A disk with less is full when SQLite cannot write to it; it does not always say so."""
CHECKSUM_BYTES = 8
"""Kept free at the end of each page for its checksum; a file whose pages keep another number has none."""
CHECKED = "cksmvfs"
"""The layer that makes and verifies checksums of pages."""
OPENED_MAX = 5
"""Attempts at a connection, while another process makes the file."""
_REGISTERING = threading.Lock()
_UNSYNCED = {apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC}
"""A commit that could not be synced may be there after a crash all the same: the error does not say that nothing was
published."""
_DAMAGED = {apsw.SQLITE_CORRUPT, apsw.SQLITE_NOTADB}


def connect(
    path: Path,
    pragmas: Iterable[str],
    *,
    parameters: str = "mode=rwc",
    vfs: str | None = None,
    is_alone: bool = False,
    patience_ms: int = BUSY_TIMEOUT_MS,
    verifies: bool = True,
    watches: bool = True,
) -> apsw.Connection:
    """Return a connection to a database file.

    The layer learns from the first page that there are checksums, but only if it reads that page from the file, not
    from the log. A connection that was opened on a file without pages might verify nothing. As the last one to close,
    it would move the pages of the log into the file without checksums. So such a file is refused.

    Args:
        parameters: Parameters of SQLite's URI, as `mode=ro`.
        vfs: Layer of SQLite that reads and writes files; None: `CHECKED`. Others verify nothing.
        is_alone: Whether no other connection may have the file open.
        patience_ms: Time that it waits for locks of others.
        verifies: Whether a page with a wrong checksum is an error. Checksums are written in any case.
        watches: Whether a page of the log that is not what was written is an error.

    Raises:
        NotFound: The file has no pages yet.
        Corrupt: Its pages keep no room for checksums, its first page is not what was written, its log was found
            to be damaged, or is that of another file.
        Unavailable: Other processes make the file and remove it again as often as it is opened.
        apsw.Error: Any other error of SQLite.
    """
    register()
    if watches:
        require_whole_log(path)
    for _ in range(OPENED_MAX):
        connection = apsw.Connection(
            f"file:{quote(str(path))}?{parameters}&vfs={vfs or CHECKED}",
            flags=apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE,
            statementcachesize=256,
        )
        try:
            connection.set_busy_timeout(patience_ms)
            if is_alone:
                connection.pragma("locking_mode", "EXCLUSIVE")
            if not verifies:
                connection.pragma("checksum_verification", "OFF")
            _look(connection, path, watches=watches, is_read_only="mode=ro" in parameters)
            for pragma in pragmas:
                connection.execute(pragma).fetchall()
            # It is on only where checksums are made, too.
            if vfs is not None or connection.pragma("checksum_verification", "ON") == "1":
                if not verifies:
                    connection.pragma("checksum_verification", "OFF")
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
    raise Unavailable(f"the metadata store {path} is being made by another process; retry")


def _look(connection: apsw.Connection, path: Path, *, watches: bool, is_read_only: bool) -> None:
    """Read the file's first page, so that obstacles show here, before a transaction begins."""
    # Else a statement whose parameters bound a range is prepared anew whenever it runs: its plan might change.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    require_own_log(connection, path)
    connection.pragma("schema_version")
    if watches:
        watch_log(connection, path)
    if not connection.pragma("page_count"):
        raise NotFound(f"the file {path} holds no metadata store; make one with: carnac init")
    require_checksums(connection, path)
    if not is_read_only and connection.pragma("journal_mode") != "wal":
        connection.pragma("journal_mode", "WAL")  # a backup that was put back has no log
        watch_log(connection, path)


def prepare_file(path: Path) -> None:
    """Make the first page of a database that is to be: with room for checksums, and a write-ahead log."""
    register()
    connection = apsw.Connection(str(path), vfs=CHECKED)
    try:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        if not connection.pragma("page_count"):
            connection.reserve_bytes("main", CHECKSUM_BYTES)
        connection.pragma("journal_mode", "WAL")
    finally:
        connection.close()


def back_up(path: Path, target: Path, *, image: Path | None = None) -> None:
    """Write what a database holds at one moment into an empty file: see `metadata.back_up`.

    Args:
        image: A copy of it that is read in its place; None: it can be read itself.
    """
    try:
        with closing(
            connect(image or path, READER_PRAGMAS[:-1], parameters="mode=ro")
        ) as connection:
            connection.execute("VACUUM INTO ?", [str(target)])
            require_checksums(connection, path)
        with closing(connect(target, READER_PRAGMAS, parameters="mode=ro")) as copy:
            found = copy.pragma("quick_check")
        if found != "ok":
            raise damaged(path, str(found))
    except apsw.Error as error:
        if is_full(error, target):
            raise OSError(errno.ENOSPC, "no space left") from error
        raise translate(error, path) or error from error


def translate(error: Exception, path: Path) -> CarnacError | None:
    """Return what an error of SQLite's driver about the database at `path` means; None if it is of somebody else."""
    raise_interruption()
    if isinstance(error, UnicodeDecodeError):
        return damaged(path, "a text in it is not UTF-8")
    if not isinstance(error, apsw.Error):
        return None
    text = first_line(error).rstrip(".")
    code = code_of(error)
    if code == apsw.SQLITE_IOERR_DATA:
        return damaged(
            path,
            "a page is not what Carnac wrote, as its checksum says; if another program, such as sqlite3, has opened "
            "the file, stop all processes of the store and run: carnac doctor --mend-checksums; else",
            joint=" ",
        )
    if code & 0xFF in _DAMAGED:
        return damaged(path, text)
    if is_full(error, path):
        return DiskFull(
            f"the disk of the metadata store {path} is full; make room and retry (carnac gc deletes what is garbage)"
        )
    if isinstance(error, apsw.TooBigError) or code == apsw.SQLITE_CONSTRAINT_DATATYPE:
        return unfit_value(error)
    if isinstance(error, apsw.ConstraintError):
        return Invalid(f"the publication names something that the store has already: {text}")
    return Unavailable(f"the metadata store {path} does not answer: {text}")


def damaged(path: Path, what: str, *, joint: str = "; ") -> Corrupt:
    """Return the error for a file that is not what was written."""
    return Corrupt(
        f"the metadata store {path} is damaged: {what}{joint}stop its writers and restore it from a backup "
        "(docs/concepts/operating.md, Backup)"
    )


def is_full(error: apsw.Error, path: Path) -> bool:
    """Whether an error comes of a disk without room; SQLite may say only that it could not read, write or open."""
    code = code_of(error)
    if code == apsw.SQLITE_FULL:
        return True
    if code & 0xFF not in (apsw.SQLITE_IOERR, apsw.SQLITE_CANTOPEN) or code in _UNSYNCED:
        return False
    with suppress(OSError):
        return shutil.disk_usage(path.parent).free < LITTLE_ROOM_BYTES
    return False


def code_of(error: apsw.Error) -> int:
    """Return SQLite's extended result code; `SQLITE_OK` of an error that is APSW's own."""
    code = getattr(error, "extendedresult", apsw.SQLITE_OK)
    return code if isinstance(code, int) else apsw.SQLITE_OK


def require_whole_log(path: Path) -> None:
    """Refuse to write, or to open, a database whose log was found to be damaged.

    SQLite would take what follows the damaged page as not written, commits that were acknowledged too.

    Raises:
        Corrupt: The log was found to be damaged.
    """
    if is_marked(path):
        raise damaged(
            path,
            f"a page in {path.name}-wal was not what had been written, says {path.name}{MARK} beside it",
        )


def require_own_log(connection: apsw.Connection, path: Path) -> None:
    """Refuse to read a backup that was put back beside the log of the file before it.

    SQLite would read pages of that log in place of the backup's, and move them into it.

    Raises:
        Corrupt: It is so.
    """
    if is_log_of_another(connection, path):
        name = path.name
        raise Corrupt(
            f"the metadata store {path} is a backup that was put back, and {name}-wal beside it is the log of the file "
            f"that was there before: stop all processes of the store, remove {name}-wal and {name}-shm, and try again"
        )


def require_checksums(connection: apsw.Connection, path: Path) -> None:
    """Refuse a connection that neither verifies checksums nor makes them, since the first page says there are none.

    That page is read again when others have written: so this is asked again after each read, before each commit.

    Raises:
        Corrupt: The connection is such a one; it will not move pages of the log into the file when it closes.
    """
    raise_interruption()
    kept = connection.reserve_bytes("main", -1)
    if kept != CHECKSUM_BYTES:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        raise Corrupt(
            f"the metadata store {path} is damaged, or from before the first release: its pages keep {kept} bytes for "
            f"a checksum, not {CHECKSUM_BYTES}; restore it from a backup, or make a new store"
        )


def reset(connection: apsw.Connection, path: Path) -> None:
    """Roll back what a read has left open; raises as `require_checksums` does."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")
    require_checksums(connection, path)


def register() -> None:
    """Add the layer of checksums to this process's SQLite: once, since it must not lie upon itself.

    Raises:
        Unavailable: This installation of APSW has not got it.
    """
    with _REGISTERING:
        if CHECKED in apsw.vfs_names():
            return
        # `apsw.sqlite_extra` does the same and takes 15 ms for it, a fifth of what it takes to open a store.
        layer = Path(apsw.__file__).with_name("sqlite_extra_binaries") / "cksumvfs"
        memory = apsw.Connection(":memory:")
        try:
            memory.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
            memory.load_extension(str(layer))
        except apsw.Error as error:
            raise Unavailable(
                "this installation of APSW comes without SQLite's cksumvfs, without which a store cannot be opened; "
                "install a wheel of it from PyPI"
            ) from error
        finally:
            memory.close()
