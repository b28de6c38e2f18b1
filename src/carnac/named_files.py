"""Files that a person names to be written: the whole of one or nothing of it, and never a store's own.

A command that writes to a file of the caller's choice uses `named_file` or `open_named`. A house test holds the
command line, the pictures and the store to that.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from carnac.durable import sync
from carnac.errors import DiskFull, Invalid, NotFound, ReadOnly
from carnac.ports.storage import METADATA_FILE

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def named_file(place: Path, *, overwrite: bool, hint: str = "") -> Iterator[BinaryIO]:
    """Give a file to write to; it gets its name when the block has ended well, and is gone if not.

    Args:
        overwrite: Whether it takes the place of another file.
        hint: End of the message if it must not, with the caller's remedy.

    Raises:
        Invalid: The place is a folder, a file that is there already, or in the folder of a store.
        NotFound: There is no such folder.
        DiskFull: No space is left.
        ReadOnly: This user cannot write there.
    """
    with _told(place):
        if place.is_dir():
            raise Invalid(f"{place} is a folder; name a file in it")
        if is_stream(place):
            with place.open("wb") as stream:
                yield stream
            return
        if place.exists() and not overwrite:
            raise Invalid(f"{place} is there already; name another file{hint}")
        _check_replaceable(place)
        if place.is_symlink():
            place = place.resolve()
        beside = place.with_name(f".{place.name[:200]}.{os.getpid()}.part")
        try:
            with beside.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            _name(beside, place, overwrite=overwrite)
            sync(place.parent)
        finally:
            with suppress(OSError):
                beside.unlink(missing_ok=True)


def write_named(place: Path, content: str | bytes, *, overwrite: bool = True) -> None:
    """Write a file; raises what `named_file` does."""
    with named_file(place, overwrite=overwrite) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def open_named(place: Path) -> TextIO:
    """Open a file, in the place of another one, whose lines are there as they come; raises what `named_file` does."""
    with _told(place):
        _check_replaceable(place)
        return place.open("w", encoding="utf-8")


def make_named_folder(folder: Path) -> None:
    """Make a folder that a person names, and those above it; one that is there stays as it is.

    Raises:
        Invalid: It cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Invalid(
            f"the folder {folder} cannot be made ({(error.strerror or 'not allowed').lower()}); name another place",
            path=str(folder),
        ) from None


def is_stream(place: Path) -> bool:
    """Whether it is there and is a pipe or a device: nothing can be renamed to it."""
    with suppress(OSError):
        mode = place.stat().st_mode
        return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
    return False


def _check_replaceable(place: Path) -> None:
    """Refuse to write over a file in the folder of a store.

    Raises:
        Invalid: It is in the folder of one.
    """
    for folder in place.resolve().parents if place.is_file() else ():
        if (folder / METADATA_FILE).is_file():
            raise Invalid(
                f"{place} is in the folder of the store {folder}, where nothing is written over; name another file"
            )


def _name(beside: Path, place: Path, *, overwrite: bool) -> None:
    if overwrite:
        beside.replace(place)
        return
    try:
        os.link(beside, place)  # unlike a rename it takes nobody's place
    except FileExistsError:
        raise Invalid(f"{place} was made by somebody else meanwhile; it stays as it is") from None
    except OSError:  # a file system without links
        beside.rename(place)


@contextmanager
def _told(place: Path) -> Iterator[None]:
    """Say what the file system refuses in one sentence."""
    try:
        yield
    except BrokenPipeError:
        raise
    except FileNotFoundError:
        if place.parent.is_dir():  # one that takes no files, such as /proc
            raise Invalid(f"{place} cannot be written there; name another place") from None
        raise NotFound(f"there is no folder {place.parent} to write {place.name} to") from None
    except NotADirectoryError:
        raise Invalid(f"{place.parent} is not a folder") from None
    except IsADirectoryError:
        raise Invalid(f"{place} is a folder; name a file in it") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise Invalid(f"the name {place.name[:40]}… is too long for a file") from None
        if error.errno in _NO_SPACE:
            raise DiskFull(
                f"there is no space left to write {place}; nothing of it was kept, make some and try again"
            ) from error
        if error.errno in {errno.EROFS, errno.EACCES, errno.EPERM}:
            raise ReadOnly(
                f"{place} cannot be written ({(error.strerror or 'not allowed').lower()}); "
                "choose a place that this user can write to"
            ) from error
        raise
