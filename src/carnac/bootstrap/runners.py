"""The composition root of runners: those that run attempts here, by the settings."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from carnac.bootstrap.store import beside_store, locate_store
from carnac.config import Settings, to_environ
from carnac.errors import Invalid
from carnac.overlord.runners import InProcessRunner, ProcessRunner, SparkSubmitRunner
from carnac.ports import TaskRunner

LOG_FOLDER = "task-logs"


def attempt_command(task_id: str, number: int) -> list[str]:
    """Return the arguments of `carnac` that run an attempt in a process of its own."""
    return ["task", "attempt", "--attempt", str(number), "--", task_id]


def open_runners(
    settings: Settings, *, run: Callable[[str, int], object] | None = None
) -> Mapping[str, TaskRunner]:
    """Return the runners by name. Those of child processes also know children of other overlords on this host.

    Args:
        run: Function that runs an attempt, (task id, number), in this process; None: there is no runner that does so.

    Raises:
        Invalid, Unavailable: The settings name `spark_submit`, and there is none, or it cannot run drivers that way.
    """
    host = socket.gethostname()
    how: dict[str, Any] = {
        "environ": {**os.environ, **to_environ(settings)},
        "spark_conf": settings.spark_conf.get_secret_value(),
        "logs": beside_store(settings.task_logs, LOG_FOLDER, settings),
        "host": host,
        "grace_ms": settings.task_stop_grace_ms,
        "log_limit_bytes": settings.task_log_limit_bytes,
    }
    process = ProcessRunner(attempt_command, **how)
    runners: dict[str, TaskRunner] = {process.name: process, SparkSubmitRunner.name: process}
    if settings.task_runner == SparkSubmitRunner.name:
        runners[SparkSubmitRunner.name] = SparkSubmitRunner(
            attempt_command,
            master=settings.spark_master,
            deploy_mode=settings.spark_deploy_mode,
            prepare_java=_prepare_java,
            **how,
        )
        _require_reachable_store(settings)
    if run is not None:
        runners[InProcessRunner.name] = InProcessRunner(
            run, host=host, pid=os.getpid(), join_ms=settings.task_stop_grace_ms
        )
    return runners


def _require_reachable_store(settings: Settings) -> None:
    """Refuse a file of metadata for drivers on other machines: its log is shared in memory, which no mount is.

    Raises:
        Invalid: So it is.
    """
    place = locate_store(settings.store.get_secret_value())
    if settings.spark_deploy_mode == "cluster" and place.file is not None:
        raise Invalid(
            f"a driver inside the cluster cannot open the store {place.name}, which is a folder of this machine; keep "
            'it in PostgreSQL, or use spark_deploy_mode = "client"'
        )


def _prepare_java(environ: MutableMapping[str, str]) -> None:
    from carnac.spark.java import prepare_java

    prepare_java(environ)
