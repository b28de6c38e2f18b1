"""The late ledger of a real store, driven at random, against rows that are looked at one by one.

The oracle knows of every row its time, how late it was and whether a rewrite has taken it, at every revision. Time
chunks are hours, days or weeks, and what happens to rows happens to whole chunks, so that no segment is cut and every
count is exact.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import hypothesis.strategies as st
import pyarrow.parquet as pq
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.segments.lateness import LATENESSES, Lateness
from carnac.core.time.granularity import parse_granularity
from carnac.core.time.intervals import Interval
from carnac.errors import Conflict, Invalid, NotFound
from tests.support.clock import FakeClock, SequentialIds
from tests.support.lateness import count_late
from tests.support.stores import open_local_store
from tests.unit.store.events import DAY_MS, HASTY, NOW_MS, START_MS, fast_folder, rows_of, spec

KEPT = 3
"""Revisions that the retention rules keep."""
days = st.sampled_from([0, 1, 8, 32, 33])
within_a_day = st.integers(0, DAY_MS - 1) | st.sampled_from([0, 59_999, 60_000, 60_001, 3_600_000])
times = st.lists(
    st.builds(lambda day, offset: day * DAY_MS + offset, days, within_a_day),
    min_size=1,
    max_size=5,
)


@dataclass(frozen=True)
class OneRow:
    """A row as the oracle knows it; `lateness` is None if it came in time."""

    at_ms: int
    chunk: Interval
    lateness: Lateness | None
    is_folded: bool = False


Known: TypeAlias = dict[int, OneRow]
Expected: TypeAlias = dict[tuple[Interval, Lateness], tuple[int, int]]


def expected_of(rows: Known) -> Expected:
    """Return (late rows, folded ones) of each time chunk and lateness."""
    all_rows: Counter[tuple[Interval, Lateness]] = Counter()
    folded: Counter[tuple[Interval, Lateness]] = Counter()
    for row in rows.values():
        if row.lateness is not None:
            all_rows[row.chunk, row.lateness] += 1
            folded[row.chunk, row.lateness] += row.is_folded
    return {key: (count, folded[key]) for key, count in all_rows.items()}


class LedgerMachine(RuleBasedStateMachine):
    """Writes at random, and compares the ledger of every kept revision with the oracle."""

    @initialize(granularity=st.sampled_from(["hour", "day", "week"]))
    def open_first(self, granularity: str) -> None:
        self.granularity = granularity
        self.chunk_of = parse_granularity(granularity).bucket
        self.folder = fast_folder()
        self.clock = FakeClock(NOW_MS)
        self.store = open_local_store(
            Path(self.folder.name),
            clock=self.clock,
            ids=SequentialIds(),
            settings=HASTY.model_copy(update={"retention_count": KEPT}),
        )
        self.at: dict[int, Known] = {0: {}}
        self.count = 0

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        try:
            for revision in sorted(self.at.keys() - {0}):
                self._check(revision)
        finally:
            self.store.close()
            self.folder.cleanup()

    @rule(offsets=times)
    def append(self, offsets: list[int]) -> None:
        newest_ms = max((row.at_ms for row in self.now.values()), default=None)
        new: Known = {}
        for offset in offsets:
            at_ms = START_MS + offset
            counts = count_late([at_ms], newest_ms)
            late = [name for name, count in zip(LATENESSES, counts, strict=True) if count]
            new[self._next_id()] = OneRow(at_ms, self.chunk_of(at_ms), late[0] if late else None)
        outcome = self._ingest(new)
        assert outcome.report.rows_late == sum(row.lateness is not None for row in new.values())
        self._committed(outcome.revision, {**self.now, **new})

    @rule(day=days, offset=within_a_day, count=st.integers(0, 2))
    def replace_a_chunk(self, day: int, offset: int, count: int) -> None:
        """What replaces other rows is not late, however old it is."""
        at_ms = START_MS + day * DAY_MS + offset
        covers = self.chunk_of(at_ms)
        new: Known = {self._next_id(): OneRow(at_ms, covers, None) for _ in range(count)}
        outcome = self._ingest(new, mode="replace", intervals=[covers])
        assert outcome.report.rows_late == 0
        if outcome.revision is not None:
            self._committed(outcome.revision, {**self._outside(covers), **new})

    @precondition(lambda self: self.now)
    @rule(chosen=st.integers(0, 1000))
    def delete_a_chunk(self, chosen: int) -> None:
        chunks = sorted({row.chunk for row in self.now.values()})
        covers = chunks[chosen % len(chunks)]
        revision = self.store.delete("events", interval=covers).revision
        self._committed(revision, self._outside(covers))

    @precondition(lambda self: self.now)
    @rule(first=days, length=st.integers(1, 8), most=st.sampled_from([1_000, 1, 3]))
    def compact(self, first: int, length: int, most: int) -> None:
        start_ms = self.chunk_of(START_MS + first * DAY_MS).start_ms
        where = Interval(start_ms, self.chunk_of(start_ms + length * DAY_MS).end_ms)
        target = CompactionTarget(target_rows=most)
        report = self.store.compact_interval("events", interval=where, target=target)
        for group in report.groups:
            assert group.revision is not None, group
            rows = {
                number: replace(row, is_folded=True) if group.group.interval == row.chunk else row
                for number, row in self.now.items()
            }
            self._committed(group.revision, rows)

    @precondition(lambda self: self.now)
    @rule(chosen=st.integers(0, 1000), keep=st.integers(0, 3))
    def compact_some(self, chosen: int, keep: int) -> None:
        """Minor compaction: only the rows of the chosen segments are folded."""
        items = self.store.segments("events")
        chunk = items[chosen % len(items)].entry.chunk
        some = [item.segment for item in items if item.entry.chunk == chunk][keep:]
        if not some:
            return
        taken = {number for segment in some for number in self._ids_in(segment.path)}
        report = self.store.compact_interval(
            "events", interval=chunk, segments=[segment.segment_id for segment in some]
        )
        rows = {
            number: replace(row, is_folded=True) if number in taken else row
            for number, row in self.now.items()
        }
        self._committed(report.groups[0].revision, rows)

    @precondition(lambda self: self.head > 0)
    @rule(chosen=st.integers(0, 4))
    def revert(self, chosen: int) -> None:
        target = self.head - chosen % min(self.head, 5)
        if target not in self.at or target - 1 not in self.at:
            return  # trimmed: nobody knows any more what it did
        before, after = self.at[target - 1], self.at[target]
        try:
            published = self.store.revert(target)
        except (Conflict, Invalid):
            return  # a later commit is in the way, or it was a rewrite
        rows = {
            number: row for number, row in self.now.items() if number not in after.keys() - before
        }
        rows |= {number: row for number, row in before.items() if number not in after}
        self._committed(published.revision, rows)

    @rule()
    def gc(self) -> None:
        self.clock.advance_ms(1)
        self.store.gc()
        for revision in sorted(self.at)[:-KEPT]:
            try:
                self.store.resolve(revision)
            except NotFound:
                del self.at[revision]

    @invariant()
    def the_ledger_is_that_of_the_rows(self) -> None:
        if hasattr(self, "store") and self.head:
            self._check(self.head)

    @property
    def head(self) -> int:
        return max(self.at)

    @property
    def now(self) -> Known:
        return self.at[self.head]

    def _check(self, revision: int) -> None:
        rows = self.at[revision]
        if not rows:
            return
        ledger = self.store.late("events", at=revision)
        found = {
            (line.chunk, line.lateness): (line.rows, line.rows_folded) for line in ledger.lines
        }
        expected = expected_of(rows)
        assert found == expected
        total = ledger.total
        assert (total.rows, total.rows_folded) == tuple(
            sum(counts[place] for counts in expected.values()) for place in (0, 1)
        )
        assert total.rows == sum(one.rows for one in ledger.by_lateness)
        assert total.chunks == len({chunk for chunk, _ in expected})
        waiting = {chunk for (chunk, _), (count, folded) in expected.items() if count > folded}
        assert total.chunks_waiting == len(waiting)

    def _next_id(self) -> int:
        self.count += 1
        return self.count

    def _ingest(self, new: Known, **more: Any) -> Any:
        pairs = [(number, row.at_ms) for number, row in new.items()]
        return self.store.ingest(spec(granularity=self.granularity, **more), rows_of(pairs))

    def _outside(self, covers: Interval) -> Known:
        return {number: row for number, row in self.now.items() if not covers.holds(row.at_ms)}

    def _ids_in(self, path: str) -> list[int]:
        place = self.store.deep_storage.local_path(path)
        return list(pq.read_table(place, columns=["id"]).column("id").to_pylist())

    def _committed(self, revision: int | None, rows: Known) -> None:
        assert revision == self.head + 1
        self.at[revision] = rows
        self.clock.advance_ms(1)


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(max_examples=max(2, settings().max_examples // 4))
