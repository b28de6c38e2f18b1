"""A real store, driven at random, against a plain list of rows.

Real segment files, a real database, real SQL; jobs run in this process. The oracle knows the rows (an id and a time)
of every revision and nothing else. Writers are overtaken by others in the middle of their jobs, processes die at any
call and at any statement, garbage collection waits for nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from carnac.core.log.entries import VisibleSegment
from carnac.core.time.granularity import parse_granularity
from carnac.core.time.intervals import Interval, IntervalSet, interval_set
from carnac.errors import Conflict, NotFound, Revoked
from carnac.ports import ChunkLayout, JobResult, SegmentRewrite
from carnac.specs.ingest.spec import IngestSpec
from carnac.store import Store
from tests.support.clock import FakeClock, SequentialIds
from tests.support.faulty import Crash, Faults
from tests.support.stores import open_local_store
from tests.unit.store.events import (
    HASTY,
    HOUR_MS,
    NOW_MS,
    START_MS,
    TTL_MS,
    Rows,
    StampedPipeline,
    fast_folder,
    files_of,
    hour,
    read,
    rows_of,
    spec,
)

KEPT = 3
"""Revisions that the retention rules keep."""
hours = st.lists(st.integers(0, 24 * 12), min_size=1, max_size=4)
granularities = st.sampled_from(["six_hour", "day", "month"])
which = st.integers(0, 1000)


@st.composite
def spans(draw: st.DrawFn) -> Interval:
    """Intervals on hours, from three hours to all of the time that rows lie in."""
    first = draw(st.integers(0, 24 * 12))
    length = draw(st.sampled_from([3, 24, 72, 24 * 13]))
    return Interval(START_MS + first * HOUR_MS, START_MS + (first + length) * HOUR_MS)


meanwhile = st.lists(
    st.one_of(
        st.tuples(st.just("append"), hours),
        st.tuples(st.just("delete"), spans()),
        st.tuples(st.just("revert"), which),
        st.tuples(st.just("gc"), st.booleans()),
    ),
    max_size=2,
)


class InterruptedPipeline(StampedPipeline):
    """Other writers are at work while its jobs run."""

    interruption: Callable[[], None] | None = None

    def run_ingest(self, spec: IngestSpec, layout: ChunkLayout, **more: Any) -> JobResult:
        result = super().run_ingest(spec, layout, **more)
        self._interrupt()
        return result

    def run_delete_where(self, *args: Any, **more: Any) -> tuple[SegmentRewrite, ...]:
        rewrites = super().run_delete_where(*args, **more)
        self._interrupt()
        return rewrites

    def _interrupt(self) -> None:
        interruption, self.interruption = self.interruption, None
        if interruption is not None:
            interruption()


class StoreMachine(RuleBasedStateMachine):
    """Writes at random and compares what SQL reads, at every kept revision, with the oracle."""

    @initialize()
    def open_first(self) -> None:
        self.folder = fast_folder()
        self.path = Path(self.folder.name)
        self.clock = FakeClock(NOW_MS)
        self.ids = SequentialIds()
        self.faults = Faults()
        self.statements_left: int | None = None
        self.handles: list[Store] = []
        self.at: dict[int, Rows] = {0: Counter()}
        self.tags: dict[str, int] = {}
        self.count = 0
        self._open()

    def _open(self) -> None:
        self.faults.disarm()
        self.statements_left = None

        def make(storage: Any) -> InterruptedPipeline:
            self.pipeline = InterruptedPipeline(storage, clock=self.clock, ids=self.ids)
            return self.pipeline

        self.store = open_local_store(
            self.path,
            clock=self.clock,
            ids=self.ids,
            settings=HASTY.model_copy(update={"retention_count": KEPT}),
            faults=self.faults,
            on_statement=self._count_down,
            pipeline=make,
        )
        self.handles.append(self.store)

    def _count_down(self, statement: str) -> None:
        if self.faults.is_dead:
            raise Crash(statement)
        if self.statements_left is not None:
            self.statements_left -= 1
            if self.statements_left < 0:
                self.statements_left = None
                self.faults.die(statement)

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        try:
            self._read_all_revisions()
            self._leave_nothing_behind()
        finally:
            for handle in self.handles:
                handle.close()
            self.folder.cleanup()

    # ---------------------------------------------------------------------------------------------- rules

    @rule(at_hours=hours, granularity=granularities)
    def append(self, at_hours: list[int], granularity: str) -> None:
        new = self._new_rows(at_hours)
        outcome = self.store.ingest(spec(granularity=granularity), rows_of(new))
        assert outcome.report is not None
        assert outcome.report.rows_written == len(at_hours)
        self._committed(outcome.revision, self.now + new)

    @rule(covers=spans(), at_hours=hours, granularity=granularities, others=meanwhile)
    def replace_interval(
        self,
        covers: Interval,
        at_hours: list[int],
        granularity: str,
        others: list[tuple[str, Any]],
    ) -> None:
        inside = IntervalSet((covers,))
        new = Counter({row: 1 for row in self._new_rows(at_hours) if inside.holds(row[1])})
        how = spec(granularity=granularity, mode="replace", intervals=[covers])
        self._replace(how, inside, new, others)

    @rule(at_hours=hours, granularity=granularities, others=meanwhile)
    def replace_chunks(
        self, at_hours: list[int], granularity: str, others: list[tuple[str, Any]]
    ) -> None:
        new = self._new_rows(at_hours)
        buckets = [parse_granularity(granularity).bucket(at_ms) for _, at_ms in new]
        how = spec(granularity=granularity, mode="replace")
        self._replace(how, interval_set(buckets), new, others)

    @rule(covers=spans())
    def delete(self, covers: Interval) -> None:
        gone = self._within(self.now, IntervalSet((covers,)))
        if not self.now:
            with pytest.raises(NotFound):
                self.store.delete("events", interval=covers)
            return
        outcome = self.store.delete("events", interval=covers)
        if outcome.revision is None:
            assert not gone
        else:
            self._committed(outcome.revision, self.now - gone)

    @precondition(lambda self: self.now)
    @rule(
        remainder=st.integers(0, 2),
        covers=st.none() | spans(),
        others=meanwhile,
    )
    def delete_where(
        self, remainder: int, covers: Interval | None, others: list[tuple[str, Any]]
    ) -> None:
        everywhere = IntervalSet((Interval(0, NOW_MS),))
        inside = everywhere if covers is None else IntervalSet((covers,))
        gone = Counter(
            {row: n for row, n in self._within(self.now, inside).items() if row[0] % 3 == remainder}
        )
        if not gone:
            assert self._delete_where(remainder, covers, []).revision is None
            return
        started_ms, shown = self.clock.now_ms(), self._shown()
        names = {  # the segments that hold a matching row, whole
            name for name in shown if self._rows_of_segment(name) & gone
        }
        try:
            outcome = self._delete_where(remainder, covers, others)
        except (Conflict, Revoked) as error:
            self._check_refusal(error, started_ms, {name: shown[name] for name in names})
            return
        assert outcome.rows_deleted == gone.total()
        self._committed(outcome.revision, self.now - gone)

    @precondition(lambda self: self.head > 0)
    @rule(chosen=which)
    def revert(self, chosen: int) -> None:
        target = self.head - chosen % min(self.head, 5)
        head = self.head
        if target not in self.at or target - 1 not in self.at:
            return  # trimmed: nobody knows any more what it did
        added, removed = (
            self.at[target] - self.at[target - 1],
            self.at[target - 1] - self.at[target],
        )
        try:
            published = self.store.revert(target)
        except Conflict as conflict:
            culprit = conflict.ids["commit"]
            assert isinstance(culprit, int)
            assert target < culprit <= head, "a conflict names a later commit"
            return
        self._committed(published.revision, self.now - added + removed)

    @rule(name=st.sampled_from(["a", "b"]), chosen=which)
    def tag(self, name: str, chosen: int) -> None:
        revision = sorted(self.at)[chosen % len(self.at)]
        if revision:
            self.store.tag(name, at=revision)
            self.tags[name] = revision

    @precondition(lambda self: self.tags)
    @rule(chosen=which)
    def untag(self, chosen: int) -> None:
        name = sorted(self.tags)[chosen % len(self.tags)]
        self.store.untag(name)
        del self.tags[name]

    @rule(after_a_nap=st.booleans())
    def gc(self, after_a_nap: bool) -> None:
        """After a nap nobody's lease is alive, so exactly what rules and tags keep is left."""
        self.clock.advance_ms(TTL_MS + 1 if after_a_nap else 1)
        self.store.gc()
        kept = {0, self.head, *self.tags.values()} | set(sorted(self.at)[-KEPT:])
        for revision in sorted(self.at.keys() - kept):
            try:
                assert read(self.store, revision) == self.at[revision]
                assert not after_a_nap, f"revision {revision} should have been trimmed"
            except NotFound:
                del self.at[revision]

    @rule(at_hours=hours, calls=st.integers(1, 12), after=st.booleans())
    def append_and_die_at_a_call(self, at_hours: list[int], calls: int, after: bool) -> None:
        self.faults.arm(calls, after=after, dies=True)
        self._append_and_die(at_hours)

    @rule(at_hours=hours, statements=st.integers(0, 14))
    def append_and_die_at_a_statement(self, at_hours: list[int], statements: int) -> None:
        self.statements_left = statements
        self._append_and_die(at_hours)

    @rule(calls=st.integers(1, 10), after=st.booleans())
    def collect_and_die(self, calls: int, after: bool) -> None:
        self.clock.advance_ms(TTL_MS + 1)
        self.faults.arm(calls, after=after, dies=True)
        try:
            self.store.gc()
        except Crash:
            self._open()
        self.faults.disarm()
        self._forget_trimmed()

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self._open()

    @rule(chosen=which)
    def read_the_past(self, chosen: int) -> None:
        revision = sorted(self.at)[chosen % len(self.at)]
        assert read(self.store, revision) == self.at[revision], f"revision {revision}"
        for name, tagged in self.tags.items():
            assert read(self.store, name) == self.at[tagged], f"tag {name}"

    @invariant()
    def the_newest_revision_shows_its_rows(self) -> None:
        if hasattr(self, "store"):
            assert self.store.head().revision == self.head
            assert read(self.store) == self.now

    # -------------------------------------------------------------------------------------------- helpers

    @property
    def head(self) -> int:
        return max(self.at)

    @property
    def now(self) -> Rows:
        return self.at[self.head]

    def _committed(self, revision: int | None, rows: Rows) -> None:
        assert revision == self.head + 1
        self.at[revision] = rows
        self.clock.advance_ms(1)

    def _new_rows(self, at_hours: list[int]) -> Rows:
        first, self.count = self.count, self.count + len(at_hours)
        return Counter({(first + n, hour(at)): 1 for n, at in enumerate(at_hours)})

    @staticmethod
    def _within(rows: Rows, covers: IntervalSet) -> Rows:
        return Counter({row: n for row, n in rows.items() if covers.holds(row[1])})

    def _interrupt_with(self, others: list[tuple[str, Any]]) -> None:
        def interrupt() -> None:
            for kind, value in others:
                if kind == "append":
                    self.append(value, "day")
                elif kind == "delete":
                    self.delete(value)
                elif kind == "gc":
                    self.gc(value)
                elif self.head:
                    self.revert(value)

        self.pipeline.interruption = interrupt

    def _replace(
        self, how: IngestSpec, covers: IntervalSet, new: Rows, others: list[tuple[str, Any]]
    ) -> None:
        gone = self._within(self.now, covers)
        inputs = {
            name: shown.intersect(covers)
            for name, shown in self._shown().items()
            if shown.intersect(covers)
        }
        started_ms = self.clock.now_ms()
        self._interrupt_with(others)
        try:
            outcome = self.store.ingest(how, rows_of(new))
        except (Conflict, Revoked) as error:
            self._check_refusal(error, started_ms, inputs, covers)
            return
        finally:
            self.pipeline.interruption = None
        if outcome.revision is None:
            assert not new
            assert not inputs
            return
        self._committed(outcome.revision, self.now - gone + new)

    def _check_refusal(
        self,
        error: Conflict | Revoked,
        started_ms: int,
        inputs: dict[str, IntervalSet],
        covers: IntervalSet | None = None,
    ) -> None:
        """A writer is refused only if what it read was changed, or if it slept longer than its lease."""
        if isinstance(error, Revoked):
            assert self.clock.now_ms() > started_ms + TTL_MS
            return
        now = self._shown()
        for name, shown in inputs.items():
            there = now.get(name, IntervalSet())
            if (there if covers is None else there.intersect(covers)) != shown:
                return
        raise AssertionError(f"refused although nobody changed its inputs: {error}")

    def _delete_where(
        self, remainder: int, covers: Interval | None, others: list[tuple[str, Any]]
    ) -> Any:
        self._interrupt_with(others)
        try:
            return self.store.delete("events", where=f"id % 3 = {remainder}", interval=covers)
        finally:
            self.pipeline.interruption = None

    def _segments(self, at: int | None = None) -> Sequence[VisibleSegment]:
        """Return what is visible; nothing if the datasource has no rows there."""
        try:
            return self.store.segments("events", at=at)
        except NotFound as error:
            if "there is no datasource" not in error.message:
                raise
            return ()

    def _shown(self) -> dict[str, IntervalSet]:
        shown: dict[str, IntervalSet] = {}
        for item in self._segments():
            name = item.segment.segment_id
            shown[name] = shown.get(name, IntervalSet()).union(item.entry.visible)
        return shown

    def _rows_of_segment(self, name: str) -> Rows:
        import pyarrow.parquet as pq

        for item in self._segments():
            if item.segment.segment_id == name:
                place = self.store.deep_storage.local_path(item.segment.path)
                rows = pq.read_table(place).to_pylist()
                return Counter((row["id"], round(row["__time"].timestamp() * 1000)) for row in rows)
        raise AssertionError(f"segment {name} is not visible")

    def _append_and_die(self, at_hours: list[int]) -> None:
        """Afterwards all of it is there, or nothing."""
        new = self._new_rows(at_hours)
        try:
            outcome = self.store.ingest(spec(), rows_of(new))
        except Crash:
            self._open()
            if self.store.head().revision != self.head:
                self._committed(self.store.head().revision, self.now + new)
        else:
            self._committed(outcome.revision, self.now + new)
        self.faults.disarm()
        self.statements_left = None

    def _forget_trimmed(self) -> None:
        for revision in sorted(self.at.keys() - {0, self.head}):
            try:
                self.store.resolve(revision)
            except NotFound:
                assert revision not in self.tags.values()
                del self.at[revision]

    def _read_all_revisions(self) -> None:
        for revision, rows in self.at.items():
            assert read(self.store, revision) == rows, f"revision {revision}"

    def _leave_nothing_behind(self) -> None:
        """What crashes left is garbage, and after a collection every file has a record and the other way round."""
        assert {finding.kind for finding in self.store.verify()} <= {"orphan"}
        self.clock.advance_ms(TTL_MS + 1)
        self.store.gc()
        assert list(self.store.verify()) == []
        named = {
            item.segment.path
            for revision in {head for head in self.at if head in {self.head, *self.tags.values()}}
            for item in self._segments(at=revision)
        }
        assert named <= files_of(self.path)
        assert files_of(self.path) == set(self.store._metadata.known_paths())


TestStoreAgainstRows = StoreMachine.TestCase
TestStoreAgainstRows.settings = settings(
    max_examples=max(2, settings().max_examples // 10), stateful_step_count=20
)
