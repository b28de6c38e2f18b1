"""A folder in memory for the files of tests.

Most of what a commit takes is that the disk confirms it, and tests make ten thousands of commits. That a statement asks
for it is tested where the statements are (`tests/unit/metadata/test_durability.py`), not by the disk's answer.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
MEMINFO = Path("/proc/meminfo")
PREFIX = "carnac-tests-"
NEW_S = 60
"""A folder younger than that may be one that its run is about to hold."""


@contextmanager
def folder_in_memory(
    needed_bytes: int, *, memory: Path = MEMORY, meminfo: Path = MEMINFO
) -> Iterator[Path | None]:
    """Yield a folder in memory, which is removed at the end; None where tests must do with the disk.

    Args:
        needed_bytes: Bytes that must be free in that file system; twice as many must be free in the machine's memory.
    """
    if not is_fit(memory, needed_bytes) or available_bytes(meminfo) < 2 * needed_bytes:
        yield None
        return
    remove_deserted(memory)
    with tempfile.TemporaryDirectory(dir=memory, prefix=PREFIX, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o711)  # a server that may not run as root finds its own files below
        with held(folder) as is_ours:
            yield folder if is_ours else None


@contextmanager
def held(folder: Path) -> Iterator[bool]:
    """Hold a folder, if nobody else does, until the end of the block or of this process, however it ends."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(lock)


def remove_deserted(memory: Path, *, now_s: float | None = None) -> None:
    """Remove what runs that were killed have left: nobody holds it, and it is no folder that has just been made."""
    old_s = (time.time() if now_s is None else now_s) - NEW_S
    for folder in memory.glob(f"{PREFIX}*"):
        with suppress(OSError):  # somebody else's, or somebody else removes it
            if folder.stat().st_mtime < old_s:
                with held(folder) as is_deserted:
                    if is_deserted:
                        shutil.rmtree(folder, ignore_errors=True)


def is_fit(memory: Path, needed_bytes: int) -> bool:
    """Whether files can be made there, programs among them, and there is room: containers often have 64 MB."""
    if not os.access(memory, os.W_OK):
        return False
    is_executable = not os.statvfs(memory).f_flag & getattr(os, "ST_NOEXEC", 0)
    return is_executable and shutil.disk_usage(memory).free >= needed_bytes


def available_bytes(meminfo: Path) -> int:
    """Return how much memory programs can have before others are moved out; 0 where the system does not say."""
    try:
        lines = meminfo.read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) * 1024 if found else 0
