"""One attempt at a task, from its claim to its end: the one entry point for all runners.

Any process can run it, since all it needs is in the metadata store. It claims the attempt, gives signs of life from a
thread of its own, gets locks as its work asks for them, publishes under their fences, and says how it ended. If it dies
at any point, its lease ends, and the leading overlord has its task tried again. Work that it published before is not
done again, since a task publishes under its own name.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

from carnac.core.locks.choice import parse_lock_context
from carnac.core.locks.model import describe_end
from carnac.core.tasks.events import BeatAttempt, ClaimAttempt, Current, FinishAttempt, Stale
from carnac.core.tasks.model import Attempt
from carnac.core.time.leases import is_over
from carnac.errors import CarnacError, Revoked, Unavailable
from carnac.overlord.guard import TaskGuard
from carnac.overlord.keeper import LockKeeper
from carnac.overlord.lockbox import Lockbox
from carnac.ports import Clock, JobProgress, TaskJobs
from carnac.ports.loops import Loop, Wait

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore

BEATS_IN_LEASE = 4
PROGRESS_MS = 1_000
"""How soon news of progress are written down."""
FINISH_TRIES_MAX = 60
FINISH_PAUSE_MS = 1_000
"""How long an attempt tries to say how it ended when the database does not answer."""

_log = logging.getLogger(__name__)


def run_attempt(
    metadata: MetadataStore,
    lockbox: Lockbox,
    jobs: TaskJobs,
    clock: Clock,
    *,
    holder: str,
    task_id: str,
    number: int,
    on_lost: Callable[[], None] = lambda: None,
    wait: Wait | None = None,
) -> Mapping[str, object]:
    """Run an attempt; return its report.

    Args:
        holder: This process, for people.
        on_lost: Called from a thread once the attempt has no right to its task any more: the process should end.
        wait: In place of waiting on the machine's clock, for tests; None: real time.

    Raises:
        Revoked: The attempt is not to be run, or not any more: it was claimed before, cancelled, or given up.
        CarnacError: The attempt failed; the failure is recorded.
    """
    reply = metadata.change_tasks(
        ClaimAttempt(task_id=task_id, number=number, holder=holder, lease_ms=lockbox.lease_ms)
    )
    if not isinstance(reply, Current):
        raise _no_right(task_id, number, reply if isinstance(reply, Stale) else None)
    task, attempt = reply.task, reply.attempt
    _log.info("task %s (%s), attempt %s, by %s", task_id, task.type, number, holder)
    pulse = _Pulse(metadata, clock, attempt, on_lost=on_lost, wait=wait)
    keeper = LockKeeper(
        lockbox,
        attempt.lock_owner,
        on_lost=lambda lock: pulse.lose(f"lock {lock.lock_id} {describe_end(lock)}"),
        wait=wait,
    )
    try:
        with pulse.beating(), keeper.keeping():
            guard = TaskGuard(
                lockbox,
                task,
                attempt,
                parse_lock_context(json.loads(task.context)),
                is_current=pulse.beat,
                on_wait=pulse.waits_for,
            )
            report = jobs.run(task, guard, pulse.progress)
    except BaseException as error:
        _finish(metadata, clock, _failure(attempt, error, jobs.report_so_far()))
        raise
    _finish(
        metadata,
        clock,
        FinishAttempt(task_id=task_id, number=number, report=json.dumps(report, default=str)),
    )
    _log.info("task %s succeeded", task_id)
    return report


def _failure(
    attempt: Attempt, error: BaseException, report: Mapping[str, object] | None
) -> FinishAttempt:
    """Return how an attempt says that it did not succeed, what stays of it, and whether another one may."""
    if isinstance(error, CarnacError):
        text, is_retryable = error.message, error.retryable or isinstance(error, Revoked)
    elif isinstance(error, Exception):
        text, is_retryable = f"a bug: {type(error).__name__}: {error}", False
    else:
        text, is_retryable = "its process was told to stop", True
    return FinishAttempt(
        task_id=attempt.task_id,
        number=attempt.number,
        error=text,
        is_retryable=is_retryable,
        report=None if report is None else json.dumps(report, default=str),
    )


def _finish(metadata: MetadataStore, clock: Clock, event: FinishAttempt) -> None:
    """Write down how the attempt ended; an end that cannot be written down shows when the lease is over."""
    for attempt in range(1, FINISH_TRIES_MAX + 1):
        try:
            reply = metadata.change_tasks(event)
        except Unavailable as error:
            if attempt == FINISH_TRIES_MAX:
                _log.warning("task %s: %s", event.task_id, error.message)
                return
            clock.sleep_ms(FINISH_PAUSE_MS)
        else:
            if isinstance(reply, Stale):
                _log.warning("task %s: attempt %s ended too late", event.task_id, event.number)
            return


def _no_right(task_id: str, number: int, reply: Stale | None) -> Revoked:
    state = "not known" if reply is None or reply.attempt is None else str(reply.attempt.state)
    return Revoked(
        f"attempt {number} of task {task_id} is {state}; it is not to be run",
        task_id=task_id,
        attempt=number,
    )


class _Pulse:
    """Signs of life of an attempt, and news of its progress, from one daemon thread."""

    def __init__(
        self,
        metadata: MetadataStore,
        clock: Clock,
        attempt: Attempt,
        *,
        on_lost: Callable[[], None],
        wait: Wait | None,
    ) -> None:
        self._metadata = metadata
        self._clock = clock
        self._attempt = attempt
        self._on_lost = on_lost
        self._loop = Loop(
            "attempt",
            self._beat_if_due,
            log=_log,
            period_ms=min(PROGRESS_MS, attempt.lease_ms // BEATS_IN_LEASE),
            wait=wait,
        )
        self._is_over = False
        self._mutex = threading.Lock()
        self._news: dict[str, object] | None = None
        self._last: dict[str, object] = {"phase": "works"}
        self._beat_at_ms = attempt.heartbeat_at_ms
        self._is_lost = False

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Beat until the block ends."""
        self._loop.start()
        try:
            yield
        finally:
            self._is_over = True
            self._loop.stop()
            with suppress(CarnacError):
                self._send(self._take_news())

    def _beat_if_due(self) -> None:
        """Beat several times in a lease, and sooner when there are news."""
        news = self._take_news()
        period_ms = self._attempt.lease_ms // BEATS_IN_LEASE
        if news is not None or is_over(self._beat_at_ms, period_ms, self._clock.now_ms()):
            self._send(news)

    def beat(self) -> bool:
        """Give a sign of life now; whether the attempt has its right to the task still."""
        return not self._is_lost and self._send(self._take_news())

    def progress(self, progress: JobProgress) -> None:
        """Take note of how far the job is. One that has lost its right ends here, where it tells of itself.

        Raises:
            Revoked: The attempt was cancelled or given up.
        """
        if self._is_lost:
            raise Revoked(
                f"attempt {self._attempt.number} of task {self._attempt.task_id} was cancelled or given up; stop",
                task_id=self._attempt.task_id,
                attempt=self._attempt.number,
            )
        self._last = {key: value for key, value in asdict(progress).items() if value is not None}
        self._tell(self._last)

    def waits_for(self, places: str | None) -> None:
        """Take note that it waits for locks; None: not any more."""
        self._tell(self._last if places is None else {"phase": f"waits for locks on {places}"})

    def lose(self, why: str) -> None:
        """Take note that the attempt must end, and see to it. From any thread."""
        with self._mutex:
            if self._is_lost or self._is_over:
                return
            self._is_lost = True
        _log.warning("attempt %s of task %s: %s", self._attempt.number, self._attempt.task_id, why)
        self._on_lost()

    def _tell(self, news: dict[str, object]) -> None:
        with self._mutex:
            self._news = news

    def _take_news(self) -> str | None:
        with self._mutex:
            news, self._news = self._news, None
        return None if news is None else json.dumps(news)

    def _send(self, news: str | None) -> bool:
        now_ms = self._clock.now_ms()
        reply = self._metadata.change_tasks(
            BeatAttempt(task_id=self._attempt.task_id, number=self._attempt.number, progress=news)
        )
        if isinstance(reply, Current):
            self._beat_at_ms = now_ms
            return True
        state = reply.attempt.state if isinstance(reply, Stale) and reply.attempt else "not known"
        self.lose(f"it is {state}")
        return False
