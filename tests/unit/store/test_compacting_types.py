"""Columns that had several types over time: a query reads the same values before and after a compaction."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carnac.core.log.commits import CommitKind, Publication
from carnac.metadata.store import MetadataStore
from carnac.ports import Published, RewriteJob
from carnac.store import Store
from carnac.store.compacting.reports import GroupOutcome
from tests.support.clock import FakeClock, SequentialIds
from tests.support.stores import open_local_store
from tests.unit.store.events import NOW_MS, StampedPipeline, fast_folder, hour, spec

OpenStore = Callable[..., Store]
VALUES: dict[str, list[Any]] = {
    "boolean": [True, False, None],
    "long": [7, -1, (1 << 53) + 1, None],
    "float": [0.5, 7.0, 0.1, None],
    "double": [0.1, 7.0, 1e300, None],
    "string": ["7", "7.0", "x", None],
    "array<string>": [["7", "x"], ["7.0"], None],
    "array<long>": [[7, 8], None],
    "array<double>": [[7.0, 0.5], None],
}


def load(store: Store, number: int, day: int, **columns: str) -> None:
    """Publish a row for each value of the types of the columns, as one segment of a day."""
    dimensions: list[Any] = [{"name": "id", "type": "long"}]
    dimensions += [{"name": name, "type": kind} for name, kind in columns.items()]
    values = [VALUES[kind] for kind in columns.values()]
    rows = [
        {
            "t": hour(24 * day),
            "id": 100 * number + place,
            **{name: some[place % len(some)] for name, some in zip(columns, values, strict=True)},
        }
        for place in range(max(map(len, values)))
    ]
    store.ingest(spec(dimensions=dimensions), rows, allow_type_change=True)


def shown(store: Store) -> list[dict[str, Any]]:
    text = "SELECT id, v, typeof(v) AS kind, CAST(v AS VARCHAR) AS text, w FROM events ORDER BY id"
    return store.sql(text).rows()


@pytest.mark.slow
@settings(max_examples=min(25, max(5, settings().max_examples // 3)))  # one takes some 200 ms
@given(
    kinds=st.lists(
        st.tuples(st.sampled_from(sorted(VALUES)), st.sampled_from(["long", "double", "string"])),
        min_size=2,
        max_size=7,
    ),
    seed=st.integers(0, 2**32),
)
def test_a_query_reads_the_same_before_and_after_a_compaction(
    kinds: list[tuple[str, str]], seed: int
) -> None:
    rng = random.Random(seed)
    with (
        fast_folder() as folder,
        open_local_store(Path(folder), clock=FakeClock(NOW_MS), ids=SequentialIds()) as store,
    ):
        for number, (kind, other) in enumerate(kinds):
            load(store, number, rng.choice([0, 0, 1]), v=kind, w=other)
        before = shown(store)
        names = [item.segment.segment_id for item in store.segments("events")]
        chosen = sorted(rng.sample(names, rng.randint(1, len(names))))
        for some in (chosen, None, None):
            report = store.compact_interval("events", segments=some)
            assert {group.outcome for group in report.groups} == {GroupOutcome.COMMITTED}
            assert shown(store) == before
        assert [group.segments_in for group in report.groups] == [
            group.segments_out for group in report.groups
        ]


def test_numbers_are_put_together_as_long_as_no_query_reads_them_as_text(store: Store) -> None:
    for number, kind in enumerate(["long", "double", "boolean"]):
        load(store, number, 0, v=kind, w="long")
    store.compact_interval("events")
    assert len(store.segments("events")) == 1


@pytest.mark.parametrize(("day", "is_last_moment"), [(0, False), (1, False), (1, True)])
def test_texts_that_come_while_numbers_are_united_are_a_conflict(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, day: int, is_last_moment: bool
) -> None:
    store = open_store()
    publish = MetadataStore.publish

    def publish_late(metadata: MetadataStore, publication: Publication) -> Published:
        if publication.kind is CommitKind.REWRITE and is_last_moment:
            monkeypatch.setattr(MetadataStore, "publish", publish)
            load(store, 9, day, v="string", w="long")
        return publish(metadata, publication)

    class Late(StampedPipeline):
        def run_rewrites(self, jobs: list[RewriteJob], **more: Any) -> None:  # type: ignore[override]
            if not is_last_moment:
                load(store, 9, day, v="string", w="long")
            super().run_rewrites(jobs, **more)

    monkeypatch.setattr(MetadataStore, "publish", publish_late)
    load(store, 0, 0, v="long", w="long")
    load(store, 1, 0, v="double", w="long")
    names = [item.segment.segment_id for item in store.segments("events")]
    (group,) = open_store(pipeline=Late).compact_interval("events", segments=names).groups
    assert group.outcome is GroupOutcome.CONFLICT
    assert "column v of events became text" in str(group.error)
    assert [row["text"] for row in shown(store)][:1] == ["7"]
    assert open_store().compact_interval("events").count(GroupOutcome.CONFLICT) == 0
    assert [row["text"] for row in shown(store)][:1] == ["7"]
