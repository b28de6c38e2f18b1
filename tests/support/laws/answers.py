"""The law of queries that wait: AN-3 of `core/invariants.py`."""

from __future__ import annotations

from collections import Counter

from carnac.core.answers.admission import Limits, Queue
from carnac.core.invariants import check


def check_queue(queue: Queue, limits: Limits) -> None:
    """Check AN-3.

    Raises:
        InvariantError: It does not hold.
    """
    lanes = Counter(one.lane for one in queue.running)
    check(
        "AN-3",
        len(queue.running) <= limits.slots and len(queue.waiting) <= limits.queue_max,
        f"{len(queue.running)} queries run and {len(queue.waiting)} wait",
    )
    for lane, most in limits.lanes.items():
        check("AN-3", lanes[lane] <= most, f"{lanes[lane]} queries of lane {lane} run")
    if len(queue.running) < limits.slots:
        for one in queue.waiting:
            check(
                "AN-3",
                one.lane is not None and lanes[one.lane] >= limits.lanes[one.lane],
                f"query {one.query_id} waits, and may run",
            )
