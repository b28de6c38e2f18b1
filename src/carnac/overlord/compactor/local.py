"""Runs tasks of compaction in threads of this process: `carnac compact --auto`, and tests."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TypeAlias

from carnac.core.compaction.plan.groups import CompactionGroup
from carnac.core.compaction.plan.tasks import CompactionTask
from carnac.errors import CarnacError, Unavailable
from carnac.ports import Clock, JobProgress
from carnac.ports.compaction import GroupEnd, LiveRun, RunEnd, RunTerms

_log = logging.getLogger(__name__)

Compact: TypeAlias = Callable[
    [Sequence[CompactionGroup], Callable[[JobProgress], None]], Sequence[GroupEnd]
]


class LocalRunner:
    """Runs tasks side by side in threads.

    Args:
        compact: Rewrites and publishes groups, and reports progress; returns the outcome of each.
        tasks_max: Maximum number of tasks at a time; more wait.
        on_stop: Called when runs are to be cancelled; makes them end soon, even while they wait.
    """

    def __init__(
        self,
        compact: Compact,
        clock: Clock,
        *,
        tasks_max: int,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_stop = on_stop
        self._compact = compact
        self._clock = clock
        self._pool = ThreadPoolExecutor(tasks_max, thread_name_prefix="carnac-compaction")
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._live: dict[str, tuple[LiveRun, Future[Sequence[GroupEnd]]]] = {}
        self._progress: dict[str, JobProgress] = {}
        self._is_stopping = False

    def start(self, task: CompactionTask, terms: RunTerms) -> str:
        """Start a task; return the id of the run. Local runs take no locks: a publish settles which was first."""
        del terms
        run_id = f"local-{next(self._numbers)}"
        run = LiveRun(
            run_id=run_id,
            datasource=task.datasource,
            groups=task.groups,
            started_ms=self._clock.now_ms(),
        )

        def note(progress: JobProgress) -> None:
            if self._is_stopping:  # an error of a listener cancels the run
                raise Unavailable("the compaction was interrupted")
            self._progress[run_id] = progress

        with self._lock:
            self._live[run_id] = (run, self._pool.submit(self._compact, task.groups, note))
        return run_id

    def take_ended(self) -> Sequence[RunEnd]:
        """Return the runs that have ended since the last call, each once."""
        with self._lock:
            done = [run_id for run_id, (_, future) in self._live.items() if future.done()]
            ended = [(run_id, self._live.pop(run_id)[1]) for run_id in done]
            for run_id in done:
                self._progress.pop(run_id, None)
        return [_end_of(run_id, future) for run_id, future in ended]

    def live(self) -> Sequence[LiveRun]:
        """Return the runs that are under way."""
        with self._lock:
            runs = [run for run, _ in self._live.values()]
        return [replace(run, progress=self._progress.get(run.run_id)) for run in runs]

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until a run has ended, if one is under way."""
        with self._lock:
            futures = [future for _, future in self._live.values()]
        if futures:
            wait(futures, timeout=timeout_s, return_when="FIRST_COMPLETED")

    def stop(self) -> None:
        """Have the runs that are under way cancelled; they will publish no more."""
        self._is_stopping = True
        self._on_stop()

    def close(self) -> None:
        """Wait for the runs that are under way; an interruption meanwhile cancels them."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        try:
            self._wait_for_all()
        except KeyboardInterrupt:
            self.stop()
            self._wait_for_all()
            raise

    def _wait_for_all(self) -> None:
        """Wait for the runs and not for their threads: an interrupted join of a thread cannot be repeated."""
        with self._lock:
            futures = [future for _, future in self._live.values()]
        wait([future for future in futures if not future.done()])


def _end_of(run_id: str, future: Future[Sequence[GroupEnd]]) -> RunEnd:
    try:
        groups = tuple(future.result())
        wasted = sum(one.bytes_wasted for one in groups)
        return RunEnd(run_id=run_id, groups=groups, bytes_wasted=wasted)
    except CarnacError as error:
        return RunEnd(run_id=run_id, error=error.message)
    except Exception as error:
        _log.exception("a compaction failed in a way that it should not have")
        words = f"it failed in a way that it should not have: {type(error).__name__}: {error}"
        return RunEnd(run_id=run_id, error=f"{words}; report this as a bug")
