"""Where the JVM of a driver writes: a folder that its user alone reads, of which the newest logs are kept."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

LOGS_MAX = 20
"""Logs that are kept because a message named them."""
NAME = "spark-{}.log"


def make_log(environ: Mapping[str, str], pid: int) -> Path:
    """Return where the JVM of a process is to write; the folder is there, and old logs in it are gone.

    It is below `XDG_CACHE_HOME`, else `.cache` in the home directory; where that cannot be written, a new folder among
    the temporary ones.
    """
    caches = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or "~") / ".cache")
    folder = caches.expanduser() / "carnac" / "logs"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_ours = os.access(folder, os.W_OK | os.X_OK) and folder.stat().st_uid == os.geteuid()
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        is_ours = False
    if not is_ours:
        return Path(tempfile.mkdtemp(prefix="carnac-log-")) / NAME.format(pid)
    _keep_newest(folder)
    return folder / NAME.format(pid)


def _keep_newest(folder: Path) -> None:
    ages: list[tuple[float, Path]] = []
    for path in folder.glob(NAME.format("*")):
        with contextlib.suppress(OSError):  # somebody else has removed it
            ages.append((path.stat().st_mtime, path))
    for _, path in sorted(ages)[: max(0, len(ages) - LOGS_MAX + 1)]:
        with contextlib.suppress(OSError):
            path.unlink()
