from __future__ import annotations

import random
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from carnac.clock import RandomIds, SystemClock
from carnac.core.compaction.plan.groups import CompactionTarget, Partitioning
from carnac.core.log.laws import conserves
from carnac.core.segments.segment import RangePartition
from carnac.core.time.granularity import HOUR
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.deep_storage import open_deep_storage
from carnac.errors import CarnacError, Conflict, Corrupt
from carnac.jobs.compact import spread as compact_spread
from carnac.jobs.pipeline import SparkPipeline
from carnac.ports import RewriteJob, RewriteResult, SegmentInput
from carnac.spark.session import SparkHolder
from tests.integration.spark.rows import files_below, rows_of
from tests.support.segments import write_segment

DAY_MS = 86_400_000
WORDS = [None, "", "ä", "a", "b", "zz"]
TINY = 1 << 16
"""Memory of a task that holds none of the groups below."""
Ends = dict[str, RewriteResult | CarnacError]
Rewrite = Callable[..., Ends]


def make_job(
    folder: Path, key: str, *, day: int = 0, segments: int = 4, rows: int = 500
) -> RewriteJob:
    """Write small segments of a day, and return the job that puts them together."""
    rng = random.Random(f"{key}-{day}")
    storage = open_deep_storage(str(folder))
    chunk = Interval(day * DAY_MS, (day + 1) * DAY_MS)
    written = [
        write_segment(
            storage,
            [
                {
                    "__time": chunk.start_ms + rng.randrange(DAY_MS // 1000) * 1000,
                    "d": rng.choice(WORDS),
                    "n": rng.choice([None, 1, 2, -3]),
                    "x": rng.random(),
                }
                for _ in range(rows)
            ],
            segment_id=f"{key}-{number}",
            chunk=chunk,
        )
        for number in range(segments)
    ]
    return RewriteJob(
        key=key,
        datasource="events",
        chunks=(chunk,),
        inputs=tuple(
            SegmentInput(segment=segment, visible=IntervalSet((segment.span,)))
            for segment in written
        ),
        target=CompactionTarget(),
        is_whole=True,
    )


def with_target(job: RewriteJob, **target: object) -> RewriteJob:
    return replace(job, target=CompactionTarget(**target))  # type: ignore[arg-type]


@pytest.fixture
def rewrite(spark_holder: SparkHolder, deep_storage: Path) -> Rewrite:
    """Run jobs on Spark, and return how each ended."""

    def run(*jobs: RewriteJob, memory_bytes: int | None = None, **more: object) -> Ends:
        pipeline = SparkPipeline(
            output_url=deep_storage.as_uri(),
            clock=SystemClock(),
            ids=RandomIds(),
            spark=spark_holder,
            task_memory_bytes=memory_bytes,
        )
        ends: Ends = {}

        def on_end(job: RewriteJob, end: RewriteResult | CarnacError) -> None:
            ends[job.key] = end

        pipeline.run_rewrites(
            jobs,
            on_end=on_end,
            **more,  # type: ignore[arg-type]
        )
        return ends

    return run


def result(ends: Ends, key: str) -> RewriteResult:
    end = ends[key]
    assert isinstance(end, RewriteResult), end
    assert conserves(end.proof)
    return end


def test_many_groups_and_one_that_fails(rewrite: Rewrite, deep_storage: Path) -> None:
    jobs = [make_job(deep_storage, f"day-{day}", day=day) for day in range(5)]
    lost = jobs[2].inputs[1].segment
    (deep_storage / lost.path).unlink()
    ends = rewrite(*jobs)
    assert len(ends) == 5
    for job in jobs[:2] + jobs[3:]:
        written = result(ends, job.key).segments
        assert [segment.rows for segment in written] == [2000]
        before = rows_of(deep_storage, [source.segment for source in job.inputs])
        assert rows_of(deep_storage, written) == before
    assert isinstance(ends["day-2"], Corrupt)
    assert lost.segment_id in str(ends["day-2"])
    kept = {
        segment.path for key in ends if key != "day-2" for segment in result(ends, key).segments
    }
    inputs = {source.segment.path for job in jobs for source in job.inputs} - {lost.path}
    assert set(files_below(deep_storage)) == kept | inputs


def test_a_group_of_many_time_chunks_is_spread_over_tasks(
    rewrite: Rewrite, deep_storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compact_spread, "ROWS_PER_RANGE", 5_000)
    job = make_job(deep_storage, "wide", segments=3)
    hours = tuple(HOUR.buckets(job.chunks[0]))
    wide = replace(with_target(job, segment_granularity="HOUR"), chunks=hours)
    written = result(rewrite(wide), "wide").segments
    assert [segment.chunk for segment in written] == list(hours)
    tasks = {re.findall(r"r(\d+)c\d+", segment.segment_id)[-1] for segment in written}
    assert tasks == {"0", "1", "2", "3"}
    before = rows_of(deep_storage, [source.segment for source in job.inputs])
    assert rows_of(deep_storage, written) == before
    lost = job.inputs[1].segment
    (deep_storage / lost.path).unlink()
    assert isinstance(rewrite(wide)["wide"], Corrupt)
    kept = {segment.path for segment in written} | {one.segment.path for one in job.inputs}
    assert set(files_below(deep_storage)) == kept - {lost.path}, "what was written is removed"


@pytest.mark.parametrize(
    "target",
    [
        {"target_rows": 300},
        {"target_rows": 300, "partitioning": Partitioning(kind="range", dimensions=("d", "n"))},
        {"target_rows": 300, "partitioning": Partitioning(kind="hashed", dimensions=("d",))},
        {"sort_by": ("n", "d", "__time"), "target_rows": 300},
        {"sort_by": ("x",)},
    ],
    ids=["by time", "range", "hashed", "sorted", "by a double"],
)
def test_a_group_larger_than_memory_becomes_the_same(
    rewrite: Rewrite, deep_storage: Path, target: dict[str, object]
) -> None:
    job = with_target(make_job(deep_storage, "small", rows=600), **target)
    small = result(rewrite(job), "small").segments
    large = result(rewrite(job, memory_bytes=TINY), "small").segments
    assert rows_of(deep_storage, large) == rows_of(deep_storage, small)
    assert sum(segment.row_hash for segment in large) % 2**64 == (
        sum(segment.row_hash for segment in small) % 2**64
    )
    assert len(large) <= len(small) + 2
    for segment in (*small, *large):
        assert segment.sort_columns == small[0].sort_columns
    ranges = [
        segment.partition for segment in large if isinstance(segment.partition, RangePartition)
    ]
    for left, right in pairwise(ranges):
        assert left.end == right.start
    if ranges:
        assert (ranges[0].start, ranges[-1].end) == (None, None)
    assert not list((deep_storage / "staging").glob("*"))


def test_a_cancelled_group_leaves_the_others_alone(rewrite: Rewrite, deep_storage: Path) -> None:
    doomed = make_job(deep_storage, "doomed", rows=400)
    others = [make_job(deep_storage, f"day-{day}", day=day) for day in (1, 2)]
    asked = threading.Event()

    def find_cancel_reason(job: RewriteJob) -> CarnacError | None:
        if job.key != "doomed":
            return None
        asked.set()
        return Conflict("segment doomed-0 was replaced meanwhile; plan again")

    ends = rewrite(doomed, *others, find_cancel_reason=find_cancel_reason)
    assert asked.is_set()
    assert isinstance(ends["doomed"], Conflict)
    for job in others:
        result(ends, job.key)


def test_groups_given_up_together_have_each_its_own_reason(
    rewrite: Rewrite, deep_storage: Path
) -> None:
    """They share a task; who is asked for reasons answers once, as one does that looks at most once a second.

    There are so many inputs that the task is looked at before it is done: more, where it was not.
    """
    asked: Counter[str] = Counter()

    def find_cancel_reason(job: RewriteJob) -> CarnacError | None:
        asked[job.key] += 1
        return Conflict(f"an input of {job.key} is gone") if asked[job.key] == 2 else None

    for segments in (32, 64, 128):
        jobs = [
            make_job(deep_storage, f"day-{day}-{segments}", day=day, segments=segments, rows=50)
            for day in range(30)
        ]
        ends = rewrite(*jobs, find_cancel_reason=find_cancel_reason)
        if max(asked[job.key] for job in jobs) > 1:
            break
    assert {key: str(end) for key, end in ends.items()} == {
        job.key: f"an input of {job.key} is gone" for job in jobs
    }


def test_what_a_group_had_written_when_it_was_given_up_is_told(
    rewrite: Rewrite, deep_storage: Path
) -> None:
    """It is cancelled once the first of its files are there; those of the second input group are never written."""
    job = make_job(deep_storage, "doomed", segments=2, rows=2000)
    first, second = job.inputs
    hourly = replace(second, segment=replace(second.segment, query_granularity="HOUR"))
    job = replace(job, inputs=(first, hourly), target=CompactionTarget(target_rows=300))
    inputs = set(files_below(deep_storage))
    seen: list[int] = []
    wasted: dict[str, int] = {}

    def find_cancel_reason(_: RewriteJob) -> CarnacError | None:
        written = set(files_below(deep_storage)) - inputs
        sizes = [
            path.stat().st_size
            for name in written
            if name.startswith("segments/") and (path := deep_storage / name).exists()
        ]
        if not sum(sizes):  # a file may have begun, and hold nothing yet
            return None
        seen.append(sum(sizes))
        return Conflict("segment doomed-0 was replaced meanwhile; plan again")

    def note_waste(job: RewriteJob, size_bytes: int) -> None:
        wasted[job.key] = size_bytes

    ends = rewrite(
        job, find_cancel_reason=find_cancel_reason, on_waste=note_waste, memory_bytes=TINY
    )
    assert isinstance(ends["doomed"], Conflict)
    assert wasted["doomed"] >= seen[0] > 0
    # a worker that Spark killed while it wrote leaves a part of a file, which is an orphan; whole ones are removed
    left = set(files_below(deep_storage)) - inputs
    assert [name for name in left if not name.endswith(".part")] == []
    assert not list((deep_storage / "staging").glob("*"))
