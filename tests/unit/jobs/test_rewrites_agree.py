"""The ways of a rewrite held against one another, without Spark: random inputs and targets, little memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.log.laws import conserves
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.core.time.periods import DAY_MS
from carnac.deep_storage import open_deep_storage
from carnac.errors import Corrupt
from carnac.jobs.compact import spread as compact_spread
from carnac.jobs.compact.job import result_of, rewrite_all
from carnac.jobs.compact.shape import plan_input_groups
from carnac.jobs.compact.spread import join_ranges, spread_chunks
from carnac.jobs.compact.task import GroupTask
from carnac.ports import RewriteJob, RewriteResult, SegmentInput
from carnac.spark.progress import Tally
from carnac.spark.tasks import Attempt
from tests.support.segments import write_segment
from tests.unit.jobs.rewrite_cases import (
    AMPLE,
    KINDS,
    TINY,
    assert_same,
    group_task,
    in_one_task,
    random_case,
    scatter_job,
)
from tests.unit.store.events import fast_folder

pytestmark = pytest.mark.usefixtures("shared_connection")

SMALL = 1 << 17
"""Memory of a task that holds one range of the groups at a time."""


def shared_out(folder: Path, job: RewriteJob, memory_bytes: int) -> RewriteResult:
    """Rewrite a group as several tasks do, one after the other."""
    staging_url = str(folder / "staging" / "job")
    return result_of(
        [scatter_job(task, staging_url).run() for task in group_tasks(folder, job, memory_bytes)]
    )


def spread_out(folder: Path, job: RewriteJob, memory_bytes: int) -> RewriteResult:
    """Rewrite a group by ranges of time chunks, as several tasks do, one after the other."""
    input_groups = group_tasks(folder, job, memory_bytes)
    ranges = spread_chunks(input_groups, cores=2)
    ends = rewrite_all(ranges, Attempt(0, Tally(None)))
    assert [one.failure for one in ends] == [None] * len(ranges)
    return result_of(join_ranges(input_groups, ranges, [one.input_groups for one in ends]))


def group_tasks(folder: Path, job: RewriteJob, memory_bytes: int) -> list[GroupTask]:
    return [
        group_task(
            folder,
            input_group,
            job.target,
            chunks=job.chunks,
            id_prefix=f"out{memory_bytes}f{number}",
            memory_bytes=memory_bytes,
            is_whole=job.is_whole,
        )
        for number, input_group in enumerate(
            plan_input_groups(job.inputs, job.target, job.kept_apart)
        )
    ]


@pytest.mark.slow
@settings(max_examples=max(1, settings().max_examples // 30))  # one takes some 300 ms
@given(seed=st.integers(0, 2**32))
@pytest.mark.parametrize("kind", KINDS)
def test_tasks_that_share_a_group_give_what_one_task_gives(kind: str, seed: int) -> None:
    with fast_folder() as name:
        folder = Path(name)
        job = random_case(folder, kind, seed).job
        right = in_one_task(folder, [job])[job.key]
        for memory_bytes in (TINY, SMALL):
            assert_same(folder, right, shared_out(folder, job, memory_bytes))
        assert not (folder / "staging").exists()


@pytest.mark.slow
@settings(max_examples=max(1, settings().max_examples // 30))
@given(seed=st.integers(0, 2**32))
@pytest.mark.parametrize("kind", KINDS)
def test_a_group_spread_by_ranges_of_chunks_gives_what_one_task_gives(kind: str, seed: int) -> None:
    with fast_folder() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(compact_spread, "ROWS_PER_FILE", 1)
        patch.setattr(compact_spread, "ROWS_PER_RANGE", 1)
        folder = Path(name)
        job = random_case(folder, kind, seed).job
        right = in_one_task(folder, [job])[job.key]
        for memory_bytes in (TINY, AMPLE):
            assert_same(folder, right, spread_out(folder, job, memory_bytes))


@pytest.mark.parametrize("mistake", [{"rows": 4}, {"row_hash": 5}], ids=["a row", "a value"])
def test_what_no_range_has_read_is_missed_by_all_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: dict[str, int]
) -> None:
    monkeypatch.setattr(compact_spread, "ROWS_PER_FILE", 1)
    monkeypatch.setattr(compact_spread, "ROWS_PER_RANGE", 1)
    where = days(4)
    rows = [{"__time": chunk.start_ms, "d": "a", "n": 1} for chunk in where]
    storage = open_deep_storage(str(tmp_path / "store"))
    segment = write_segment(storage, rows, segment_id="wide", chunk=Interval(0, 4 * DAY_MS))
    target = CompactionTarget(segment_granularity="DAY")
    job = RewriteJob(key="j", datasource="d", chunks=where, inputs=(), target=target, is_whole=True)
    visible = IntervalSet((segment.span,))
    right = replace(job, inputs=(SegmentInput(segment=segment, visible=visible),))
    done = spread_out(tmp_path, right, AMPLE)
    assert conserves(done.proof)
    assert len(done.segments) == done.proof.rows_in == 4
    more = {name: getattr(segment, name) + value for name, value in mistake.items()}
    wrong = SegmentInput(segment=replace(segment, **more), visible=visible)
    with pytest.raises(Corrupt, match=r"wide does not hold the rows .*; run 'verify'"):
        spread_out(tmp_path, replace(job, inputs=(wrong,)), AMPLE)


def days(count: int) -> tuple[Interval, ...]:
    return tuple(Interval(number * DAY_MS, (number + 1) * DAY_MS) for number in range(count))


@pytest.mark.parametrize(
    ("chunks", "rows", "cores", "ranges"),
    [
        pytest.param(1, 10**7, 2, 1, id="one time chunk"),
        pytest.param(2, 10**7, 1, 1, id="one core"),
        pytest.param(100, 1000, 2, 1, id="little work"),
        pytest.param(200, 1000, 8, 2, id="many files"),
        pytest.param(3, 10**7, 8, 3, id="few time chunks"),
        pytest.param(400, 10**7, 2, 4, id="twice as many as cores"),
    ],
)
def test_into_how_many_ranges_a_group_is_spread(
    tmp_path: Path, chunks: int, rows: int, cores: int, ranges: int
) -> None:
    where = days(chunks)
    segment = write_segment(
        open_deep_storage(str(tmp_path)),
        [{"__time": 0, "d": "a"}, {"__time": where[-1].end_ms - 1, "d": "b"}],
        segment_id="wide",
        chunk=Interval(0, where[-1].end_ms),
    )
    source = SegmentInput(segment=replace(segment, rows=rows), visible=IntervalSet((segment.span,)))
    job = RewriteJob(
        key="j",
        datasource="d",
        chunks=where,
        inputs=(source,),
        target=CompactionTarget(segment_granularity="DAY"),
        is_whole=True,
    )
    found = spread_chunks(group_tasks(tmp_path, job, AMPLE), cores)
    assert len(found) == ranges
    assert tuple(chunk for (task,) in found for chunk in task.chunks) == where
    assert len({(task.id_prefix, task.temp_dir) for (task,) in found}) == ranges
    shown = [task.input_group.inputs[0].visible.intervals for (task,) in found]
    assert [piece.start_ms for (piece,) in shown][1:] == [piece.end_ms for (piece,) in shown][:-1]
