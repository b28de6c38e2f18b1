"""Attempts as child processes, each with its own Python and, where its work needs Spark, its own driver."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from carnac.core.tasks.context import spark_conf_of
from carnac.core.tasks.model import Attempt, Task
from carnac.overlord.runners.children import DEFAULT_GRACE_MS, DEFAULT_LOG_LIMIT_BYTES, Children
from carnac.overlord.runners.logs import AttemptLogs

SPARK_CONF_VARIABLE = "CARNAC_SPARK_CONF"

AttemptCommand = Callable[[str, int], Sequence[str]]
"""Returns what runs an attempt: the arguments of `carnac` for (task id, number)."""


class ProcessRunner:
    """Port `TaskRunner`: `python -m carnac …`, a child in a session of its own.

    The child runs on the overlord's host and outlives the overlord that started it. An overlord on another host cannot
    tell whether the child is alive, and goes by its signs of life.

    Args:
        command: Arguments of `carnac` that run an attempt.
        environ: Environment of the children: the settings of the service as variables.
        spark_conf: Spark settings of the service.
        logs: Folder for their output.
    """

    name = "process"

    def __init__(
        self,
        command: AttemptCommand,
        *,
        environ: Mapping[str, str],
        spark_conf: Mapping[str, str],
        logs: Path,
        host: str,
        grace_ms: int = DEFAULT_GRACE_MS,
        log_limit_bytes: int = DEFAULT_LOG_LIMIT_BYTES,
    ) -> None:
        self._command = command
        self._environ = dict(environ)
        self._spark_conf = dict(spark_conf)
        self._logs = AttemptLogs(logs)
        self._children = Children(host=host, grace_ms=grace_ms, log_limit_bytes=log_limit_bytes)

    def start(self, task: Task, attempt: Attempt) -> str:
        """Start the child; return its handle.

        Raises:
            Unavailable: The machine has no room for it.
            Invalid: The task's context is wrong.
        """
        conf = self._spark_conf | spark_conf_of(json.loads(task.context))
        arguments = self._command(task.task_id, attempt.number)
        environ = self._environ | {SPARK_CONF_VARIABLE: json.dumps(conf)}
        log = self._logs.prepare(task.task_id, attempt.number)
        program = self._program(task, conf, environ, log)
        return str(self._children.start([*program, *arguments], environ, log))

    def _program(
        self,
        task: Task,
        conf: Mapping[str, str],
        environ: dict[str, str],
        log: Path,
    ) -> Sequence[str]:
        """Return what takes the arguments of `carnac`; may add to the environment."""
        del task, conf, environ, log
        return [sys.executable, "-m", "carnac"]

    def is_alive(self, handle: str) -> bool | None:
        """Say whether the child is there; None if it is another host's."""
        return self._children.is_alive(handle)

    def stop(self, handle: str) -> None:
        """Ask the child to end; it and its group are killed when its grace is over."""
        self._children.stop(handle)

    def read_log(self, attempt: Attempt, *, tail_bytes: int | None = None) -> str | None:
        """Return what the child wrote; None if its log is not on this machine."""
        return self._logs.read(attempt.task_id, attempt.number, tail_bytes=tail_bytes)

    def forget(self, attempt: Attempt) -> None:
        """Remove the attempt's log."""
        self._logs.forget(attempt.task_id, attempt.number)

    def close(self) -> None:
        """Kill what was asked to end; all others go on."""
        self._children.close()
