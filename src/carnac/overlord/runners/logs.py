"""Where the output of attempts is, and reading the end of it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from urllib.parse import quote

from carnac.core.segments.segment import short_part
from carnac.errors import Unavailable
from carnac.overlord.runners.launch import SETTINGS

PREVIOUS = ".1"
"""The suffix of the log before the current one."""


class AttemptLogs:
    """Log files, one folder for each task, one file (and the one before it) for each attempt.

    Args:
        folder: Made when the first attempt starts.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def prepare(self, task_id: str, number: int) -> Path:
        """Return the path of an attempt's output; its folder is there.

        Raises:
            Unavailable: The folder cannot be made.
        """
        path = self._path(task_id, number)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Unavailable(
                f"the log of attempt {number} of task {task_id} has no place: {error.strerror} ({error.filename})",
                task_id=task_id,
            ) from error
        return path

    def read(self, task_id: str, number: int, *, tail_bytes: int | None = None) -> str | None:
        """Return what the attempt wrote, or only the end of it; None if nothing is here."""
        path = self._path(task_id, number)
        current = _bytes_of(path)
        if current is None:
            return None
        whole = (_bytes_of(path.with_name(path.name + PREVIOUS)) or b"") + current
        wanted = whole if tail_bytes is None else whole[max(0, len(whole) - tail_bytes) :]
        return wanted.decode(errors="replace")

    def forget(self, task_id: str, number: int) -> None:
        """Remove the log of an attempt, and the task's folder with the last one."""
        path = self._path(task_id, number)
        path.unlink(missing_ok=True)
        path.with_name(path.name + PREVIOUS).unlink(missing_ok=True)
        path.with_name(path.name + SETTINGS).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not empty, or not there
            path.parent.rmdir()

    def _path(self, task_id: str, number: int) -> Path:
        """Return a path below the folder for any id; an id may hold slashes and dots."""
        name = short_part(quote(task_id, safe="").replace(".", "%2E"))
        return self._folder / name / f"{number}.log"


def _bytes_of(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
