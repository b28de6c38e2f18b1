"""Temporary folders: of this user alone, under names that nobody can take first, gone with their process."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import stat
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from carnac.errors import Unavailable

PREFIX = "carnac-"
"""The prefix of all temporary folders' names."""
ATTEMPTS_MAX = 5
"""To make a folder that another process does not take for a dead one's."""
LEFTOVERS_MAX = 1_000
"""Folders of dead processes that are looked at, at a time."""

_own: dict[tuple[int, str], Path] = {}
_held: dict[Path, int] = {}
"""Open folders of this process, whose locks say that it lives."""
_lock = threading.Lock()


def own_folder(kind: str) -> Path:
    """Return the temporary folder of this process for things of one kind; made when it is first asked for.

    It ends with the process. The folder of a killed process is removed by the next one that asks for the same kind. A
    folder whose owner lives is locked, and so is one that a living child of the owner has (`handle_of`).

    Args:
        kind: A word, as part of the folder's name.

    Raises:
        Unavailable: There is no directory for temporary files that can be written.
    """
    key = os.getpid(), kind
    with _lock:
        if key not in _own:
            try:
                _remove_leftovers(kind)
                _own[key] = _make(kind)
            except OSError as error:
                raise no_temporary_folder(error) from error
            atexit.register(_remove_own, key)
        return _own[key]


def handle_of(folder: Path) -> int:
    """Return the handle that keeps a folder of this process from being taken for a dead one's.

    A child that inherits it (`pass_fds`) has the folder for as long as it lives, too.
    """
    return _held[folder]


def make_private(folder: Path) -> Path:
    """Make a folder that only this user can enter, with those above it; return it.

    Of a path below the directory for temporary files the part just below it is that folder, since there others may make
    names, too.

    Raises:
        Unavailable: It cannot be made, or somebody else has made it.
    """
    root = Path(tempfile.gettempdir())
    top = root / folder.relative_to(root).parts[0] if root in folder.parents else folder
    try:
        top.parent.mkdir(parents=True, exist_ok=True)
        top.mkdir(mode=0o700, exist_ok=True)
        require_own(top)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise no_temporary_folder(error) from error
    return folder


def require_own(folder: Path) -> None:
    """Refuse a folder that others than this user can enter, or that is a link.

    Raises:
        PermissionError: It is.
    """
    found = folder.lstat()
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    if not is_ours or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(f"{folder} is not this user's alone; remove it, or set TMPDIR")


def no_temporary_folder(error: OSError) -> Unavailable:
    """Return the error where no temporary folder can be made."""
    reason = (error.strerror or str(error)).lower()
    return Unavailable(
        f"no temporary folder can be made in {tempfile.gettempdir()}: {reason}; name another directory (TMPDIR)"
    )


def _make(kind: str) -> Path:
    for _ in range(ATTEMPTS_MAX):
        folder = tempfile.mkdtemp(prefix=f"{PREFIX}{kind}-")
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # taken for a dead one's before it was open
        with suppress(OSError):  # some file systems have no locks: nobody removes anything there
            fcntl.flock(handle, fcntl.LOCK_SH)
        if os.fstat(handle).st_nlink and Path(folder).is_dir():
            _held[Path(folder)] = handle
            return Path(folder)
        os.close(handle)  # taken for a dead one's before it was locked
    raise FileExistsError(f"{ATTEMPTS_MAX} folders were removed while they were made")


def _remove_leftovers(kind: str) -> None:
    found = Path(tempfile.gettempdir()).glob(f"{PREFIX}{kind}-*")
    for folder, _ in zip(found, range(LEFTOVERS_MAX), strict=False):
        with suppress(OSError):
            require_own(folder)
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)


def _remove_own(key: tuple[int, str]) -> None:
    if key[0] == os.getpid():
        shutil.rmtree(_own[key], ignore_errors=True)
