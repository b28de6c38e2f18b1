"""Checksums of the pages of a SQLite file: which are wrong, whether what is on those pages is damaged, and new ones.

A checksum says that a page is not what was written, not which of the two is wrong. So what is on all pages is asked:
whether it is a sound database, whose records agree with one another. Damage may keep out of all that, in a number that
nothing else names; a single flipped bit is known by its checksum all the same.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import apsw

from carnac.core.texts import first_line
from carnac.durable import sync
from carnac.errors import CarnacError, Corrupt, ReadOnly, Unavailable
from carnac.metadata.backends.sqlite_driver import (
    CHECKED,
    CHECKSUM_BYTES,
    READER_PRAGMAS,
    code_of,
    connect,
    register,
    translate,
)
from carnac.metadata.backends.sqlite_reading import find_obstacle
from carnac.metadata.backends.writer_queue import WriterQueue
from carnac.metadata.schema.migrate import head_version
from carnac.metadata.session import SQLITE, Session
from carnac.metadata.sql import statements as s

PAGE_BYTES = 4096
READS_MAX = 3
"""Maximum number of reads of a page whose checksum is wrong: it may have been read while somebody wrote it."""
FAULTS_MAX = 10
PATIENCE_MS = 2_000
"""For others to let go of a store whose checksums are to be mended."""
COPIED_BYTES = 1 << 20
_WORD = 0xFFFF_FFFF
_TAKEN = ("BEGIN EXCLUSIVE", "COMMIT")
"""Nobody else can open the file after that."""


class Pages(NamedTuple):
    """The pages of a file.

    Attributes:
        wrong: Numbers of the pages whose checksums are wrong; the first page is 1.
        faults: Signs of damage, a sentence each. They are looked for only if some pages are wrong.
    """

    total: int
    wrong: Sequence[int]
    faults: Sequence[str] = ()


class Mended(NamedTuple):
    """New checksums.

    Attributes:
        aside: A copy of the file as it was; None if there was nothing to do.
    """

    pages: Pages
    aside: Path | None


def examine(path: Path) -> Pages:
    """Verify the checksums of all pages of a store's file, which others may write meanwhile.

    Raises:
        Unavailable: The file cannot be read.
    """
    try:
        count, wrong = _find_wrong(path)
    except apsw.Error as error:
        raise translate(error, path) or error from error
    if not wrong:
        return Pages(count, ())
    try:
        with closing(
            connect(path, READER_PRAGMAS, parameters="mode=ro", verifies=False)
        ) as connection:
            return Pages(count, tuple(wrong), tuple(_find_faults(connection, wrong)))
    except (CarnacError, apsw.Error) as error:
        return Pages(count, tuple(wrong), (first_line(error).rstrip("."),))


def mend(path: Path) -> Mended:
    """Give the pages of a store's file the checksums of their contents, if these are intact; keep a copy of the file.

    Raises:
        Corrupt: The contents of the pages are damaged; nothing was changed.
        Unavailable: Others have the file open, or there is no room for the copy; nothing was changed.
        ReadOnly: This process cannot write the file.
    """
    obstacle = find_obstacle(path)
    if obstacle is not None:
        raise ReadOnly(f"the checksums of {path} cannot be mended here, because {obstacle}")
    queue = WriterQueue(Path(f"{path}.lock"), patience_ms=PATIENCE_MS, now_ms=lambda: 0)
    try:
        queue.enter()
        with closing(_open_alone(path)) as connection:
            return _mend(connection, path)
    except apsw.Error as error:
        raise translate(error, path) or error from error
    finally:
        queue.close()


def _open_alone(path: Path) -> apsw.Connection:
    try:
        return connect(path, _TAKEN, is_alone=True, patience_ms=PATIENCE_MS, verifies=False)
    except apsw.BusyError:
        raise Unavailable(
            f"others have the metadata store {path} open; stop all processes of the store and retry"
        ) from None


def _mend(connection: apsw.Connection, path: Path) -> Mended:
    count, wrong = _find_wrong(path)
    if not wrong:
        return Mended(Pages(count, ()), None)
    faults = list(_find_faults(connection, wrong))
    if faults:
        raise Corrupt(
            f"{len(wrong)} of {count} pages of {path} have wrong checksums, and what is on them is damaged: "
            f"{faults[0]}; nothing was changed, restore it from a backup (docs/concepts/operating.md, Backup)"
        )
    aside = _copy_aside(path)
    connection.pragma("wal_checkpoint", "TRUNCATE")
    raw = _open_file(path, "unix")
    checked = _open_file(path, CHECKED, apsw.SQLITE_OPEN_READWRITE)
    try:
        for number in wrong:
            place = (number - 1) * PAGE_BYTES
            checked.xWrite(raw.xRead(PAGE_BYTES, place), place)
        checked.xSync(apsw.SQLITE_SYNC_FULL)
    finally:
        raw.xClose()
        checked.xClose()
    still = _find_wrong(path)[1]
    if still:
        raise Corrupt(
            f"{len(still)} pages of {path} do not keep their new checksums: its disk is broken; the file as it was is "
            f"in {aside}"
        )
    return Mended(Pages(count, tuple(wrong)), aside)


def _copy_aside(path: Path) -> Path:
    """Copy a file that nobody writes, and its log; by SQLite's own means, since closing another loses its locks."""
    number = 1
    while (aside := path.with_name(f"{path.name}.before-mending-{number}")).exists():
        number += 1
    file = _open_file(path, "unix")
    try:
        with aside.open("xb") as copy:
            for index in range(0, file.xFileSize(), COPIED_BYTES):
                copy.write(file.xRead(min(COPIED_BYTES, file.xFileSize() - index), index))
        log = Path(f"{path}-wal")
        if log.exists() and log.stat().st_size:
            shutil.copyfile(log, f"{aside}-wal")
            sync(Path(f"{aside}-wal"))
        sync(aside)
        sync(aside.parent)
    except OSError as error:
        for made in (aside, Path(f"{aside}-wal")):
            made.unlink(missing_ok=True)
        raise Unavailable(
            f"{path} cannot be copied to {aside}: {error.strerror}; nothing was changed"
        ) from error
    finally:
        file.xClose()
    return aside


def _find_wrong(path: Path) -> tuple[int, dict[int, bytes]]:
    """Return how many pages there are, and those whose checksums are wrong, by number."""
    checked, raw = _open_file(path, CHECKED), _open_file(path, "unix")
    try:
        count = checked.xFileSize() // PAGE_BYTES
        return count, {
            number: raw.xRead(PAGE_BYTES, (number - 1) * PAGE_BYTES)
            for number in range(1, count + 1)
            if not _is_right(checked, number)
        }
    finally:
        checked.xClose()
        raw.xClose()


def _is_right(checked: apsw.VFSFile, number: int) -> bool:
    for _ in range(READS_MAX):
        try:
            checked.xRead(PAGE_BYTES, (number - 1) * PAGE_BYTES)
        except apsw.IOError as error:
            if code_of(error) != apsw.SQLITE_IOERR_DATA:
                raise
        else:
            return True
    return False


def _open_file(path: Path, vfs: str, how: int = apsw.SQLITE_OPEN_READONLY) -> apsw.VFSFile:
    register()
    file = apsw.VFSFile(vfs, str(path), [apsw.SQLITE_OPEN_MAIN_DB | how, 0])
    if file.xFileSize() >= PAGE_BYTES:
        with suppress(apsw.IOError):  # by the first page it learns that there are checksums
            file.xRead(PAGE_BYTES, 0)
    return file


def _find_faults(connection: apsw.Connection, wrong: dict[int, bytes]) -> Iterator[str]:
    for number, page in wrong.items():
        if _is_one_bit_off(page):
            yield f"page {number} is what was written but for one bit"
    for (found,) in connection.execute(f"PRAGMA integrity_check({FAULTS_MAX})"):
        if found != "ok":
            yield str(found)
    if next(connection.execute("PRAGMA foreign_key_check"), None) is not None:
        yield "a row names another that is not there"
    yield from _find_contradictions(Session(connection, SQLITE))


def _find_contradictions(session: Session) -> Iterator[str]:
    from carnac.metadata.upkeep.checks import find_problems

    try:
        version = session.row(s.STORE_VERSION)
        if version is None or version[0] != head_version():
            yield "its tables are not those of this version of Carnac"
            return
        yield from find_problems(session)
    except Exception as error:
        yield f"its records cannot be read: {first_line(error).rstrip('.')}"


def _is_one_bit_off(page: bytes) -> bool:
    """Whether one bit of a page, or of its checksum, was another when it was written."""
    held = page[-CHECKSUM_BYTES:]
    made = _checksum(page[:-CHECKSUM_BYTES])
    if (int.from_bytes(held) ^ int.from_bytes(made)).bit_count() == 1:
        return True
    steps = [
        (int.from_bytes(held[half], "little") - int.from_bytes(made[half], "little")) & _WORD
        for half in (slice(4), slice(4, 8))
    ]
    up, down = (steps[0], steps[1]), (-steps[0] & _WORD, -steps[1] & _WORD)
    return not _one_bit_steps(len(page) - CHECKSUM_BYTES).isdisjoint({up, down})


def _checksum(data: bytes) -> bytes:
    """Return what SQLite's layer makes of a page without its last eight bytes.

    Source: https://sqlite.org/cksumvfs.html, "Checksum algorithm": that of the write-ahead log.
    """
    first = second = 0
    words = memoryview(data).cast("I")
    for index in range(0, len(words), 2):
        first = (first + words[index] + second) & _WORD
        second = (second + words[index + 1] + first) & _WORD
    return first.to_bytes(4, "little") + second.to_bytes(4, "little")


@cache
def _one_bit_steps(size_bytes: int) -> frozenset[tuple[int, int]]:
    """Return what one bit more, somewhere in a page, adds to the two halves of its checksum."""
    found: set[tuple[int, int]] = set()
    even, odd = (1, 1), (0, 1)  # of the last two words
    for _ in range(size_bytes // 8):
        for first, second in (even, odd):
            found.update((first << bit & _WORD, second << bit & _WORD) for bit in range(32))
        even, odd = (
            ((first + second) & _WORD, (first + 2 * second) & _WORD)
            for first, second in (even, odd)
        )
    return frozenset(found)
