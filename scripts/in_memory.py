"""A folder in memory for the files of tests.

Most of what a commit takes is that the disk confirms it, and tests make ten thousands of commits. That a statement asks
for it is tested where the statements are (`tests/unit/metadata/test_durability.py`), not by the disk's answer.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
MEMINFO = Path("/proc/meminfo")


@contextmanager
def folder_in_memory(
    needed_bytes: int, *, memory: Path = MEMORY, meminfo: Path = MEMINFO
) -> Iterator[Path | None]:
    """Yield a folder in memory, which is removed at the end; None where tests must do with the disk.

    Args:
        needed_bytes: What must be free in that file system, and twice as much in the memory of the machine.
    """
    if not is_fit(memory, needed_bytes) or available_bytes(meminfo) < 2 * needed_bytes:
        yield None
        return
    with tempfile.TemporaryDirectory(
        dir=memory, prefix="carnac-tests-", ignore_cleanup_errors=True
    ) as name:
        folder = Path(name)
        folder.chmod(0o711)  # a server that may not run as root finds its own files below
        yield folder


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
