"""What child processes of the task tests do. Started with spawn: nothing is inherited but the arguments."""

from __future__ import annotations

import signal
from typing import Any


def run_overlord(values: dict[str, Any]) -> None:
    """Be an overlord until SIGTERM."""
    from carnac.bootstrap_runners import open_runners
    from carnac.bootstrap_tasks import open_loop
    from carnac.config import Settings

    settings = Settings(**values)
    loop = open_loop(settings=settings, runners=open_runners(settings))

    def stop(*_: object) -> None:
        raise SystemExit

    signal.signal(signal.SIGTERM, stop)
    loop.run()
