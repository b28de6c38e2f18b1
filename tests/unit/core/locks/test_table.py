"""The table of locks in memory finds what a scan of all finds."""

from __future__ import annotations

import random

from carnac.core.locks.events import ReleaseLocks
from carnac.core.locks.model import LockType
from carnac.core.time.intervals import ETERNITY, Interval
from tests.locks import HOUR_MS, LEASE_MS, Box, wants


def test_overlapping_locks_of_all_lengths_are_found() -> None:
    rng = random.Random(7)
    box = Box()
    for number in range(400):
        start, length = rng.randrange(-5_000, 5_000), rng.choice([1, 1, 2, 24, 168, 720, 5_000])
        where = Interval(start * HOUR_MS + rng.randrange(3), (start + length) * HOUR_MS)
        box(
            wants(
                f"t{number % 50}", where, number, type=LockType.SHARED, datasource="ab"[number % 2]
            )
        )
    box(wants("all", ETERNITY, type=LockType.SHARED, datasource="a"))
    for task in range(0, 50, 7):
        box(ReleaseLocks(task_id=f"t{task}"))
    for _ in range(200):
        start, length = rng.randrange(-6_000, 6_000), rng.choice([1, 24, 3_000])
        asked = Interval(start * HOUR_MS, (start + length) * HOUR_MS)
        found = sorted(lock.lock_id for lock in box.table.overlapping("a", asked))
        assert found == sorted(
            lock.lock_id
            for lock in box.table
            if lock.datasource == "a" and lock.interval.overlaps(asked)
        )
    box.at_ms = LEASE_MS
    assert len(list(box.table.due(box.at_ms))) == len(box.table)
    for lock in list(box.table):
        box(ReleaseLocks(task_id=lock.task_id))
    assert len(box.table) == 0
    assert not list(box.table.overlapping("a", ETERNITY))
