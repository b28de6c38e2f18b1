"""Empty metadata stores in files, many and soon made."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from functools import lru_cache
from pathlib import Path

from carnac.metadata.temporary import empty_file

NAME = "metadata.db"


def lay_database(path: Path, *, created_at_ms: int) -> str:
    """Return the URL of a metadata store in a file, empty if the file was not there yet.

    It is what opening would make, byte for byte.
    """
    if not path.exists():
        path.write_bytes(_empty_database(created_at_ms))
    return f"sqlite:///{path}"


@lru_cache(maxsize=16)
def _empty_database(created_at_ms: int) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        path.write_bytes(empty_file())
        with closing(sqlite3.connect(path)) as link:
            link.execute("UPDATE origin SET created_at_ms = ?", [created_at_ms])
            link.commit()
        return path.read_bytes()
