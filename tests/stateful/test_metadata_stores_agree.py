"""Random publications, trims and tags on SQLite and on a list of commits: they must agree on everything, always.

The third opinion is `core.revisions`: the state of every retained revision equals the commits applied one by one.
Key frames are written after a handful of changes here, so that reading the past goes through them.
"""

from __future__ import annotations

import random
import tempfile
from dataclasses import replace
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from carnac.core.log.commits import (
    Change,
    CommitKind,
    ConservationProof,
    Drop,
    LookupChange,
    Publication,
)
from carnac.core.segments.lateness import LateRows
from carnac.core.segments.segment import Column, ColumnType, Segment
from carnac.core.time.intervals import Interval, IntervalSet, interval_set
from carnac.errors import CarnacError, NotFound
from carnac.metadata import open_metadata
from carnac.metadata.read import chunk_rows
from carnac.ports import Head, LeaseKind, Published
from tests.support.clock import FakeClock, SequentialIds
from tests.support.databases import lay_database, table_counts
from tests.support.log_algebra import State, apply_commit
from tests.support.log_oracle import LogOracle

HOUR_MS = 3_600_000
DATASOURCES = ("clicks", "views")
HOURS = 72
FEW_CHANGES = 6

datasources = st.sampled_from(DATASOURCES)
spans = st.tuples(st.integers(0, HOURS - 1), st.sampled_from([1, 2, 12, 30])).map(
    lambda pair: Interval(pair[0] * HOUR_MS, (pair[0] + pair[1]) * HOUR_MS)
)
seeds = st.integers(0, 2**32)


class StoresMachine(RuleBasedStateMachine):
    """Does the same to both and compares what they answer."""

    @initialize()
    def open_stores(self) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(chunk_rows, "KEY_FRAME_MIN_CHANGES", FEW_CHANGES)
        self.clock = FakeClock()
        self.oracle = LogOracle(clock=self.clock, ids=SequentialIds())
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "metadata.db"
        url = lay_database(path, created_at_ms=self.clock.now_ms())
        self.sqlite = open_metadata(url, clock=self.clock, ids=SequentialIds())
        self.made = 0
        self.states: dict[int, State] = {0: State()}
        self.pending: list[Publication] = []

    def teardown(self) -> None:
        if hasattr(self, "sqlite"):
            self.sqlite.close()
            self.folder.cleanup()
            self.patch.undo()

    @rule(datasource=datasources, where=st.lists(spans, min_size=1, max_size=4))
    def append(self, datasource: str, where: list[Interval]) -> None:
        adds = tuple(self._segment(datasource, span) for span in where)
        self._publish(
            Publication(
                kind=CommitKind.APPEND,
                changes=(Change(datasource=datasource, adds=adds),),
                writer="w",
                batch=str(self.made % 7),
            )
        )

    @rule(
        writer=st.sampled_from("uw"),
        source=st.sampled_from("ab"),
        reached=st.sampled_from(["", "1", "2"]),
        start=st.none() | st.sampled_from(["", "1", "2"]),
        where=st.lists(spans, max_size=1),
    )
    def append_range(
        self, writer: str, source: str, reached: str, start: str | None, where: list[Interval]
    ) -> None:
        """From where the writer stands, and now and then from elsewhere."""
        held = self.oracle.position(writer)
        if start is None:
            start = held[source].offset if source in held else ""
        adds = tuple(self._segment("clicks", span) for span in where)
        self._publish(
            Publication(
                kind=CommitKind.APPEND,
                changes=(Change(datasource="clicks", adds=adds),) if adds else (),
                writer=writer,
                offsets={source: reached},
                after={source: start} if start else {},
            )
        )

    @rule(where=spans)
    def append_to_both(self, where: Interval) -> None:
        changes = tuple(
            Change(datasource=name, adds=(self._segment(name, where),)) for name in DATASOURCES
        )
        self._publish(Publication(kind=CommitKind.APPEND, changes=changes))

    @rule(datasource=datasources, covers=spans, adds=st.booleans(), later=st.booleans())
    def replace_or_delete(self, datasource: str, covers: Interval, adds: bool, later: bool) -> None:
        inside = IntervalSet((covers,))
        drops = tuple(
            Drop(segment_id=name, expected=shown, within=inside)
            for name, shown in self._shown(datasource).items()
            if shown.intersect(inside)
        )
        new = (replace(self._segment(datasource, covers), chunk=covers),) if adds else ()
        change = Change(
            datasource=datasource, adds=new, drops=drops, takes_over=adds, covers=inside
        )
        publication = Publication(
            kind=CommitKind.REPLACE, changes=(change,), base_revision=self.oracle.head().revision
        )
        if later:
            self.pending.append(publication)
        else:
            self._publish(publication)

    @rule()
    def publish_late(self) -> None:
        if self.pending:
            self._publish(self.pending.pop(0))

    @rule(datasource=datasources, seed=seeds)
    def fold(self, datasource: str, seed: int) -> None:
        shown = self._shown(datasource)
        chosen = random.Random(seed).sample(sorted(shown), min(3, len(shown)))
        span = interval_set(piece for name in chosen for piece in shown[name]).span()
        if span is None:
            return
        change = Change(
            datasource=datasource,
            adds=(replace(self._segment(datasource, span), chunk=span),),
            drops=tuple(Drop(segment_id=name, expected=shown[name]) for name in chosen),
        )
        proof = ConservationProof(rows_in=1, rows_out=1, row_hash_in=None, row_hash_out=None)
        self._publish(
            Publication(
                kind=CommitKind.REWRITE,
                changes=(change,),
                proof=proof,
                base_revision=self.oracle.head().revision,
            )
        )

    @rule(name=st.sampled_from("ab"), value=st.none() | st.sampled_from(["", "x", "é\n", "ab"]))
    def change_lookup(self, name: str, value: str | None) -> None:
        mapping = None if value is None else {value: value}
        change = LookupChange(name=name, mapping=mapping)
        self._publish(Publication(kind=CommitKind.LOOKUP, lookups=(change,)))

    @rule(seed=seeds, forget=st.booleans())
    def trim(self, seed: int, forget: bool) -> None:
        def keep(heads: object) -> set[int]:
            assert isinstance(heads, list | tuple)
            chooser = random.Random(seed)
            return {
                head.revision for head in heads if isinstance(head, Head) and chooser.random() < 0.4
            }

        told = self.oracle.trim(keep=keep, dry_run=True)
        for store in (self.oracle, self.sqlite):
            assert store.trim(keep=keep, dry_run=False) == told
        if forget:
            for store in (self.oracle, self.sqlite):
                store.forget_segments([found.segment_id for found in told.trashed[::2]])

    @rule(name=st.sampled_from("xy"), back=st.integers(0, 5))
    def tag(self, name: str, back: int) -> None:
        revision = max(0, self.oracle.head().revision - back)
        self._same(lambda store: store.put_tag(name, revision))

    @rule(back=st.integers(0, 5), ttl_ms=st.sampled_from([1, 50]))
    def lease(self, back: int, ttl_ms: int) -> None:
        revision = max(0, self.oracle.head().revision - back)
        self._same(
            lambda store: store.acquire_lease(
                LeaseKind.READER, holder="test", ttl_ms=ttl_ms, revision=revision
            )
        )

    @invariant()
    def they_agree(self) -> None:
        if not hasattr(self, "sqlite"):
            return
        assert self.sqlite.check() == ()
        self._same(lambda store: store.log())
        self._same(lambda store: store.tags())
        self._same(lambda store: store.leases())
        self._same(lambda store: store.positions())
        self._same(lambda store: sorted(one.segment.segment_id for one in store.trashed()))
        self._same(lambda store: store.known_paths())
        self._same(lambda store: store.changes(after=0))
        mine, theirs = self.oracle.table_counts(), table_counts(self.sqlite)
        assert mine == {name: theirs[name] for name in mine}
        head = self.oracle.head().revision
        for revision in {None, *range(max(0, head - 12), head + 1, 3)}:
            self._same(lambda store, at=revision: store.lookups(at))
            self._same(lambda store, at=revision: store.datasources(at))
            for name in DATASOURCES:
                self._compare_states(name, revision)

    def _compare_states(self, name: str, revision: int | None) -> None:
        visible = self._same(lambda store: tuple(store.visible(name, revision=revision)))
        self._same(lambda store: store.columns(name, revision=revision))
        if visible is None:
            return  # trimmed: both say so
        state = self.states[self.oracle.head().revision if revision is None else revision]
        assert isinstance(visible, tuple)
        assert {one.entry.entry_id: one.entry for one in visible} == dict(
            state.entries.get(name, {})
        )
        assert self.sqlite.count_visible(name, revision=revision) == len(visible)
        some = interval_set(
            [Interval(5 * HOUR_MS, 6 * HOUR_MS), Interval(24 * HOUR_MS, 30 * HOUR_MS)]
        )
        within = self._same(
            lambda store: tuple(store.visible(name, revision=revision, intervals=some))
        )
        assert within == tuple(one for one in visible if one.entry.visible.intersect(some))
        late = self._same(lambda store: tuple(store.visible_late(name, revision=revision)))
        assert late == tuple(one for one in visible if one.segment.late is not None)
        if revision is None:
            self._same(lambda store: store.chunks(name))
            self._same(lambda store: store.chunks(name, interval=some.intervals[1]))

    def _publish(self, publication: Publication) -> None:
        self.clock.advance_ms(1)
        published = self._same(lambda store: store.publish(publication))
        if isinstance(published, Published) and published.commit is not None:
            revision = published.revision
            self.states[revision] = apply_commit(self.states[revision - 1], published.commit)
            for store in (self.oracle, self.sqlite):
                assert store.commit(revision) == published.commit

    def _same(self, ask: object) -> object:
        """Ask both; both answer alike, or refuse alike. None if they refuse."""
        assert callable(ask)
        answers = []
        for store in (self.oracle, self.sqlite):
            try:
                answers.append(ask(store))
            except CarnacError as error:
                answers.append((type(error), error.message, error.ids))
        assert answers[0] == answers[1]
        refused = isinstance(answers[0], tuple) and answers[0][:1] == (NotFound,)
        return None if refused else answers[0]

    def _shown(self, datasource: str) -> dict[str, IntervalSet]:
        shown: dict[str, IntervalSet] = {}
        for one in self.oracle.visible(datasource):
            known = shown.get(one.segment.segment_id, IntervalSet())
            shown[one.segment.segment_id] = known.union(one.entry.visible)
        return shown

    def _segment(self, datasource: str, span: Interval) -> Segment:
        self.made += 1
        day = span.start_ms // (24 * HOUR_MS) * 24 * HOUR_MS
        chunk = Interval(day, max(day + 24 * HOUR_MS, span.end_ms))
        kind = ColumnType.LONG if self.made % 3 else ColumnType.STRING
        return Segment(
            segment_id=f"s{self.made:05d}",
            datasource=datasource,
            chunk=chunk,
            path=f"{datasource}/{self.made}",
            size_bytes=self.made,
            rows=1 + self.made % 5,
            input_rows=5,
            min_time_ms=span.start_ms,
            max_time_ms=span.end_ms - 1,
            columns=(Column(name=f"c{self.made % 2}", type=kind, null_count=self.made),),
            late=LateRows(counts=(0, self.made, 0, 0, 0, 0)) if self.made % 4 == 0 else None,
        )


StoresMachine.TestCase.settings = settings(max_examples=max(3, settings().max_examples // 4))
TestStoresAgree = pytest.mark.timeout(900)(StoresMachine.TestCase)
