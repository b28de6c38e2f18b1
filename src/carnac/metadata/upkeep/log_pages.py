"""The write-ahead log of a SQLite file: is what was written last still what was written?

SQLite reads pages of the log by an index and verifies none, and moves them into the file as they are. Only when no
process had the file open, as after a crash, it verifies the log, and takes what follows a damaged place as not written.
"""

from __future__ import annotations

import struct
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import apsw

from carnac.metadata.backends.sqlite_driver import connect, translate

_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
_PAGE_BYTES = 4096
_FRAME_BYTES = _FRAME_HEADER_BYTES + _PAGE_BYTES
_SALTS = slice(8, 16)
_SUM = slice(16, 24)
WALKS_MAX = 3
"""Of a log that others begin anew meanwhile."""


class LogPages(NamedTuple):
    """The pages of a log that are not in the file yet.

    Attributes:
        damaged: The first that is not what was written, counted from the log's beginning; None: all are.
    """

    total: int
    damaged: int | None


def examine_log(path: Path) -> LogPages | None:
    """Verify the pages that are in a log alone, which others may write meanwhile; None if they go on too fast.

    Raises:
        CarnacError: The file or its log cannot be read.
    """
    log = Path(f"{path}-wal")
    try:
        with closing(connect(path, ())) as connection:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            for _ in range(WALKS_MAX):
                begun = _read(log, _HEADER_BYTES)
                _, count, moved = next(connection.execute("PRAGMA wal_checkpoint(NOOP)"))
                if count <= moved:
                    return LogPages(0, None)
                data = _read(log, _HEADER_BYTES + count * _FRAME_BYTES)
                if begun == data[:_HEADER_BYTES] == _read(log, _HEADER_BYTES):
                    return LogPages(count - moved, _find_damaged(connection, data, moved, count))
    except apsw.Error as error:
        raise translate(error, path) or error from error
    except FileNotFoundError:  # whoever closed it last has moved all of it
        return LogPages(0, None)
    return None


def _read(log: Path, size_bytes: int) -> bytes:
    """Read the beginning of a log; unlike the database's file, closing it loses nobody's locks."""
    with log.open("rb") as file:
        return file.read(size_bytes)


def _find_damaged(connection: apsw.Connection, data: bytes, moved: int, count: int) -> int | None:
    header, salts = data[:_HEADER_BYTES], data[16:24]
    before = header[24:] if moved == 0 else _frame(data, moved)[_SUM]
    if not _follows(connection, bytes(8), header[:24], header[24:]):
        return 0
    for number in range(moved + 1, count + 1):
        frame = _frame(data, number)
        if len(frame) < _FRAME_BYTES or frame[_SALTS] != salts:
            return number
        if not _follows(connection, before, frame[:8] + frame[_FRAME_HEADER_BYTES:], frame[_SUM]):
            return number
        before = frame[_SUM]
    return None


def _frame(data: bytes, number: int) -> bytes:
    start = _HEADER_BYTES + (number - 1) * _FRAME_BYTES
    return data[start : start + _FRAME_BYTES]


def _follows(connection: apsw.Connection, before: bytes, content: bytes, after: bytes) -> bool:
    """Whether the sum `before` becomes `after` by some content.

    A page's checksum is made as the log's, from nothing: so zeros come first, which change nothing, and then what makes
    the sum `before` of nothing. Source: https://sqlite.org/fileformat2.html, "Checksum Algorithm".
    """
    first, second = struct.unpack(">II", before)
    begun = struct.pack("<II", first, (second - first) & 0xFFFF_FFFF)
    page = begun + content + struct.pack("<II", *struct.unpack(">II", after))
    size = max(512, 1 << (len(page) - 1).bit_length())  # of pages alone
    return bool(connection.execute("SELECT verify_checksum(?)", [page.rjust(size, b"\0")]).get)
