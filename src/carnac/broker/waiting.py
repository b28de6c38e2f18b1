"""The queue of a broker: threads wait in it for their turn, which `core.answers.admission` decides."""

from __future__ import annotations

import threading

from carnac.core.answers.admission import (
    Limits,
    Queue,
    Request,
    apply_arrival,
    apply_departure,
    check_request,
    estimate_retry_s,
)
from carnac.errors import Busy, Cancelled, TimedOut

FIRST_MEAN_MS = 1_000.0
"""How long a query takes, for all that a broker knows which has not run one yet."""
_NEWEST_PART = 0.1
"""The weight of the newest query in the mean."""


class QueryQueue:
    """Lets so many queries run at once. Safe for threads."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._queue = Queue()
        self._turns: dict[str, threading.Event] = {}
        self._gone: set[str] = set()
        self._mean_ms = FIRST_MEAN_MS

    @property
    def running(self) -> int:
        """How many run."""
        return len(self._queue.running)

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._queue.waiting)

    def enter(self, request: Request, *, timeout_ms: int) -> None:
        """Wait until the query may run; a query that enters leaves, but not if it raises.

        Args:
            timeout_ms: How long to wait; 0: no limit.

        Raises:
            Invalid: There is no such lane.
            Busy: The queue is full.
            TimedOut: Its turn did not come in time.
            Cancelled: `cancel` was called meanwhile.
        """
        check_request(request, self._limits)
        turn = threading.Event()
        with self._lock:
            queue = apply_arrival(self._queue, request, self._limits)
            if queue is None:
                retry_s = estimate_retry_s(self._queue, self._limits, self._mean_ms)
                raise Busy(
                    f"{len(self._queue.running)} queries run and {len(self._queue.waiting)} wait already; "
                    f"ask again in {retry_s} s",
                    retry_after_s=retry_s,
                )
            self._turns[request.query_id] = turn
            self._take(queue)
        try:
            has_come = turn.wait(timeout_ms / 1000 if timeout_ms else None)
        except BaseException:
            self.leave(request.query_id)
            raise
        with self._lock:
            is_gone = request.query_id in self._gone
        if has_come and not is_gone:
            return
        self.leave(request.query_id)
        if is_gone:
            raise Cancelled(f"query '{request.query_id}' was cancelled while it waited")
        raise TimedOut(
            f"query '{request.query_id}' waited for {timeout_ms} ms and its turn has not come; "
            "ask again, or raise its timeout or query_slots"
        )

    def leave(self, query_id: str, *, ran_ms: int | None = None) -> None:
        """Make room. Idempotent.

        Args:
            ran_ms: How long it ran; None: it did not.
        """
        with self._lock:
            if self._turns.pop(query_id, None) is None:
                return
            self._gone.discard(query_id)
            if ran_ms is not None:
                self._mean_ms += (ran_ms - self._mean_ms) * _NEWEST_PART
            self._take(apply_departure(self._queue, query_id, self._limits))

    def cancel(self, query_id: str) -> None:
        """Let a query that waits give up; nothing happens to one that runs or is not there."""
        with self._lock:
            turn = self._turns.get(query_id)
            if turn is not None and not turn.is_set():
                self._gone.add(query_id)
                turn.set()

    def _take(self, queue: Queue) -> None:
        self._queue = queue
        for one in queue.running:
            self._turns[one.query_id].set()
