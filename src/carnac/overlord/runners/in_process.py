"""Attempts as threads of this process: for trying things out, and for tests."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from carnac.core.tasks.model import Attempt, Task
from carnac.errors import CarnacError
from carnac.overlord.runners.identity import Presence, identify, parse_handle, presence_of

LOG_LINES_MAX = 10_000
PACKAGE = "carnac"
_SEPARATOR = "#"
_LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_log = logging.getLogger(__name__)


class InProcessRunner:
    """Port `TaskRunner`: a daemon thread for each attempt. Attempts end with the process, and count as lost then.

    A thread cannot be stopped from outside. A cancelled attempt learns of it with its next sign of life. It ends where
    its job next reports progress, and Spark jobs of it end, too. Its log is the output of its thread's loggers below
    `carnac`, kept in memory.

    Args:
        run: Runs an attempt, (task id, number).
        pid: Id of this process.
        join_ms: Time that `close` waits for attempts that still run.
    """

    name = "in_process"

    def __init__(
        self, run: Callable[[str, int], object], *, host: str, pid: int, join_ms: int = 10_000
    ) -> None:
        self._run = run
        self._host = host
        self._us = identify(pid, host)
        self._join_ms = join_ms
        self._threads: dict[str, threading.Thread] = {}
        self._lines = _LinesByThread(logging.INFO)
        self._lines.setFormatter(logging.Formatter(_LINE))
        package = logging.getLogger(PACKAGE)
        self._level = package.level
        package.addHandler(self._lines)
        package.setLevel(min(package.getEffectiveLevel(), logging.INFO))

    def start(self, task: Task, attempt: Attempt) -> str:
        """Start the thread; return its handle."""
        name = attempt.lock_owner
        thread = threading.Thread(
            target=self._attempt, args=(task.task_id, attempt.number), name=name, daemon=True
        )
        self._threads[name] = thread
        self._lines.open(name)
        thread.start()
        return f"{self._us}{_SEPARATOR}{name}"

    def _attempt(self, task_id: str, number: int) -> None:
        try:
            self._run(task_id, number)
        except CarnacError as error:
            _log.error("%s", error.message)
        except Exception:
            _log.exception("attempt %s of task %s ended with a bug", number, task_id)

    def is_alive(self, handle: str) -> bool | None:
        """Say whether the thread runs; of a thread of another process, only that it does not, if that one is gone."""
        process, _, name = handle.partition(_SEPARATOR)
        if process == str(self._us):
            thread = self._threads.get(name)
            return thread is not None and thread.is_alive()
        found = parse_handle(process)
        if found is None or found.host != self._host:
            return None
        return None if presence_of(found) is Presence.RUNNING else False

    def stop(self, handle: str) -> None:
        """Do nothing: the thread hears that its attempt is over, and ends by itself."""

    def read_log(self, attempt: Attempt, *, tail_bytes: int | None = None) -> str | None:
        """Return what the thread logged; None if it is not one of this process."""
        lines = self._lines.of(attempt.lock_owner)
        if lines is None:
            return None
        text = "".join(f"{line}\n" for line in lines)
        if tail_bytes is None:
            return text
        data = text.encode()
        return data[max(0, len(data) - tail_bytes) :].decode(errors="replace")

    def forget(self, attempt: Attempt) -> None:
        """Remove what the thread logged."""
        self._lines.forget(attempt.lock_owner)
        self._threads.pop(attempt.lock_owner, None)

    def close(self) -> None:
        """Wait a while for those that still run; they cannot outlive the process."""
        logging.getLogger(PACKAGE).removeHandler(self._lines)
        logging.getLogger(PACKAGE).setLevel(self._level)
        threads, self._threads = list(self._threads.values()), {}
        for thread in threads:
            thread.join(self._join_ms / 1000)


class _LinesByThread(logging.Handler):
    """Keeps the last lines that each of some threads logged."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self._lines: dict[str, deque[str]] = {}

    def open(self, name: str) -> None:
        self._lines[name] = deque(maxlen=LOG_LINES_MAX)

    def forget(self, name: str) -> None:
        self._lines.pop(name, None)

    def of(self, name: str) -> list[str] | None:
        lines = self._lines.get(name)
        return None if lines is None else list(lines)

    def emit(self, record: logging.LogRecord) -> None:
        lines = self._lines.get(record.threadName or "")
        if lines is not None:
            lines.append(self.format(record))
