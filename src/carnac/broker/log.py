"""The query log: a line of JSON for each statement, in two files that keep their limit by name."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections import deque
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from carnac.core.redaction import hide_passwords
from carnac.core.texts import cut
from carnac.core.time.intervals import format_ms
from carnac.durable import make_folders

if TYPE_CHECKING:
    from carnac.broker.record import QueryRecord

STATEMENT_MAX = 4_000
"""Characters of a statement that are kept."""
ERROR_MAX = 500
_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)
OLDER_SUFFIX = ".1"
"""Suffix of the older one of the two files."""


class QueryLog:
    """Appends lines; several processes may share the files. Safe for threads.

    When the newer file holds half of the limit it takes the place of the older one, and a new one begins: so the newest
    half of the limit is kept at least.

    Args:
        path: The newer file; its folder is made.
        limit_bytes: Both files together, > 0.
    """

    def __init__(self, path: Path, *, limit_bytes: int) -> None:
        self._path = path
        self._half_bytes = limit_bytes // 2
        self._lines: deque[bytes] = deque()
        self._lock = threading.Lock()
        self._file: FileIO | None = None  # kept open: to open it takes longer than to write
        self._is_closed = False

    def note(self, record: QueryRecord) -> None:
        """Write a statement's line, and those that came while it was written; their threads do not wait.

        Raises:
            OSError: The file cannot be written.
        """
        line = _ENCODER.encode(line_of(record))
        self._lines.append(f"{line}\n".encode())
        while self._lines and self._lock.acquire(blocking=False):  # or its holder writes it
            try:
                self._write()
            except BaseException:
                self._lines.clear()
                raise
            finally:
                self._lock.release()

    def close(self) -> None:
        """Let go of the file; a line that is still to come opens it for itself."""
        with self._lock:
            self._is_closed = True
            self._let_go()

    def _write(self) -> None:
        """Write the lines that wait into the newer file, until it is full or no longer the one at its path."""
        if self._file is None:
            self._file = self._open()
        is_kept = False
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            is_kept = self._write_into(self._file) and not self._is_closed
        finally:
            if is_kept:
                fcntl.flock(self._file, fcntl.LOCK_UN)
            else:
                self._let_go()

    def _write_into(self, file: FileIO) -> bool:
        """Return whether the file takes further lines; False if it was put aside, deleted or is full."""
        found = os.fstat(file.fileno())
        if not self._is_current(found):
            return False
        size = found.st_size
        while self._lines:
            if size and size + len(self._lines[0]) > self._half_bytes:
                self._path.replace(self._path.with_name(self._path.name + OLDER_SUFFIX))
                return False
            size += file.write(self._lines.popleft())
        return True

    def _let_go(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> FileIO:
        try:
            return FileIO(self._path, "a")
        except FileNotFoundError:
            make_folders(self._path.parent)
            return FileIO(self._path, "a")

    def _is_current(self, found: os.stat_result) -> bool:
        with suppress(FileNotFoundError):
            return os.path.samestat(found, self._path.stat())
        return False


def line_of(record: QueryRecord) -> dict[str, object]:
    """Return what the log says of a statement; no value of a parameter, and no password of a URL in its text."""
    statement, facts = record.statement, record.facts
    line: dict[str, object] = {
        "at": format_ms(record.asked_at_ms),
        "query_id": statement.query_id,
        "client": statement.client.name,
        "outcome": record.outcome.value,
        "duration_ms": record.duration_ms,
        "waited_ms": record.waited_ms,
        "rows": record.rows,
        "bytes": record.size_bytes,
        "statement": cut(hide_passwords(statement.sql), STATEMENT_MAX),
        "parameters": len(statement.parameters),
        "lane": statement.lane,
        "priority": statement.priority,
    }
    if facts is not None:
        line |= {
            "revision": facts.revision,
            "statement_digest": facts.receipt.statement_digest,
            "segments_digest": facts.receipt.segments_digest,
            "rows_digest": facts.receipt.rows_digest,
            "segments_expected": facts.segments_expected,
            "segments_read": facts.segments_read,
            "segments_cold": facts.segments_cold,
            "segments_kept": facts.segments_kept,
            "complete": facts.is_complete,
            "servers": list(facts.servers),
            "engine": facts.engine.value,
        }
    if record.error:
        line["error"] = cut(hide_passwords(record.error), ERROR_MAX)
    return line
