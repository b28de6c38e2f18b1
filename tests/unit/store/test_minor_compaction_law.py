"""A law of minor compactions, for random chunks: they write little more than they read, and touch nothing else."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from carnac.store import Store
from carnac.store.compacting.reports import GroupOutcome
from tests.support.clock import FakeClock, SequentialIds
from tests.support.stores import open_local_store
from tests.unit.store.events import DAY_MS, NOW_MS, START_MS, fast_folder, spec

MOST_WRITTEN = 1.1
"""Bytes that a minor compaction writes, for each byte of the chosen inputs."""


def open_small(folder: Path) -> Store:
    return open_local_store(folder, clock=FakeClock(NOW_MS), ids=SequentialIds())


def rows_of(rng: random.Random, count: int, words: int) -> list[dict[str, Any]]:
    """Return rows of one day: words that repeat more or less, numbers that do not, some nulls."""
    return [
        {
            "t": START_MS + rng.randrange(DAY_MS),
            "word": rng.choice([None, f"word {rng.randrange(words)}"]),
            "id": f"{rng.getrandbits(64):x}",
            "small": rng.choice([None, rng.randrange(10)]),
            "large": rng.getrandbits(62),
            "share": rng.random(),
        }
        for _ in range(count)
    ]


@settings(max_examples=min(15, max(3, settings().max_examples // 3)))  # one takes some 100 ms
@given(
    sizes=st.lists(st.integers(1, 400), min_size=2, max_size=8),
    picked=st.sets(st.integers(0, 7), min_size=1),
    words=st.integers(1, 2000),
    seed=st.integers(0, 2**32),
)
def test_a_minor_compaction_writes_at_most_a_tenth_more_and_leaves_the_others(
    sizes: list[int], picked: set[int], words: int, seed: int
) -> None:
    rng = random.Random(seed)
    with fast_folder() as folder, open_small(Path(folder)) as store:
        for size in sizes:
            store.ingest(spec(), rows_of(rng, size, words))
        entries = {item.segment.segment_id: item for item in store.segments("events")}
        names = sorted(entries)
        chosen = {names[place] for place in picked if place < len(names)} or {names[0]}
        report = store.compact_interval("events", segments=sorted(chosen))
        (group,) = report.groups
        assert group.outcome is GroupOutcome.COMMITTED
        assert group.bytes_in == sum(entries[name].segment.size_bytes for name in chosen)
        assert group.bytes_out <= MOST_WRITTEN * group.bytes_in
        after = {item.segment.segment_id: item for item in store.segments("events")}
        for name in entries.keys() - chosen:
            assert after[name] == entries[name]
        (new,) = after.keys() - entries.keys()
        assert after[new].segment.rows == sum(entries[name].segment.rows for name in chosen)
