"""A record of every wait and every loss while late rows are appended to chunks that are being compacted."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from carnac.core.locks.events import LockReply, RequestLock, Waits
from carnac.core.locks.model import Lock
from carnac.core.tasks.model import Task
from carnac.errors import Conflict, Revoked
from carnac.overlord import Lockbox
from carnac.ports import Clock, JobProgress, TaskJobs, WriteGuard

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore

End: TypeAlias = Literal["finished", "revoked", "conflicted", "failed"]
COMPACT = "compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One attempt at a task, from its start to its end.

    Attributes:
        waited_ms: Time that it took to get its locks, the requests themselves included.
        is_delayed: Somebody else's lock kept it waiting.
        bytes_written: Bytes of segments that a compaction published.
        bytes_wasted: Bytes of segments that a compaction wrote for nothing.
    """

    task_id: str
    type: str
    datasource: str
    start_ms: int
    end_ms: int
    end: End
    waited_ms: int
    is_delayed: bool
    bytes_written: int
    bytes_wasted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitTimes:
    """How long appends waited for their locks, milliseconds."""

    median: int
    p99: int
    longest: int


def wait_times(waits_ms: Sequence[int]) -> WaitTimes:
    """Return median, 99th percentile (nearest rank) and maximum; zeros if there were none."""
    ordered = sorted(waits_ms) or [0]

    def rank(share: float) -> int:
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

    return WaitTimes(median=rank(0.5), p99=rank(0.99), longest=ordered[-1])


class Watch:
    """Writes down what the tasks of this process do. Safe for threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._mutex = threading.Lock()
        self._episodes: list[Episode] = []
        self._waited_ms: Counter[str] = Counter()
        self._delayed: set[str] = set()

    def episodes(self, datasource: str) -> list[Episode]:
        """Return what has ended, in order of its end."""
        with self._mutex:
            return [one for one in self._episodes if one.datasource == datasource]

    def lockbox(self, metadata: MetadataStore, *, holder: str, lease_ms: int) -> Lockbox:
        """Return a lockbox that is watched."""
        return _WatchedLockbox(self, metadata, self._clock, holder=holder, lease_ms=lease_ms)

    def run(
        self,
        owner: str,
        task: Task,
        job: Callable[[], Mapping[str, object]],
        *,
        so_far: Callable[[], Mapping[str, object] | None],
    ) -> Mapping[str, object]:
        """Do what an attempt does, and write down what came of it.

        Args:
            owner: Under which name the attempt holds locks.
            so_far: Tells which groups of a compaction have ended, when the job is over.
        """
        start_ms, end = self._clock.now_ms(), "failed"
        try:
            report = job()
            end = "finished"
        except Revoked:
            end = "revoked"
            raise
        except Conflict:
            end = "conflicted"
            raise
        else:
            return report
        finally:
            self._note(owner, task, start_ms, end, so_far() or {})  # type: ignore[arg-type]  # one of the four

    def note_wait(self, owner: str, waited_ms: int) -> None:
        """Take note of how long it took until a lock was granted or refused."""
        with self._mutex:
            self._waited_ms[owner] += waited_ms

    def note_delay(self, owner: str) -> None:
        """Take note that somebody else's lock was in the way."""
        with self._mutex:
            self._delayed.add(owner)

    def _note(
        self, owner: str, task: Task, start_ms: int, end: End, report: Mapping[str, Any]
    ) -> None:
        with self._mutex:
            self._episodes.append(
                Episode(
                    task_id=task.task_id,
                    type=task.type,
                    datasource=task.datasource,
                    start_ms=start_ms,
                    end_ms=self._clock.now_ms(),
                    end=end,
                    waited_ms=self._waited_ms[owner],
                    is_delayed=owner in self._delayed,
                    bytes_written=report.get("sizeBytes", 0),
                    bytes_wasted=report.get("bytesWasted", 0),
                )
            )


class WatchedJobs:
    """The work of one attempt, watched (`TaskJobs`)."""

    def __init__(self, jobs: TaskJobs, watch: Watch, owner: str) -> None:
        self._jobs = jobs
        self._watch = watch
        self._owner = owner

    def run(
        self, task: Task, guard: WriteGuard, on_progress: Callable[[JobProgress], None]
    ) -> Mapping[str, object]:
        """Do what the task says; return the report."""
        return self._watch.run(
            self._owner,
            task,
            lambda: self._jobs.run(task, guard, on_progress),
            so_far=self._jobs.report_so_far,
        )

    def report_so_far(self) -> Mapping[str, object] | None:
        """Return what is done of a run that did not come to its end."""
        return self._jobs.report_so_far()


class _WatchedLockbox(Lockbox):
    """A lockbox that tells how long was waited, and whether for somebody."""

    def __init__(
        self, watch: Watch, metadata: MetadataStore, clock: Clock, *, holder: str, lease_ms: int
    ) -> None:
        super().__init__(metadata, clock, holder=holder, lease_ms=lease_ms)
        self._watch = watch
        self._watch_clock = clock

    def request(self, request: RequestLock) -> LockReply:
        reply = super().request(request)
        if isinstance(reply, Waits):
            self._watch.note_delay(request.task_id)
        return reply

    def acquire(self, request: RequestLock) -> Lock:
        asked_ms = self._watch_clock.now_ms()
        try:
            return super().acquire(request)
        finally:
            self._watch.note_wait(request.task_id, self._watch_clock.now_ms() - asked_ms)
