"""`overlord`: dispatches tasks and answers over HTTP, until it is told to stop."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from carnac.cli.app import TASKS, command, session_of
from carnac.errors import Invalid

if TYPE_CHECKING:
    from carnac.config import Settings

PORT = 8090
"""Druid's port of overlords."""
RUNNERS = ("process", "spark_submit", "in_process")


@command(
    "overlord",
    panel=TASKS,
    examples=["carnac overlord", "carnac overlord --host 0.0.0.0 --runner spark_submit --json"],
)
def overlord(
    ctx: typer.Context,
    *,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="Where to listen. There is no password: mind who can reach it.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="0: any that is free.")
    ] = PORT,
    url: Annotated[
        str | None,
        typer.Option(
            "--url", metavar="URL", help="Where others reach it, if not at --host and --port."
        ),
    ] = None,
    runner: Annotated[
        str | None,
        typer.Option(
            "--runner",
            metavar="NAME",
            help="What runs tasks: process, spark_submit or in_process. Default: the setting task_runner.",
        ),
    ] = None,
    has_access_log: Annotated[
        bool, typer.Option("--access-log", help="Log each request.", metavar="")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Log one JSON object a line.", metavar="")
    ] = False,
) -> None:
    """Run an overlord: it starts tasks that were submitted, finds the dead ones, and answers under Druid's paths.

    Several may run on one store, on one machine or on many: one leads, and when it is gone another takes over within a
    lease. Tasks that run as processes of their own go on while no overlord is there. Ends on Ctrl-C, SIGTERM and
    SIGHUP.
    """
    from carnac.bootstrap.overlord import open_overlord
    from carnac.cli.logs import start_logging

    session = session_of(ctx)
    settings = _with_runner(session.settings, runner)
    start_logging(is_json=as_json, level=logging.DEBUG if session.is_debug else logging.INFO)
    with _hearing() as told:
        opened = open_overlord(
            settings=settings, host=host, port=port, url=url, has_access_log=has_access_log
        )
        try:
            opened.start()
            told.get()
        finally:
            opened.close()
    logging.getLogger("carnac.overlord").info("stopped")


def _with_runner(settings: Settings, runner: str | None) -> Settings:
    if runner is None:
        return settings
    if runner not in RUNNERS:
        raise Invalid(f"there is no runner '{runner}'; there are {', '.join(RUNNERS)}")
    return settings.model_copy(update={"task_runner": runner})


@contextmanager
def _hearing() -> Iterator[SimpleQueue[int]]:
    """Yield where the signals arrive that tell this process to end.

    A handler runs in the middle of whatever the main thread does, its waiting included: it must not need a lock that
    the thread may hold, as `Event.set` does.
    """
    told: SimpleQueue[int] = SimpleQueue()

    def tell(number: int, _frame: FrameType | None) -> None:
        told.put(number)

    before = {
        number: signal.signal(number, tell)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN  # as under nohup
    }
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
