"""Admission of queries: they run in so many slots, the higher priority first, and clients take turns.

Among waiting queries of one priority that the limits let run, the next one is of the client that has waited longest
for its turn. Of one client, and of clients that have waited equally long, the query that came first is next. A new
client stands behind those that wait already. So within its priority, each other client that was there before a query
overtakes it at most once, however many queries the client sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from carnac.errors import Invalid

RETRY_AFTER_MAX_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much runs and waits.

    Attributes:
        slots: Queries that run at once, ≥ 1.
        queue_max: Queries that wait at once, ≥ 0.
        lanes: How many slots the queries of each lane may take, by name of the lane.
    """

    slots: int
    queue_max: int
    lanes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A query that wants to run.

    Attributes:
        query_id: Unique among those that run or wait.
        client: The client that asks; clients take turns.
        priority: The higher ones are first.
        lane: None: none.
    """

    query_id: str
    client: str
    priority: int
    lane: str | None


@dataclass(frozen=True, slots=True)
class Queue:
    """The running and the waiting queries.

    Attributes:
        waiting: In order of arrival.
        turns: Of each client that runs or waits: when it had its last turn; one that came later counts as served then.
        turn: How many turns there have been.
    """

    running: tuple[Request, ...] = ()
    waiting: tuple[Request, ...] = ()
    turns: Mapping[str, int] = field(default_factory=dict)
    turn: int = 0


def check_request(request: Request, limits: Limits) -> None:
    """Refuse a query of a lane that is not there.

    Raises:
        Invalid: There is no such lane.
    """
    if request.lane is not None and request.lane not in limits.lanes:
        known = ", ".join(sorted(limits.lanes)) or "none"
        raise Invalid(
            f"there is no lane '{request.lane}' (there are: {known}); set query_lanes, or leave the lane out",
            lane=request.lane,
        )


def apply_arrival(queue: Queue, request: Request, limits: Limits) -> Queue | None:
    """Return the queue with one more query, which may run at once; None: it has to go, the queue is full."""
    if len(queue.waiting) >= limits.queue_max and not _may_run(queue, request, limits):
        return None
    turns = {**queue.turns, request.client: queue.turns.get(request.client, queue.turn)}
    return apply_starts(
        replace(queue, waiting=(*queue.waiting, request), turns=turns),
        limits,
    )


def apply_departure(queue: Queue, query_id: str, limits: Limits) -> Queue:
    """Return the queue without a query, whether it ran or waited; others may run in its stead. Idempotent."""
    running = tuple(one for one in queue.running if one.query_id != query_id)
    waiting = tuple(one for one in queue.waiting if one.query_id != query_id)
    there = {one.client for one in (*running, *waiting)}
    turns = {client: turn for client, turn in queue.turns.items() if client in there}
    return apply_starts(replace(queue, running=running, waiting=waiting, turns=turns), limits)


def apply_starts(queue: Queue, limits: Limits) -> Queue:
    """Return the queue once all have started that may."""
    while True:
        able = [one for one in queue.waiting if _may_run(queue, one, limits)]
        if not able:
            return queue
        # `min` takes the first of equals, and those that wait are in order of arrival
        chosen = min(able, key=lambda one: (-one.priority, queue.turns[one.client]))
        turn = queue.turn + 1
        queue = Queue(
            running=(*queue.running, chosen),
            waiting=tuple(one for one in queue.waiting if one is not chosen),
            turns={**queue.turns, chosen.client: turn},
            turn=turn,
        )


def estimate_retry_s(queue: Queue, limits: Limits, mean_ms: float) -> int:
    """Return in how many seconds a place in the queue is likely, 1 to `RETRY_AFTER_MAX_S`.

    Args:
        mean_ms: How long queries ran of late.
    """
    until_free_ms = mean_ms * (len(queue.waiting) + 1) / limits.slots
    return max(1, min(RETRY_AFTER_MAX_S, -int(-until_free_ms // 1000)))


def _may_run(queue: Queue, request: Request, limits: Limits) -> bool:
    if len(queue.running) >= limits.slots:
        return False
    if request.lane is None:
        return True
    taken = sum(one.lane == request.lane for one in queue.running)
    return taken < limits.lanes[request.lane]
