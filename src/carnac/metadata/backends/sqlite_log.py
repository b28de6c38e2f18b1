"""The write-ahead log of a SQLite file: each page that is read from it is verified.

Pages in the log have checksums, one chain over all. SQLite verifies the chain only when no process had the file open,
as after a crash, and the layer of checksums sees the file alone. So this module replaces the function that reads a
log's file, for one connection at a time. It uses interfaces of SQLite that are public and stable:
`SQLITE_FCNTL_JOURNAL_POINTER` and `sqlite3_io_methods`. A connection that reads a damaged page, or moves it into the
file, gets an error. SQLite would silently shorten a damaged log when it is opened next, so the damage is recorded in a
file beside it.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dis import opmap
from pathlib import Path
from types import CodeType

import apsw

from carnac.durable import sync

HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24
PAGE_BYTES = 4096
FRAME_BYTES = FRAME_HEADER_BYTES + PAGE_BYTES
_FIRST_PAGE = HEADER_BYTES + FRAME_HEADER_BYTES
SUM_BYTES = 8
"""At the end of each header, the log's and the frames'."""
MARK = "-wal-damaged"
"""Ends the name of the file which says that a log is damaged; it holds that log's header."""
_KIND = slice(18, 20)
"""The bytes at the beginning of a database that say whether it has a log of this kind."""
_WITHOUT_LOG = b"\1\1"
_POINTERS = {1: 12, 2: 16, 3: 18}
"""Functions of a file, by the version of the interface."""
_READ = 2
"""The place of the one that reads, the version being at 0."""
_Read = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
)
_FAILED = int(apsw.SQLITE_IOERR)
_GOES_ON = 2
"""The argument of `RESUME` after a `yield from`."""
_Functions = ctypes.Array[ctypes.c_void_p]
_watching = threading.Lock()
_functions: dict[int, _Functions] = {}
"""The functions that replace those of a kind of file, by their address."""
_paths: dict[int, Path] = {}
"""The database path of each watched log, by the address of its open file."""


class _Local(threading.local):
    """The verifier of a thread, and an interruption that arrived meanwhile."""

    interruption: BaseException | None = None
    verifier: apsw.Connection | None = None

    def __init__(self) -> None:
        self.buffer = (ctypes.c_char * (FRAME_BYTES + SUM_BYTES))()
        self.address = ctypes.addressof(self.buffer)


_local = _Local()


def watch_log(connection: apsw.Connection, path: Path) -> None:
    """Have a connection that has seen the first page, no more, verify what it reads from the log, if there is one.

    That page is read again.
    """
    file = ctypes.c_void_p()
    connection.file_control("main", apsw.SQLITE_FCNTL_JOURNAL_POINTER, ctypes.addressof(file))
    if file.value is None:
        return
    functions = ctypes.c_void_p.from_address(file.value)
    with _watching:
        ours = {ctypes.addressof(one) for one in _functions.values()}
        if functions.value is not None and functions.value not in ours:
            _paths[file.value] = path
            functions.value = ctypes.addressof(_verified(functions.value))
            connection.release_memory()


def is_marked(path: Path) -> bool:
    """Whether the log of a database, as it is now, was found to be damaged."""
    if not os.access(f"{path}{MARK}", os.F_OK):  # asked for each transaction
        return False
    mark = Path(f"{path}{MARK}")
    with suppress(FileNotFoundError), Path(f"{path}-wal").open("rb") as log:
        return mark.read_bytes() == log.read(HEADER_BYTES)
    return False


def is_log_of_another(connection: apsw.Connection, path: Path) -> bool:
    """Whether a log lies beside a database that says it has none, as beside a backup in the place of another file.

    A database says that it has a log before the log has a page, so it is asked second; and by SQLite's own handle,
    since to close another one would end the locks of this process.
    """
    with suppress(OSError):
        if os.stat(f"{path}-wal").st_size:  # noqa: PTH116 - asked for each connection
            return connection.read("main", 0, 0, _KIND.stop)[1][_KIND] == _WITHOUT_LOG
    return False


def chain_holds(before: bytes, content: bytes, after: bytes) -> bool:
    """Whether the sum `before` becomes `after` by some content.

    A page's checksum is made as the log's, from nothing: so zeros come first, which change nothing, and then what makes
    the sum `before` of nothing. Source: https://sqlite.org/fileformat2.html, "Checksum Algorithm".
    """
    if _local.verifier is None:  # not before the layer of checksums is there
        _local.verifier = apsw.Connection(":memory:")
    first, second = struct.unpack(">II", before)
    begun = struct.pack("<II", first, (second - first) & 0xFFFF_FFFF)
    page = begun + content + struct.pack("<II", *struct.unpack(">II", after))
    size = max(512, 1 << (len(page) - 1).bit_length())  # of pages alone
    found = _local.verifier.execute("SELECT verify_checksum(?)", (page.rjust(size, b"\0"),))
    return bool(found.get)


def raise_interruption() -> None:
    """Raise what a signal raised while a page was verified: SQLite was told of an error, since it lets nothing pass."""
    if (interruption := _local.interruption) is not None:
        _local.interruption = None
        raise interruption


def _verified(address: int) -> _Functions:
    """Return the functions of a kind of file, of which the one that reads verifies."""
    if address not in _functions:
        count = 1 + _POINTERS[min(max(_POINTERS), ctypes.c_int.from_address(address).value)]
        held = ctypes.string_at(address, count * ctypes.sizeof(ctypes.c_void_p))
        functions = (ctypes.c_void_p * count).from_buffer_copy(held)
        read = _Read(_verifying(_Read(functions[_READ] or 0)))
        functions[_READ] = ctypes.cast(read, ctypes.c_void_p).value
        for needed in (read, functions):  # by files, too, that are closed when modules are gone
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(needed))
        _functions[address] = functions
    return _functions[address]


def _verifying(read: Callable[[int, int, int, int], int]) -> Callable[[int, int, int, int], int]:
    """Return a function that reads, and verifies what is a page of the log."""

    def read_verified(file: int, into: int, count: int, place: int) -> int:
        try:
            code = read(file, into, count, place)
            if code or count != PAGE_BYTES or (place - _FIRST_PAGE) % FRAME_BYTES:
                return code
            begin = max(HEADER_BYTES - SUM_BYTES, place - FRAME_BYTES - SUM_BYTES)  # the sum before
            code = read(file, _local.address, place - begin, begin)
            if code:
                return code
            before = _local.buffer.raw[: place - begin]
            header, page = before[-FRAME_HEADER_BYTES:], ctypes.string_at(into, count)
            if chain_holds(before[:SUM_BYTES], header[:8] + page, header[-SUM_BYTES:]):
                return code
            _mark(_paths[file])
            return int(apsw.SQLITE_IOERR_DATA)
        except BaseException as error:  # it must not believe that the page is right
            _local.interruption = error
            return _FAILED  # without a call, after which handlers of signals run

    read_verified.__code__ = _without_signals_before_the_first_line(read_verified.__code__)
    return read_verified


def _without_signals_before_the_first_line(code: CodeType) -> CodeType:
    """Return code at whose beginning no handler of a signal runs, where no `try` would hold what it raises.

    The caller in C would lose that, and tell SQLite whatever number lies there: zero is success, and what was in memory
    would be the page. The instruction `RESUME` looks for signals at the beginning of a function, as its argument says,
    and not when a `yield from` goes on. Source: https://docs.python.org/3/library/dis.html#opcode-RESUME.
    """
    operations = bytearray(code.co_code)
    place = operations[::2].index(opmap["RESUME"]) * 2
    operations[place + 1] = _GOES_ON
    return code.replace(co_code=bytes(operations))


def _mark(path: Path) -> None:
    """Write down that a log is damaged, where there is room: next time SQLite would leave out what follows, unasked."""
    mark = Path(f"{path}{MARK}")
    with suppress(OSError), Path(f"{path}-wal").open("rb") as log:
        mark.write_bytes(log.read(HEADER_BYTES))
        sync(mark)
        sync(mark.parent)
