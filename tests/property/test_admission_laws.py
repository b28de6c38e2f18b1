"""Admission: limits hold, nobody waits without need, and clients take turns."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from carnac.core.answers.admission import (
    Limits,
    Queue,
    Request,
    apply_arrival,
    apply_departure,
    estimate_retry_s,
)
from tests.support.laws.answers import check_queue

LANES = {"slow": 1, "wide": 2}
CLIENTS = st.sampled_from(["ann", "bob", "eve"])
ARRIVALS = st.tuples(CLIENTS, st.integers(0, 2), st.sampled_from([None, "slow", "wide"]))
STEPS = st.lists(st.one_of(ARRIVALS, st.integers(0, 30)), max_size=60)


def replay(steps: list[tuple[str, int, str | None] | int], limits: Limits) -> list[Queue]:
    """Return the queues after each step: an arrival, or the departure of one of those who are there."""
    queues = [Queue()]
    for number, step in enumerate(steps):
        queue = queues[-1]
        if isinstance(step, tuple):
            client, priority, lane = step
            request = Request(query_id=str(number), client=client, priority=priority, lane=lane)
            queues.append(apply_arrival(queue, request, limits) or queue)
        else:
            there = (*queue.running, *queue.waiting)
            if there:
                gone = there[step % len(there)].query_id
                queues.append(apply_departure(queue, gone, limits))
    return queues


LIMITS = st.builds(
    Limits, slots=st.integers(1, 4), queue_max=st.integers(0, 20), lanes=st.just(LANES)
)


@given(STEPS, LIMITS)
def test_limits_hold_and_nobody_waits_who_may_run(
    steps: list[tuple[str, int, str | None] | int], limits: Limits
) -> None:
    for queue in replay(steps, limits):
        check_queue(queue, limits)
        there = [one.query_id for one in (*queue.running, *queue.waiting)]
        assert len(there) == len(set(there))
        assert set(queue.turns) == {one.client for one in (*queue.running, *queue.waiting)}


@given(STEPS, LIMITS)
def test_clients_take_turns(steps: list[tuple[str, int, str | None] | int], limits: Limits) -> None:
    """Of queries of no lane: no higher one waits when a lower one starts, and no client passes another one twice."""
    alike = [(step[0], step[1], None) if isinstance(step, tuple) else step for step in steps]
    queues = replay(list(alike), limits)
    passed: dict[str, Counter[str]] = {}
    for before, after in pairwise(queues):
        known = {one.query_id for one in before.running}
        started = [one for one in after.running if one.query_id not in known]
        for one in started:
            for other in after.waiting:
                assert other.priority <= one.priority
                if other.client == one.client and other.priority == one.priority:
                    assert int(other.query_id) > int(one.query_id)
                is_first = not any(
                    rest.client == other.client
                    and rest.priority >= other.priority
                    and rest is not other
                    for rest in after.waiting[: after.waiting.index(other)]
                )
                if other.client != one.client and other.priority == one.priority and is_first:
                    counts = passed.setdefault(other.query_id, Counter())
                    counts[one.client] += 1
        for one in started:
            passed.pop(one.query_id, None)
        for query_id, counts in passed.items():
            # its client may have had its own turn meanwhile by a query of another priority
            own = sum(one.client == client_of(queues, query_id) for one in started)
            if own:
                counts.clear()
            assert all(times <= 1 for times in counts.values()), (query_id, counts)


def client_of(queues: list[Queue], query_id: str) -> str:
    return next(one.client for queue in queues for one in queue.waiting if one.query_id == query_id)


@given(st.integers(0, 1000), st.integers(1, 16), st.floats(0, 1e6))
def test_who_is_sent_away_is_told_a_time(waiting: int, slots: int, mean_ms: float) -> None:
    requests = tuple(
        Request(query_id=str(place), client="", priority=0, lane=None) for place in range(waiting)
    )
    limits = Limits(slots=slots, queue_max=waiting)
    assert 1 <= estimate_retry_s(Queue(waiting=requests), limits, mean_ms) <= 60
