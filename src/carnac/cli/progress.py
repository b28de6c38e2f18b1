"""Progress of long work on standard error: a bar on a terminal, else a plain line every few seconds."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from carnac.cli.session import Session
from carnac.cli.tables import format_seconds, number_text
from carnac.core.words import counted
from carnac.errors import CarnacError
from carnac.ports import Clock, JobProgress

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SLOW_START_MS = 6_000
"""Spark's start takes longer than this where nothing was prepared."""
PLAIN_EVERY_MS = 3_000
"""How often a plain line is written while nothing but numbers change."""


class PlainProgress:
    """Writes a line for each phase, and every few seconds within a phase."""

    def __init__(self, write: Callable[[str], None], clock: Clock, *, unit: str = "tasks") -> None:
        self._write = write
        self._unit = unit
        self._clock = clock
        self._phase: str | None = None
        self._started_ms = 0
        self._told_ms = 0

    def open(self, text: str) -> None:
        """Say what goes on until there is progress."""
        self._write(text)

    def __call__(self, moment: JobProgress) -> None:
        """Tell of the moment, if it is time."""
        now_ms = self._clock.now_ms()
        if moment.phase != self._phase:
            self._phase, self._started_ms, self._told_ms = moment.phase, now_ms, now_ms
            self._write(describe(moment, 0, unit=self._unit))
        elif now_ms - self._told_ms >= PLAIN_EVERY_MS:
            self._told_ms = now_ms
            self._write(describe(moment, now_ms - self._started_ms, unit=self._unit))


class BarProgress:
    """A bar with tasks, rows per second and the time to the end."""

    def __init__(self, progress: Progress, clock: Clock, *, unit: str = "tasks") -> None:
        self._progress = progress
        self._unit = unit
        self._clock = clock
        self._phase: str | None = None
        self._task: TaskID | None = None
        self._started_ms = 0

    def open(self, text: str) -> None:
        """Show what goes on until there is progress."""
        if self._task is None:
            self._task = self._progress.add_task(text, total=None, detail="")

    def __call__(self, moment: JobProgress) -> None:
        """Draw the moment."""
        now_ms = self._clock.now_ms()
        if moment.phase != self._phase or self._task is None:
            if self._task is not None:
                self._progress.remove_task(self._task)
            self._phase, self._started_ms = moment.phase, now_ms
            self._task = self._progress.add_task(
                moment.phase, total=max(moment.total, 1), detail=""
            )
        self._progress.update(
            self._task,
            completed=moment.done,
            total=max(moment.total, 1),
            detail=f"{_done(moment, self._unit)}  {_detail(moment, now_ms - self._started_ms)}",
        )


@contextmanager
def job_progress(
    session: Session, *, unit: str = "tasks"
) -> Iterator[Callable[[JobProgress], None]]:
    """Yield the listener to which a data job reports its progress; that Spark starts is shown beside it.

    Args:
        unit: Name of the things that are counted.
    """
    output = session.output
    with _listening(session, unit) as listener:
        first = _First(session.clock, listener)
        output.on_notice = first.notice
        try:
            yield first
        finally:
            output.on_notice = output.note
    if first.is_noticed and first.waited_ms >= SLOW_START_MS:
        _name_prepare(session, first.waited_ms)


class _First:
    """Tells a listener, and notes how long it was until there was something to tell.

    Attributes:
        is_noticed: Whether Spark took long to start.
        waited_ms: 0 before that.
    """

    def __init__(self, clock: Clock, listener: PlainProgress | BarProgress) -> None:
        self.is_noticed = False
        self.waited_ms = 0
        self._listener = listener
        self._clock = clock
        self._started_ms: int | None = clock.now_ms()

    def notice(self, text: str) -> None:
        """Tell what takes long."""
        self.is_noticed = True
        self._listener.open(text)

    def __call__(self, moment: JobProgress) -> None:
        """Tell of the moment."""
        if self._started_ms is not None:
            self.waited_ms, self._started_ms = self._clock.now_ms() - self._started_ms, None
        self._listener(moment)


def _name_prepare(session: Session, waited_ms: int) -> None:
    """Say once on this machine, for its Java and PySpark, how Spark starts faster."""
    from carnac.spark.class_archive import archive_path
    from carnac.spark.java import find_java
    from carnac.spark.session import local_master

    settings = session.settings
    if settings.spark_remote or local_master(settings.spark_master) is None:
        return
    with suppress(CarnacError, OSError):
        archive = archive_path(find_java(os.environ), os.environ)
        told = archive.with_suffix(".told")
        if archive.is_file() or told.exists():
            return
        told.parent.mkdir(parents=True, exist_ok=True)
        told.touch()
        session.output.note(
            f"it took {format_seconds(waited_ms / 1000)} until Spark was at work; carnac prepare, once, makes that"
            " shorter on this machine"
        )


@contextmanager
def _listening(session: Session, unit: str) -> Iterator[PlainProgress | BarProgress]:
    if not sys.stderr.isatty():
        yield PlainProgress(session.output.note, session.clock, unit=unit)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    console = Console(stderr=True)
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=28),
        TextColumn("{task.fields[detail]}"),
        console=console,
        transient=True,
    ) as progress:
        yield BarProgress(progress, session.clock, unit=unit)


@contextmanager
def phase_progress(session: Session, *, unit: str) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a listener of (phase, done, total); the time to the end of a phase goes by its pace so far."""
    with job_progress(session, unit=unit) as on_progress:
        phase, started_ms = "", 0

        def tell(what: str, done: int, total: int) -> None:
            nonlocal phase, started_ms
            now_ms = session.clock.now_ms()
            if what != phase:
                phase, started_ms = what, now_ms
            eta_ms = (now_ms - started_ms) * (total - done) // done if done > 1 else None
            on_progress(JobProgress(phase=what, done=done, total=total, eta_ms=eta_ms))

        yield tell


def describe(moment: JobProgress, elapsed_ms: int, *, unit: str = "tasks") -> str:
    """Return a line such as `write segments: 12/30 tasks, 120,000 rows, 60,000 rows/s, 1.2 s left`."""
    detail = _detail(moment, elapsed_ms)
    text = f"{moment.phase}: {_done(moment, unit)}"
    if not detail and elapsed_ms:
        detail = f"{format_seconds(elapsed_ms / 1000)} so far"
    return f"{text}, {detail}" if detail else text


def _done(moment: JobProgress, unit: str) -> str:
    return f"{number_text(moment.done)}/{number_text(moment.total)} {unit}"


def _detail(moment: JobProgress, elapsed_ms: int) -> str:
    parts = []
    if moment.rows:
        parts.append(counted(moment.rows, "row"))
        if elapsed_ms >= 100:
            parts.append(f"{number_text(moment.rows * 1000 // elapsed_ms)} rows/s")
    if moment.eta_ms is not None and moment.done < moment.total:
        parts.append(f"{format_seconds(moment.eta_ms / 1000)} left")
    return ", ".join(parts)
