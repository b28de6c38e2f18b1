"""What child processes of the task tests do. Started anew: nothing is inherited but the arguments."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from carnac.clock import SystemClock
from carnac.overlord.runners import ProcessRunner
from carnac.ports import ChunkLayout, DeepStorage, IdSource, JobResult
from carnac.specs.ingest.spec import IngestSpec
from tests.support.pipeline import LocalPipeline

DIES_AFTER_PUBLISHING = "dies"
"""Task whose first attempt is killed before it can say that it is done."""


class Writing(ProcessRunner):
    """Starts attempts that ingest without Spark: this file is their program."""

    def _program(self, *_: object) -> Sequence[str]:
        return [sys.executable, "-m", __name__]


class OneRow(LocalPipeline):
    """Ingests the same row, whatever the spec says."""

    def run_ingest(self, spec: IngestSpec, layout: ChunkLayout, **options: Any) -> JobResult:
        """Write one segment."""
        row = {"__time": "2013-01-01T13:00:00Z", "carrier": "BB"}
        return super().run_ingest(spec, layout, **{**options, "rows": [row]})


def run_overlord(values: dict[str, Any], *, has_writers: bool = False) -> None:
    """Be an overlord until SIGTERM."""
    from carnac.bootstrap.runners import LOG_FOLDER, attempt_command, open_runners
    from carnac.bootstrap.store import beside_store
    from carnac.bootstrap.tasks import open_loop
    from carnac.config import Settings, to_environ

    settings = Settings(**values)
    runners = dict(open_runners(settings))
    if has_writers:
        runners[ProcessRunner.name] = Writing(
            attempt_command,
            environ={**os.environ, **to_environ(settings)},
            spark_conf={},
            logs=beside_store(settings.task_logs, LOG_FOLDER, settings),
            host=os.uname().nodename,
            grace_ms=settings.task_stop_grace_ms,
        )
    loop = open_loop(settings=settings, runners=runners)

    def stop(*_: object) -> None:
        raise SystemExit

    signal.signal(signal.SIGTERM, stop)
    loop.run()


def run_attempt(task_id: str, number: int) -> None:
    """Run an attempt, as the command line does, but without Spark."""
    from carnac.bootstrap.tasks import run_task_attempt
    from carnac.config import load_settings
    from carnac.overlord import attempt

    def make(root: DeepStorage, ids: IdSource) -> OneRow:
        return OneRow(root, clock=SystemClock(), ids=ids)

    if (task_id, number) == (DIES_AFTER_PUBLISHING, 1):
        attempt._finish = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
    settings = load_settings(os.environ, directory=Path.cwd())
    run_task_attempt(task_id, number, settings=settings, pipeline=make)


if __name__ == "__main__":
    run_attempt(sys.argv[6], int(sys.argv[4]))
