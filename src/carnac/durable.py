"""Files and folders whose names a power cut does not take back."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

KNOWN_MAX = 100_000
"""Folders that a process remembers to have synced."""
_known: dict[tuple[str, int], None] = {}


def make_folders(folder: Path) -> None:
    """Make a folder and those above it that are missing, durably.

    A folder that is there may have been made a moment ago by a process that has not synced its name. So this process
    syncs the name of each that it meets, once; those above were synced before it was made.

    Raises:
        OSError: One cannot be made, or is no folder.
    """
    with suppress(FileNotFoundError):
        if _mark(folder) in _known:
            return
    found, missing = folder, []
    while not found.is_dir():
        missing.append(found)
        found = found.parent
    if _mark(found) not in _known:
        with suppress(PermissionError):  # a folder that we may not read is older than we are
            sync(found.parent)
    for new in reversed(missing):
        new.mkdir(exist_ok=True)
        sync(new.parent)
    if len(_known) + len(missing) >= KNOWN_MAX:
        _known.clear()
    _known.update({_mark(one): None for one in (found, *missing)})


def find_stranger(folder: Path) -> int | None:
    """Return the id of another user (not root) to whom a folder, or the link to it, belongs; None if to nobody else."""
    trusted = {os.geteuid(), 0}
    with suppress(FileNotFoundError):
        owners = {folder.lstat().st_uid, folder.stat().st_uid} - trusted
        return min(owners) if owners and os.geteuid() != 0 else None
    return None


def sync(path: Path) -> None:
    """Wait until a file's bytes, or a folder's names, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _mark(folder: Path) -> tuple[str, int]:
    """Return what is another one when a folder was removed and made anew."""
    return str(folder), folder.stat().st_ino
