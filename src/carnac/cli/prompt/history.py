"""The history of the prompt, in the folder that the user's programs keep their state in."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import FileHistory

ENTRIES_MAX = 2_000
"""That are kept; older ones go when a prompt starts."""
FILE_NAME = "sql-history"


def history_file(environ: Mapping[str, str]) -> Path:
    """Return the file: in `XDG_STATE_HOME`, else `.local/state` in the home directory."""
    home = Path(environ.get("HOME") or "~").expanduser()
    states = Path(environ.get("XDG_STATE_HOME") or home / ".local" / "state")
    return states / "carnac" / FILE_NAME


class KeptHistory(FileHistory):
    """Entries in a file that this user alone can read: statements may name what others must not see.

    Where the file cannot be read or written, entries live as long as the prompt.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._shorten()

    def load_history_strings(self) -> Iterable[str]:
        """Return the entries, newest first."""
        try:
            return list(super().load_history_strings())
        except OSError:
            return []

    def store_string(self, string: str) -> None:
        """Keep an entry."""
        with suppress(OSError):
            super().store_string(string)

    def _shorten(self) -> None:
        """Drop the oldest entries beyond the limit; the file is replaced as a whole."""
        entries = list(self.load_history_strings())
        if len(entries) <= ENTRIES_MAX:
            return
        beside = self._path.with_name(f"{FILE_NAME}.{os.getpid()}")
        os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
        shorter = FileHistory(str(beside))
        for entry in reversed(entries[:ENTRIES_MAX]):
            shorter.store_string(entry)
        beside.replace(self._path)
