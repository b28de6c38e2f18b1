"""The ways of a rewrite held against one another, on random small inputs and targets.

One task of the Arrow engine says what is right; the same group shared out among tasks of Spark, and the same group
through Spark's own plan (a condition), must give the same rows, the same states, the same order and the same proof.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from carnac.clock import RandomIds, SystemClock
from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.deep_storage import open_deep_storage
from carnac.errors import CarnacError, Corrupt, Invalid
from carnac.jobs.pipeline import SparkPipeline
from carnac.ports import RewriteJob, RewriteResult, SegmentInput
from carnac.spark.session import SparkHolder
from tests.nightly import IS_NIGHTLY
from tests.support.segments import write_segment
from tests.unit.jobs.rewrite_cases import (
    KINDS,
    TINY,
    assert_same,
    in_one_task,
    random_case,
)
from tests.unit.rows.rows import CHUNK, read

SEEDS = 10 if IS_NIGHTLY else 2
LONG = pytest.mark.nightly("rewrites in all ways once more")


class OnSpark:
    """Runs jobs on Spark."""

    def __init__(self, folder: Path, holder: SparkHolder) -> None:
        self._folder, self._holder = folder, holder

    def run(self, jobs: Sequence[RewriteJob], memory_bytes: int | None = None) -> dict[str, Any]:
        ends: dict[str, RewriteResult | CarnacError] = {}
        SparkPipeline(
            output_url=(self._folder / "store").as_uri(),
            clock=SystemClock(),
            ids=RandomIds(),
            spark=self._holder,
            task_memory_bytes=memory_bytes,
        ).run_rewrites(jobs, on_end=lambda job, end: ends.update({job.key: end}))
        return ends


@pytest.fixture
def on_spark(tmp_path: Path, spark_holder: SparkHolder) -> OnSpark:
    return OnSpark(tmp_path, spark_holder)


@pytest.mark.parametrize(
    "kind", [*(pytest.param(one, marks=LONG) for one in KINDS[:-1]), KINDS[-1]]
)
def test_all_ways_give_the_same(on_spark: OnSpark, tmp_path: Path, kind: str) -> None:
    cases = [random_case(tmp_path, kind, seed) for seed in range(SEEDS)]
    right = in_one_task(tmp_path, [job for case in cases for job in (case.job, case.kept)])
    shared_out = on_spark.run([case.job for case in cases], TINY)
    with_condition = [
        replace(case.job, target=replace(case.job.target, filter=case.condition, allow_lossy=True))
        for case in cases
    ]
    planned = on_spark.run(with_condition)
    planned_small = on_spark.run(with_condition[:1], TINY)
    for case in cases:
        assert_same(tmp_path, right[case.job.key], shared_out[case.job.key])
        assert_same(tmp_path, right[case.kept.key], planned[case.job.key])
        if case.job.key in planned_small:
            assert_same(tmp_path, right[case.kept.key], planned_small[case.job.key])
    assert not list((tmp_path / "store" / "staging").glob("*"))


def test_a_condition_may_name_what_only_other_segments_have(
    on_spark: OnSpark, tmp_path: Path
) -> None:
    storage = open_deep_storage(str(tmp_path / "store"))
    old = write_segment(storage, [{"__time": 1, "d": "a"}, {"__time": 2, "d": "b"}], chunk=CHUNK)
    new = write_segment(storage, [{"__time": 3, "d": "c", "extra": 1}], chunk=CHUNK)
    target = CompactionTarget(filter="extra IS NULL AND d <> 'b'", allow_lossy=True)
    job = RewriteJob(
        key="one",
        datasource="events",
        chunks=(CHUNK,),
        inputs=tuple(
            SegmentInput(segment=one, visible=IntervalSet((one.span,))) for one in (old, new)
        ),
        target=target,
        is_whole=True,
    )
    done = on_spark.run([job])["one"]
    assert isinstance(done, RewriteResult), done
    assert [(row["d"], row["extra"]) for row in read(tmp_path, done.segments)] == [("a", None)]
    for of_no_row in ("false", "nowhere = 1"):  # what no segment has is null
        nothing = replace(job, target=replace(target, filter=of_no_row))
        done = on_spark.run([nothing])["one"]
        assert isinstance(done, RewriteResult), done
        assert done.segments == ()
    for wrong, says in (
        ("sum(extra) > 1", "an aggregate is not about one row"),
        ("d +", "the filter is wrong"),
    ):
        refused = on_spark.run([replace(job, target=replace(target, filter=wrong))])["one"]
        assert isinstance(refused, Invalid)
        assert says in str(refused)
    lossless = replace(job, target=replace(target, allow_lossy=False))
    refused = on_spark.run([lossless])["one"]
    assert isinstance(refused, Invalid)
    assert "leaves out rows" in str(refused)


def test_tasks_that_share_a_filtered_group_hand_on_the_columns_of_all(
    on_spark: OnSpark, tmp_path: Path
) -> None:
    """Each task handed on those of its own segments, in their order: Spark takes columns by place."""
    storage = open_deep_storage(str(tmp_path / "store"))
    inputs = [
        [{"__time": index, "a": "a", "b": "b", "n": 1} for index in range(300)],
        [{"__time": index, "b": "b", "a": "a"} for index in range(200)],
        [{"__time": index, "n": 0.5, "a": "b"} for index in range(100)],
    ]
    job = RewriteJob(
        key="one",
        datasource="events",
        chunks=(CHUNK,),
        inputs=tuple(
            SegmentInput(
                segment=write_segment(storage, rows, chunk=CHUNK),
                visible=IntervalSet((Interval(0, len(rows) - 10),)),
            )
            for rows in inputs
        ),
        target=CompactionTarget(filter="a = 'a'", allow_lossy=True, target_rows=150),
        is_whole=True,
    )
    done = on_spark.run([job], TINY)["one"]
    assert isinstance(done, RewriteResult), done
    found = Counter((row["a"], row["b"], row["n"]) for row in read(tmp_path, done.segments))
    assert found == {("a", "b", 1.0): 290, ("a", "b", None): 190}


def test_a_file_that_is_not_what_its_record_says_is_refused(
    on_spark: OnSpark, tmp_path: Path
) -> None:
    case = random_case(tmp_path, "raw", 1)
    first, *rest = case.job.inputs
    first = replace(
        first,
        segment=replace(first.segment, row_hash=first.segment.row_hash + 1),
        visible=IntervalSet((first.segment.span,)),
    )
    whole = [replace(one, visible=IntervalSet((one.segment.span,))) for one in rest]
    job = replace(
        case.job,
        inputs=(first, *whole),
        target=CompactionTarget(filter=case.condition, allow_lossy=True),
    )
    refused = on_spark.run([job])[job.key]
    assert isinstance(refused, Corrupt)
    assert first.segment.segment_id in str(refused)
    assert not list((tmp_path / "store" / "staging").glob("*"))
