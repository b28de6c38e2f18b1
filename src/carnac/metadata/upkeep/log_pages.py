"""The write-ahead log of a SQLite file: do its pages still hold what was written?

A connection that reads a damaged page gets an error (`backends.sqlite_log`). Here all pages are read, those too that no
connection asked for.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import apsw

from carnac.metadata.backends.sqlite_driver import connect, translate
from carnac.metadata.backends.sqlite_log import (
    FRAME_BYTES,
    FRAME_HEADER_BYTES,
    HEADER_BYTES,
    chain_holds,
)

_SALTS = slice(8, 16)
_SUM = slice(16, 24)
WALKS_MAX = 3
"""Maximum number of walks over a log that others begin anew meanwhile."""


class LogPages(NamedTuple):
    """The pages of a log that are not in the file yet.

    Attributes:
        damaged: The first that is not what was written, counted from the log's beginning; None: all are.
    """

    total: int
    damaged: int | None


def examine_log(path: Path) -> LogPages | None:
    """Verify the pages that are in a log alone, while others may write it; None if they write too fast.

    Raises:
        CarnacError: The file or its log cannot be read.
    """
    log = Path(f"{path}-wal")
    try:
        with closing(connect(path, (), watches=False)) as connection:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            for _ in range(WALKS_MAX):
                begun = _read(log, HEADER_BYTES)
                _, count, moved = next(connection.execute("PRAGMA wal_checkpoint(NOOP)"))
                if count <= moved:
                    return LogPages(0, None)
                data = _read(log, HEADER_BYTES + count * FRAME_BYTES)
                if begun == data[:HEADER_BYTES] == _read(log, HEADER_BYTES):
                    return LogPages(count - moved, _find_damaged(data, moved, count))
    except apsw.Error as error:
        raise translate(error, path) or error from error
    except FileNotFoundError:  # the process that closed it last has moved all of it
        return LogPages(0, None)
    return None


def _read(log: Path, size_bytes: int) -> bytes:
    """Read the beginning of a log; unlike the database's file, closing it loses nobody's locks."""
    with log.open("rb") as file:
        return file.read(size_bytes)


def _find_damaged(data: bytes, moved: int, count: int) -> int | None:
    header, salts = data[:HEADER_BYTES], data[16:24]
    before = header[24:] if moved == 0 else _frame(data, moved)[_SUM]
    if not chain_holds(bytes(8), header[:24], header[24:]):
        return 0
    for number in range(moved + 1, count + 1):
        frame = _frame(data, number)
        if len(frame) < FRAME_BYTES or frame[_SALTS] != salts:
            return number
        if not chain_holds(before, frame[:8] + frame[FRAME_HEADER_BYTES:], frame[_SUM]):
            return number
        before = frame[_SUM]
    return None


def _frame(data: bytes, number: int) -> bytes:
    start = HEADER_BYTES + (number - 1) * FRAME_BYTES
    return data[start : start + FRAME_BYTES]
