"""No limit of segments in a chunk: 100,000 in one hour, from publishing to the list that a query reads."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from carnac.core.log.commits import Change, CommitKind, ConservationProof, Drop, Publication
from carnac.core.segments.segment import Segment
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.metadata import open_metadata
from carnac.metadata.store import MetadataStore
from tests.support.clock import FakeClock, SequentialIds

pytestmark = pytest.mark.slow

COUNT = 100_000
HOUR = Interval(0, 3_600_000)
FOLDED = 60_000


def made(number: int) -> Segment:
    start_ms = number * 36
    return Segment(
        segment_id=f"s{number:06d}",
        datasource="events",
        chunk=HOUR,
        path=f"segments/s{number:06d}.parquet",
        size_bytes=1_000,
        rows=10,
        input_rows=10,
        min_time_ms=start_ms,
        max_time_ms=start_ms + 35,
        columns=(),
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MetadataStore]:
    opened = open_metadata(
        f"sqlite:///{tmp_path}/metadata.db", clock=FakeClock(), ids=SequentialIds()
    )
    assert isinstance(opened, MetadataStore)
    yield opened
    opened.close()


@pytest.mark.nightly("publishes a hundred thousand segments")
@pytest.mark.timeout(900)
def test_a_hundred_thousand_in_one_hour(store: MetadataStore) -> None:
    segments = [made(number) for number in range(COUNT)]
    change = Change(datasource="events", adds=tuple(segments), segment_granularity="hour")
    started = time.process_time()
    first = store.publish(Publication(kind=CommitKind.APPEND, changes=(change,)))
    filling_s = time.process_time() - started
    assert store.count_visible("events") == COUNT

    # an append costs what it adds, however full the chunk is
    started = time.process_time()
    late = replace(made(0), segment_id="late", path="segments/late.parquet")
    done = store.publish(
        Publication(kind=CommitKind.APPEND, changes=(Change(datasource="events", adds=(late,)),))
    )
    assert time.process_time() - started < filling_s / 20
    assert first.commit is not None
    assert done.commit is not None
    assert done.commit.changes[0].adds[0].partition_id == COUNT

    # a query of a minute reads the list of that minute
    minute = IntervalSet((Interval(60_000, 120_000),))
    found = store.visible("events", intervals=minute)
    assert {item.segment.segment_id for item in found} == {
        one.segment_id for one in segments if one.span.overlaps(minute.intervals[0])
    }

    fold_most(store, segments)


def fold_most(store: MetadataStore, segments: list[Segment]) -> None:
    """A minor compaction of most of them."""
    whole = replace(
        segments[0], segment_id="folded", path="segments/folded.parquet", rows=10 * FOLDED,
        max_time_ms=segments[FOLDED - 1].max_time_ms,
    )  # fmt: skip
    chosen = random.Random(1).sample(segments[:FOLDED], FOLDED)
    drops = tuple(
        Drop(segment_id=one.segment_id, expected=IntervalSet((one.span,))) for one in chosen
    )
    proof = ConservationProof(rows_in=1, rows_out=1, row_hash_in=1, row_hash_out=1)
    folded = store.publish(
        Publication(
            kind=CommitKind.REWRITE,
            changes=(Change(datasource="events", adds=(whole,), drops=drops),),
            base_revision=store.head().revision,
            proof=proof,
        )
    )
    assert folded.commit is not None
    (entry,) = folded.commit.changes[0].adds
    assert str(entry.overshadowed_ids) == f"0-{FOLDED - 1}", "a range, not 60,000 numbers"
    assert store.count_visible("events") == COUNT + 2 - FOLDED
