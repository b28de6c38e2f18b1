"""The loop of the leading overlord gives up dead attempts, stops cancelled ones and starts the next ones.

It keeps nothing that is not in the metadata store, so it can be killed at any point; another one, or the same one
started again, goes on where it was. Two of them do no harm: only the leading one gives orders, each order carries the
fence of its leadership, and an attempt is claimed once, even if both started it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from carnac.core.tasks.events import (
    Changed,
    Deposed,
    Dispatched,
    DispatchTasks,
    ExpireAttempts,
    FinishAttempt,
    LoseAttempt,
    RecordHandle,
    Stale,
    VouchAttempt,
)
from carnac.core.tasks.leadership import Candidacy, Leadership
from carnac.core.tasks.machine import OVERLORD
from carnac.core.tasks.model import Attempt, AttemptState, Task, is_lost
from carnac.core.time.leases import is_over
from carnac.errors import CarnacError, Unavailable
from carnac.overlord.clearing import Clearing
from carnac.ports import Clock, TaskRunner
from carnac.ports.loops import (
    LEAVING_S,
    STALE_PERIODS,
    Loop,
    Wait,
    is_bug,
    log_failure,
    reason_of,
)

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore

VOUCHES_IN_LEASE = 4
LEAVING_MS = 60_000
"""How long a process may live on after it has said how its attempt ended: its Spark stops, its connections close."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """How an overlord works.

    Attributes:
        runner: Name of the runner that starts attempts.
        capacity: Number of slots in all.
        lease_ms: Time that leadership outlives its last sign of life.
        start_lease_ms: Time that a process may take from its start to its first sign of life.
        period_ms: Pause between rounds.
        upkeep_period_ms: Pause between rounds of upkeep.
        url: URL of this overlord's HTTP interface; empty if it has none.
    """

    runner: str
    capacity: int
    lease_ms: int
    start_lease_ms: int
    period_ms: int
    upkeep_period_ms: int
    url: str = ""


class OverlordLoop:
    """One overlord.

    Args:
        leader_id: Random id, new with each start.
        holder: Name of this process, for people.
        runners: Runners by name; attempts of other runners are judged by their leases alone.
        clear_up: Removes leftovers of an attempt that was cancelled or given up and whose process is gone. None:
            nothing.
        upkeep: Other work of the leader, now and then, in a thread of its own: trimming, garbage collection. It may be
            broken off anywhere, and is given what says whether it is to end.
        wait: In place of waiting on the machine's clock, for tests; None: real time.
    """

    def __init__(
        self,
        metadata: MetadataStore,
        clock: Clock,
        *,
        leader_id: str,
        holder: str,
        runners: Mapping[str, TaskRunner],
        settings: LoopSettings,
        clear_up: Callable[[Attempt], None] | None = None,
        upkeep: Callable[[Callable[[], bool]], None] = lambda _: None,
        wait: Wait | None = None,
    ) -> None:
        self._metadata = metadata
        self._clock = clock
        self._holder = holder
        self._runners = runners
        self._settings = settings
        self._at_work: set[tuple[str, int]] = set()
        self._leaving: list[tuple[Attempt, int]] = []
        self._clearing = Clearing(metadata, clear_up, clock, period_ms=settings.period_ms)
        self._upkeep = upkeep
        self._asked_at_ms = 0
        self._kept_up_at_ms: int | None = None
        self._led: Leadership | None = None
        self._loop = Loop(
            "overlord",
            self._run_round,
            log=_log,
            period_ms=settings.period_ms,
            clock=clock,
            is_eager=True,
            wait=wait,
            on_end=self._resign,
        )
        self._upkeep_loop = Loop(
            "upkeep",
            self._keep_up,
            log=_log,
            period_ms=settings.period_ms,
            clock=clock,
            stale_ms=STALE_PERIODS * settings.upkeep_period_ms,
        )
        self.loops = (self._loop, self._clearing.loop, self._upkeep_loop)
        self.leader_id = leader_id

    @property
    def capacity(self) -> int:
        """Slots in all, while it leads."""
        return self._settings.capacity

    @property
    def is_leader(self) -> bool:
        """Whether it leads now, as far as it knows."""
        return self.fence is not None

    @property
    def fence(self) -> int | None:
        """The fence of its leadership; None: another one leads, or its own lease is over."""
        led = self._led
        if led is None or is_over(self._asked_at_ms, self._settings.lease_ms, self._clock.now_ms()):
            return None
        return led.fence

    def run(self) -> None:
        """Go round until `stop`, then resign. A round that fails is followed by the next one."""
        self._upkeep_loop.start()
        self._loop.run()

    def start(self) -> None:
        """Run in a thread of its own, until `stop`."""
        self._upkeep_loop.start()
        self._loop.start()

    def stop(self) -> None:
        """Let `run` end after its round. From any thread. Attempts that can outlive this process go on."""
        self._loop.stop()

    def close(self) -> None:
        """Stop, and release connections. Idempotent."""
        self.stop()
        self._upkeep_loop.stop(wait_s=LEAVING_S)
        self._clearing.close()
        self._metadata.close()

    def _run_round(self) -> None:
        try:
            self.run_round()
        except CarnacError as error:
            self._stop_who_blocks(error)
            raise

    def run_round(self) -> tuple[str, ...]:
        """Do what there is to do now; return the ids of the tasks started.

        Raises:
            CarnacError: The database does not answer; the next round goes on where this one was.
        """
        asked_at_ms = self._clock.now_ms()
        ahead = self._metadata.ahead() if self._led is None else {}
        leader = self._metadata.lead(
            Candidacy(
                role=OVERLORD,
                leader_id=self.leader_id,
                holder=self._holder,
                url=self._settings.url,
                lease_ms=self._settings.lease_ms,
            )
        )
        if leader.leader_id != self.leader_id:
            self._led = None
            return ()
        if self._led is None or self._led.fence != leader.fence:
            _log.info("%s leads now, fence %s", self._holder, leader.fence)
            for holder, ms in ahead.items():
                _log.warning(
                    "%s gave its last sign of life %s s after now: its clock is ahead, or that of this machine behind",
                    holder,
                    ms // 1000,
                )
        self._asked_at_ms, self._led = asked_at_ms, leader
        self._give_up_the_dead()
        self._each(self._stop_if_unwanted, "stopping")
        self._tell_of_ends()
        self._see_out()
        return self._start_the_next(leader)

    def _tell_of_ends(self) -> None:
        """Log how each attempt ended that was at work in the round before: it says so to the database alone."""
        at_work = {
            (attempt.task_id, attempt.number)
            for attempt in self._metadata.live_attempts()
            if not attempt.state.is_over
        }
        for task_id, number in sorted(self._at_work - at_work):
            ended = next(
                (one for one in self._metadata.attempts(task_id) if one.number == number), None
            )
            if ended is not None:
                how = ended.state if ended.error is None else f"{ended.state}: {ended.error}"
                _log.info("task %s, attempt %s, ended: %s", task_id, number, how)
                self._leaving.append((ended, self._clock.now_ms()))
        self._at_work = at_work

    def _see_out(self) -> None:
        """Ask for the processes of attempts that have ended until they are gone, so that none stays as a zombie."""
        leaving, self._leaving = self._leaving, []
        for attempt, since_ms in leaving:
            try:
                if self._is_leaving(attempt, since_ms):
                    self._leaving.append((attempt, since_ms))
            except Exception as error:
                log_failure(_log, f"seeing out {attempt.lock_owner!r}", error)

    def _is_leaving(self, attempt: Attempt, since_ms: int) -> bool:
        """Say whether the process of an attempt that has ended is still there, and stop it if that is for too long."""
        runner = self._runners.get(attempt.runner)
        if attempt.handle is None or runner is None or not runner.is_alive(attempt.handle):
            return False
        if is_over(since_ms, LEAVING_MS, self._clock.now_ms()):
            _log.warning("the process of %s does not end, and is stopped", attempt.lock_owner)
            runner.stop(attempt.handle)
        return True

    def _each(self, handle: Callable[[Attempt], None], doing: str) -> None:
        """Handle every live attempt; an error of one does not keep the others from it.

        Raises:
            Unavailable: The database does not answer, for this attempt as for the others.
        """
        for attempt in self._metadata.live_attempts():
            try:
                handle(attempt)
            except Unavailable:
                raise
            except Exception as error:
                log_failure(_log, f"{doing} {attempt.lock_owner!r}", error)

    def _give_up_the_dead(self) -> None:
        """End attempts whose process is known to be gone, then those whose lease is over, of which less is known."""
        self._each(self._vouch_if_starting, "vouching for")
        self._each(self._lose_if_gone, "looking at")
        lost = cast("Changed", self._metadata.change_tasks(ExpireAttempts()))
        for task in lost.tasks:
            _log.warning("task %s is %s: %s", task.task_id, task.state, task.error)

    def _lose_if_gone(self, attempt: Attempt) -> None:
        runner = self._runners.get(attempt.runner)
        if attempt.state.is_over or attempt.handle is None or runner is None:
            return
        if runner.is_alive(attempt.handle) is False:
            self._lose(attempt)

    def _vouch_if_starting(self, attempt: Attempt) -> None:
        """Keep an attempt whose process is there, and has not come to say so."""
        runner = self._runners.get(attempt.runner)
        if attempt.state is not AttemptState.STARTING or attempt.handle is None:
            return
        part_ms = attempt.lease_ms // VOUCHES_IN_LEASE
        is_soon = is_over(attempt.heartbeat_at_ms, part_ms, self._clock.now_ms())
        if is_soon and runner is not None and runner.is_alive(attempt.handle):
            self._metadata.change_tasks(
                VouchAttempt(task_id=attempt.task_id, number=attempt.number)
            )

    def _lose(self, attempt: Attempt) -> None:
        reply = self._metadata.change_tasks(
            LoseAttempt(
                task_id=attempt.task_id,
                number=attempt.number,
                error=f"the process of attempt {attempt.number} ended without a word; "
                "carnac task log says what it wrote",
            )
        )
        if not isinstance(reply, Stale):  # else it has said how it ended, just now
            _log.warning("the process of %s ended without a word", attempt.lock_owner)

    def _stop_if_unwanted(self, attempt: Attempt) -> None:
        """Stop the process of an attempt that was cancelled or given up, and is not known to be gone."""
        if not attempt.state.is_over:
            return
        runner = self._runners.get(attempt.runner)
        if attempt.handle is not None and runner is not None:
            if runner.is_alive(attempt.handle):
                runner.stop(attempt.handle)
                return  # it counts as stopped once it is seen to be gone
            if runner.is_alive(attempt.handle) is None:
                runner.stop(attempt.handle)
        self._clearing.settle(attempt)

    def _start_the_next(self, leader: Leadership) -> tuple[str, ...]:
        reply = self._metadata.change_tasks(
            DispatchTasks(
                fence=leader.fence,
                capacity=self._settings.capacity,
                lease_ms=self._settings.start_lease_ms,
                runner=self._settings.runner,
            )
        )
        if isinstance(reply, Deposed):
            self._led = None
            return ()
        started = cast("Dispatched", reply).started
        for task, attempt in started:
            self._start(task, attempt)
        return tuple(task.task_id for task, _ in started)

    def _start(self, task: Task, attempt: Attempt) -> None:
        """Start one; if we die before its handle is recorded, it is judged by its lease."""
        try:
            handle = self._runners[attempt.runner].start(task, attempt)
        except Exception as error:
            if is_bug(error):
                log_failure(_log, f"the start of {attempt.lock_owner!r}", error)
            self._metadata.change_tasks(
                FinishAttempt(
                    task_id=task.task_id,
                    number=attempt.number,
                    error=reason_of(error),
                    is_retryable=not is_bug(error) and getattr(error, "retryable", True),
                )
            )
            return
        _log.info("task %s, attempt %s, started as %s", task.task_id, attempt.number, handle)
        self._at_work.add((task.task_id, attempt.number))
        self._metadata.change_tasks(
            RecordHandle(task_id=task.task_id, number=attempt.number, handle=handle)
        )

    def _stop_who_blocks(self, error: CarnacError) -> None:
        """Stop the attempt that kept everybody from writing for longer than its lease.

        That is one that was stopped (SIGSTOP) or hangs inside a transaction. Reading goes on meanwhile.
        """
        writer = error.ids.get("writer")
        if writer is None:
            return
        now_ms = self._clock.now_ms()
        for attempt in self._metadata.live_attempts():
            handle, runner = attempt.handle, self._runners.get(attempt.runner)
            is_it = handle is not None and handle.startswith(f"{writer}/")
            if is_it and runner is not None and is_lost(attempt, now_ms):
                _log.warning("%s keeps everybody from writing, and is stopped", attempt.lock_owner)
                runner.stop(cast("str", handle))

    def _keep_up(self) -> None:
        """Do upkeep if it is due, beside the rounds: it may take longer than a lease."""
        now_ms, last_ms = self._clock.now_ms(), self._kept_up_at_ms
        is_due = last_ms is None or is_over(last_ms, self._settings.upkeep_period_ms, now_ms)
        if self.is_leader and is_due:
            self._kept_up_at_ms = now_ms
            self._upkeep(self._upkeep_loop.is_stopping)

    def _resign(self) -> None:
        self._led = None
        try:
            self._metadata.resign(OVERLORD, self.leader_id)
        except CarnacError as error:
            _log.warning("could not resign, the lease ends by itself: %s", error.message)
