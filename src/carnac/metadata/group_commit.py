"""One transaction for many threads: commits that come while another is being made share the next one.

A waiting thread never starves: jobs run in the order in which they came, and the thread whose job is the oldest makes
the next transaction for itself and up to `GROUP_LIMIT - 1` that came after it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from carnac.metadata.session import Session

if TYPE_CHECKING:
    from carnac.metadata.append_requests import Append, Since

T = TypeVar("T")

GROUP_LIMIT = 32
"""Jobs in one transaction; bounds how long those wait that are not in it."""


class Job:
    """Something to do inside a write transaction.

    Attributes:
        work: May raise a CarnacError before its first write; that fails this job and no other.
        append: What `work` publishes, if another process may do so; else None.
        is_durable: Whether what it writes must survive a power cut.
        since: Another process may have done so since then; None: it cannot have.
        error: What the caller gets raised; None if `result` holds what `work` returned.
    """

    __slots__ = ("append", "error", "is_durable", "leads", "result", "since", "wake", "work")

    def __init__(
        self,
        work: Callable[[Session], Any],
        append: Append | None = None,
        *,
        is_durable: bool = True,
    ) -> None:
        self.work = work
        self.append = append
        self.is_durable = is_durable
        self.since: Since | None = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.leads = False
        self.wake = threading.Lock()


class CommitQueue:
    """First in, first out, across the threads of a process.

    Args:
        run_group: Runs the jobs in one transaction and sets `result` or `error` of each; never raises.
    """

    def __init__(self, run_group: Callable[[Sequence[Job]], None]) -> None:
        self._run_group = run_group
        self._mutex = threading.Lock()
        self._waiting: deque[Job] = deque()
        self._is_busy = False

    def submit(
        self,
        work: Callable[[Session], T],
        append: Append | None = None,
        *,
        is_durable: bool = True,
    ) -> T:
        """Run `work` in a transaction, return what it returns or raise what it raises, after the commit.

        Args:
            append: What `work` publishes, if it does no more than that and another process may do it.
            is_durable: Whether what it writes must survive a power cut; else nobody need wait for the disk.
        """
        job = Job(work, append, is_durable=is_durable)
        with self._mutex:
            job.leads = not self._is_busy
            self._is_busy = True
            self._waiting.append(job)
            if not job.leads:
                job.wake.acquire()
        if not job.leads:
            try:
                job.wake.acquire()  # released by the thread that did the job, or makes this one lead
            except BaseException:  # Ctrl-C, which only the main thread gets
                self._abandon(job)
                raise
        if job.leads:
            self._lead(job)
        if job.error is not None:
            raise job.error
        return cast("T", job.result)

    def _lead(self, own: Job) -> None:
        with self._mutex:
            group = [self._waiting.popleft() for _ in range(min(GROUP_LIMIT, len(self._waiting)))]
        try:
            self._run_group(group)
        finally:
            for job in group:
                if job is not own:
                    job.wake.release()
            with self._mutex:
                self._hand_over()

    def _abandon(self, job: Job) -> None:
        """Take a job back that nobody waits for any more; if it is being done already, let it."""
        with self._mutex:
            if job in self._waiting:
                self._waiting.remove(job)
            if job.leads:
                self._hand_over()

    def _hand_over(self) -> None:
        """Let the oldest waiting job lead, if there is one."""
        self._is_busy = bool(self._waiting)
        if self._waiting:
            self._waiting[0].leads = True
            self._waiting[0].wake.release()
