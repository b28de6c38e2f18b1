"""Random histories against a plain list of rows.

The oracle knows rows (an id and a time) and, for every revision, which of them are visible. It knows nothing of
segments, chunks, entries or versions. Writers work on stale bases, as real ones do.
"""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from carnac.core.log import laws
from carnac.core.log.commits import Change, Commit, CommitKind, ConservationProof, Drop, Publication
from carnac.core.log.layout import plan_chunks
from carnac.core.log.reverting import plan_revert, restored_segments
from carnac.core.segments.segment import Segment
from carnac.core.time.granularity import parse_granularity
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.errors import Conflict
from carnac.metadata import open_metadata
from carnac.metadata.store import MetadataStore
from tests.support.clock import FakeClock, SequentialIds
from tests.support.databases import lay_database
from tests.support.log_algebra import State, apply_commit, invert_commit

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
START_MS = 15_000 * DAY_MS
DATASOURCE = "events"
SPAN_HOURS = 24 * 40

hours = st.one_of(st.integers(0, 35), st.integers(0, SPAN_HOURS - 1))
"""Half of everything happens within a day and a half, so that writers get into each other's way."""
row_hours = st.lists(hours, min_size=1, max_size=6)
granularities = st.sampled_from(["hour", "six_hour", "day", "week", "month"])


@st.composite
def spans(draw: st.DrawFn) -> Interval:
    """Intervals on hours, from one hour to all of the time that rows lie in."""
    first = draw(hours)
    length = draw(st.sampled_from([1, 3, 24, 72, 24 * 31]))
    return Interval(START_MS + first * HOUR_MS, START_MS + (first + length) * HOUR_MS)


@dataclass
class Pending:
    """A writer between reading and publishing."""

    base: int
    kind: CommitKind
    covers: IntervalSet
    inputs: dict[str, IntervalSet]
    rows: Counter[int]
    layout: tuple[Interval, ...]
    granularity: str


@dataclass
class Rows:
    """The naive oracle: visible row ids at every revision, as a bag."""

    times: dict[int, int] = field(default_factory=dict)
    at: dict[int, Counter[int]] = field(default_factory=lambda: {0: Counter()})

    def new_row(self, at_ms: int) -> int:
        self.times[len(self.times)] = at_ms
        return len(self.times) - 1

    def within(self, rows: Counter[int], covers: IntervalSet) -> Counter[int]:
        return Counter({row: n for row, n in rows.items() if covers.holds(self.times[row])})


class LogMachine(RuleBasedStateMachine):
    """Publishes at random and compares what is visible, at every revision, with the oracle."""

    @initialize()
    def open_store(self) -> None:
        self.clock = FakeClock(START_MS)
        self.ids = SequentialIds()
        self.store = self._open()
        self.oracle = Rows()
        self.contents: dict[str, list[int]] = {}
        self.pending: list[Pending] = []
        self.stale_layouts: list[tuple[Interval, ...]] = [()]
        self.states = [State()]

    def _open(self) -> MetadataStore:
        return open_metadata("memory://", clock=self.clock, ids=self.ids)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()

    # ---------------------------------------------------------------------------------------------- rules

    @rule(at_hours=row_hours, granularity=granularities, stale=st.integers(0, 20))
    def append(self, at_hours: list[int], granularity: str, stale: int) -> None:
        rows = [self.oracle.new_row(START_MS + hour * HOUR_MS + 1) for hour in at_hours]
        layout = self.stale_layouts[-1 - stale % len(self.stale_layouts)]
        segments = self._segments(rows, granularity, layout, within=None)
        change = Change(datasource=DATASOURCE, adds=segments, segment_granularity=granularity)
        before = self._now()
        self._publish(
            Publication(kind=CommitKind.APPEND, changes=(change,)), before + Counter(rows)
        )

    @rule(covers=spans(), granularity=granularities)
    def begin_replacement(self, covers: Interval, granularity: str) -> None:
        self._begin(CommitKind.REPLACE, IntervalSet((covers,)), granularity)

    @rule(covers=spans(), granularity=granularities)
    def begin_rewrite(self, covers: Interval, granularity: str) -> None:
        """A major compaction: everything that the segments in `covers` show, in chunks of another granularity."""
        self._begin(CommitKind.REWRITE, IntervalSet((covers,)), granularity)

    @precondition(lambda self: self.pending)
    @rule(which=st.integers(0, 10), at_hours=row_hours)
    def finish(self, which: int, at_hours: list[int]) -> None:
        job = self.pending.pop(which % len(self.pending))
        if job.kind is CommitKind.REPLACE:
            self._finish_replacement(job, at_hours)
        else:
            self._finish_rewrite(job)

    @rule(which=st.integers(0, 1000))
    def minor_rewrite(self, which: int) -> None:
        """Fold all that two segments show into one, under the next minor version."""
        shown = self._shown(self.store.head().revision)
        if len(shown) < 2:
            return
        names = sorted(shown)
        chosen = {names[which % len(names)], names[(which * 7 + 1) % len(names)]}
        inputs = {name: shown[name] for name in chosen}
        rows = self._rows_of(inputs)
        segments = self._segments(list(rows.elements()), "month", self._layout(), within=None)
        self._publish_rewrite(inputs, segments, rows, takes_over=False, covers=IntervalSet())

    @rule(covers=spans(), near=st.integers(0, 1000))
    def delete(self, covers: Interval, near: int) -> None:
        """Mostly from a row on, and of those that a writer is about to replace if there are any."""
        rows = self._now()
        if near % 4 and rows:
            touched = self.oracle.within(rows, self.pending[-1].covers) if self.pending else rows
            row = sorted(touched or rows)[near % len(touched or rows)]
            start_ms = self.oracle.times[row] // HOUR_MS * HOUR_MS
            covers = Interval(start_ms, start_ms + (1 + near % 3) * HOUR_MS)
        inside = IntervalSet((covers,))
        inputs = self._inputs(inside)
        if not inputs:
            return
        before = self._now()
        change = Change(datasource=DATASOURCE, drops=_drops(inputs, inside), covers=inside)
        self._publish(
            Publication(
                kind=CommitKind.DELETE, changes=(change,), base_revision=self.store.head().revision
            ),
            before - self.oracle.within(before, inside),
        )
        if near % 5 == 0:
            self._revert(self.store.head().revision)

    @rule(which=st.integers(0, 1000))
    def revert(self, which: int) -> None:
        head = self.store.head().revision
        if head == 0:
            return
        targets = list(range(max(1, head - 5), head + 1))
        undone = [one for one in targets if self.store.commit(one).kind is CommitKind.REVERT]
        if undone and which % 2:
            targets = undone
        self._revert(targets[-1 - which // 2 % len(targets)])

    def _revert(self, target: int) -> None:
        head, commit = self.store.head().revision, self.store.commit(target)
        if commit.kind is CommitKind.REWRITE:
            return
        segments = {}
        for segment_id in restored_segments(commit):
            segment = self.store.find_segment(segment_id)
            assert segment is not None
            segments[segment_id] = segment
        publication = plan_revert(commit, segments, {}, segment_granularity={DATASOURCE: "day"})
        added = self.oracle.at[target] - self.oracle.at[target - 1]
        removed = self.oracle.at[target - 1] - self.oracle.at[target]
        later = [self.store.commit(revision) for revision in range(target + 1, head + 1)]
        covered = {
            revision for revision in range(target + 1, head + 1) if self._covers(revision, removed)
        }
        now = self._now()
        is_blocked = (
            bool(covered) or any(now[row] < n for row, n in added.items()) or bool(now & removed)
        )
        try:
            self._publish(publication, self._now() - added + removed)
        except Conflict as conflict:
            culprit = conflict.ids["commit"]
            assert isinstance(culprit, int)
            assert target < culprit <= head, (
                "a conflict names a later commit; the newest can always be reverted"
            )
            self._check_culprit(commit, later[culprit - target - 1])
            assert self.store.head().revision == head
        else:
            assert not is_blocked, "what was replaced or deleted since came back"

    # ----------------------------------------------------------------------------------------- invariants

    @invariant()
    def every_revision_shows_its_rows(self) -> None:
        if not hasattr(self, "store"):
            return
        head = self.store.head().revision
        for revision in {head, max(0, head - 1), head // 2}:
            assert self._rows_of(self._shown(revision)) == self.oracle.at[revision], (
                f"revision {revision}"
            )

    @invariant()
    def laws_hold(self) -> None:
        if not hasattr(self, "store"):
            return
        live = [item.entry for item in self.store.visible(DATASOURCE)]
        laws.check_entries(DATASOURCE, live)
        by_id = {entry.entry_id: entry for entry in live}
        assert by_id == dict(self.states[-1].entries.get(DATASOURCE, {}))
        summaries = {chunk.interval: chunk for chunk in self.store.chunks(DATASOURCE)}
        assert set(summaries) == {entry.chunk for entry in live}
        for interval, summary in summaries.items():
            members = [entry for entry in live if entry.chunk == interval]
            assert summary.entries == len(members)
            assert summary.version == max(entry.version for entry in members)
            assert summary.next_partition_id >= max(entry.next_partition_id for entry in members)

    # -------------------------------------------------------------------------------------------- helpers

    def _covers(self, revision: int, rows: Counter[int]) -> bool:
        """Whether the commit replaced or deleted a time in which one of the rows lies."""
        (change,) = self.store.commit(revision).changes
        return bool(self.oracle.within(rows, change.covers))

    @staticmethod
    def _check_culprit(commit: Commit, culprit: Commit) -> None:
        """It dropped what the commit had added; or brought back what it had dropped, rewrote that or covers it."""
        ((undone,), (did,)) = commit.changes, culprit.changes
        added = {entry.segment_id for entry in undone.adds}
        dropped = {entry.segment_id for entry in undone.drops}
        assert (
            any(entry.segment_id in added for entry in did.drops)
            or any(entry.segment_id in dropped for entry in did.adds)
            or (
                culprit.kind is CommitKind.REWRITE
                and any(entry.segment_id in dropped for entry in did.drops)
            )
            or any(entry.visible.intersect(did.covers) for entry in undone.drops)
        ), f"commit {culprit.revision} is not in the way"

    def _begin(self, kind: CommitKind, covers: IntervalSet, granularity: str) -> None:
        head = self.store.head().revision
        inputs = self._inputs(covers)
        rows = self.oracle.within(self.oracle.at[head], covers)
        if kind is CommitKind.REWRITE and not inputs:
            return
        layout = self._layout() if kind is CommitKind.REWRITE else ()
        self.pending.append(Pending(head, kind, covers, inputs, rows, layout, granularity))

    def _finish_replacement(self, job: Pending, at_hours: list[int]) -> None:
        times = [START_MS + hour * HOUR_MS + 1 for hour in at_hours]
        rows = [self.oracle.new_row(at_ms) for at_ms in times if job.covers.holds(at_ms)]
        segments = self._segments(rows, job.granularity, (), within=job.covers)
        if not segments and not job.inputs:
            return
        change = Change(
            datasource=DATASOURCE,
            adds=segments,
            drops=_drops(job.inputs, job.covers),
            takes_over=bool(segments),
            covers=job.covers,
            segment_granularity=job.granularity,
        )
        publication = Publication(
            kind=CommitKind.REPLACE, changes=(change,), base_revision=job.base
        )
        self._publish_stale(job, publication, self._now() - job.rows + Counter(rows))

    def _finish_rewrite(self, job: Pending) -> None:
        segments = self._segments(list(job.rows.elements()), job.granularity, (), within=job.covers)
        change = Change(
            datasource=DATASOURCE,
            adds=segments,
            drops=_drops(job.inputs, job.covers),
            takes_over=bool(segments),
            covers=IntervalSet(),
            segment_granularity=job.granularity,
        )
        publication = Publication(
            kind=CommitKind.REWRITE,
            changes=(change,),
            base_revision=job.base,
            proof=_proof(job.rows.total()),
        )
        self._publish_stale(job, publication, self._now())

    def _publish_stale(self, job: Pending, publication: Publication, rows: Counter[int]) -> None:
        """Publish; a conflict is right exactly if one of the job's inputs shows something else now."""
        now = self._shown(self.store.head().revision)
        touched = any(
            now.get(name, IntervalSet()).intersect(job.covers) != pieces.intersect(job.covers)
            for name, pieces in job.inputs.items()
        )
        head = self.store.head().revision
        if not touched:
            self._publish(publication, rows)
            return
        with pytest.raises(Conflict) as caught:
            self.store.publish(publication)
        culprit = caught.value.ids["commit"]
        assert isinstance(culprit, int)
        assert job.base < culprit <= head
        assert self.store.head().revision == head

    def _publish_rewrite(
        self,
        inputs: dict[str, IntervalSet],
        segments: tuple[Segment, ...],
        rows: Counter[int],
        *,
        takes_over: bool,
        covers: IntervalSet,
    ) -> None:
        change = Change(
            datasource=DATASOURCE,
            adds=segments,
            drops=tuple(Drop(segment_id=name, expected=pieces) for name, pieces in inputs.items()),
            takes_over=takes_over,
            covers=covers,
            segment_granularity="day",
        )
        publication = Publication(
            kind=CommitKind.REWRITE,
            changes=(change,),
            base_revision=self.store.head().revision,
            proof=_proof(rows.total()),
        )
        self._publish(publication, self._now())

    def _publish(self, publication: Publication, rows: Counter[int]) -> None:
        self.clock.advance_ms(1)
        published = self.store.publish(publication)
        assert not published.is_replay
        commit = published.commit
        assert commit is not None
        assert commit == self.store.commit(published.revision)
        before = self.states[-1]
        after = apply_commit(before, commit)
        self.states.append(after)
        undone = apply_commit(after, invert_commit(commit, before))
        assert dict(undone.entries) == dict(before.entries)
        self.oracle.at[published.revision] = rows
        self.stale_layouts.append(self._layout())

    def _segments(
        self,
        rows: list[int],
        granularity: str,
        layout: tuple[Interval, ...],
        within: IntervalSet | None,
    ) -> tuple[Segment, ...]:
        if not rows:
            return ()
        times = [self.oracle.times[row] for row in rows]
        data = Interval(min(times), max(times) + 1)
        chunks = plan_chunks(parse_granularity(granularity), layout, within, data)
        by_chunk: dict[Interval, list[int]] = defaultdict(list)
        for row in rows:
            home = [chunk for chunk in chunks if chunk.holds(self.oracle.times[row])]
            assert len(home) == 1, "every row has one chunk"
            by_chunk[home[0]].append(row)
        return tuple(self._segment(chunk, members) for chunk, members in sorted(by_chunk.items()))

    def _segment(self, chunk: Interval, rows: list[int]) -> Segment:
        segment_id = f"s{len(self.contents)}"
        self.contents[segment_id] = rows
        times = [self.oracle.times[row] for row in rows]
        return Segment(
            segment_id=segment_id,
            datasource=DATASOURCE,
            chunk=chunk,
            path=f"segments/{segment_id}.parquet",
            size_bytes=100 * len(rows),
            rows=len(rows),
            input_rows=len(rows),
            min_time_ms=min(times),
            max_time_ms=max(times),
            columns=(),
        )

    def _layout(self) -> tuple[Interval, ...]:
        return tuple(chunk.interval for chunk in self.store.chunks(DATASOURCE))

    def _now(self) -> Counter[int]:
        return self.oracle.at[self.store.head().revision]

    def _shown(self, revision: int) -> dict[str, IntervalSet]:
        shown: dict[str, IntervalSet] = defaultdict(IntervalSet)
        for item in self.store.visible(DATASOURCE, revision=revision):
            shown[item.segment.segment_id] = shown[item.segment.segment_id].union(
                item.entry.visible
            )
        return shown

    def _inputs(self, covers: IntervalSet) -> dict[str, IntervalSet]:
        shown = self._shown(self.store.head().revision)
        return {name: pieces for name, pieces in shown.items() if pieces.intersect(covers)}

    def _rows_of(self, shown: dict[str, IntervalSet]) -> Counter[int]:
        return Counter(
            row
            for name, pieces in shown.items()
            for row in self.contents[name]
            if pieces.holds(self.oracle.times[row])
        )


def _drops(inputs: dict[str, IntervalSet], covers: IntervalSet) -> tuple[Drop, ...]:
    return tuple(
        Drop(segment_id=name, expected=pieces, within=covers)
        for name, pieces in sorted(inputs.items())
    )


def _proof(rows: int) -> ConservationProof:
    return ConservationProof(rows_in=rows, rows_out=rows, row_hash_in=rows, row_hash_out=rows)


class Crash(BaseException):
    """The process ends here, as far as the store can tell."""


class MortalLogMachine(LogMachine):
    """The same on a database that stays, with writers that die at any statement of their publish."""

    def _open(self) -> MetadataStore:
        if not hasattr(self, "folder"):
            self.folder = tempfile.TemporaryDirectory()
            self.statements_left: int | None = None
        path = Path(self.folder.name) / "metadata.sqlite"
        url = lay_database(path, created_at_ms=self.clock.now_ms())
        return open_metadata(url, clock=self.clock, ids=self.ids, on_statement=self._count_down)

    def _count_down(self, statement: str) -> None:
        if self.statements_left is not None:
            self.statements_left -= 1
            if self.statements_left < 0:
                self.statements_left = None
                raise Crash(statement)

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "folder"):
            self.folder.cleanup()

    @rule(at_hours=row_hours, granularity=granularities, statements=st.integers(0, 12))
    def append_and_crash(self, at_hours: list[int], granularity: str, statements: int) -> None:
        """Nothing of it is there afterwards, or all of it."""
        before = self.store.head().revision
        self.statements_left = statements
        try:
            self.append(at_hours, granularity, 0)
        except Crash:
            self.store = self._open()
            assert self.store.head().revision == before
        self.statements_left = None

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self._open()


TestLog = MortalLogMachine.TestCase
