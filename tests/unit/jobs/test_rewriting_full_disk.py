"""A rewrite that finds no room: one sentence that says what to do, nothing left behind, and its neighbours go on.

The room is what a process may write into one file (`RLIMIT_FSIZE`), which needs no disk of its own.
"""

from __future__ import annotations

import random
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from carnac.core.compaction.plan.groups import CompactionTarget, Partitioning
from carnac.core.log.laws import conserves
from carnac.core.segments.segment import Segment
from carnac.core.time.intervals import IntervalSet
from carnac.errors import CarnacError, DiskFull, Unavailable
from carnac.jobs.compact.job import result_of, rewrite_all
from carnac.jobs.compact.shape import plan_input_groups
from carnac.jobs.compact.task import GroupTask
from carnac.ports import RewriteResult, SegmentInput
from carnac.rows.output import WASTE
from carnac.spark.failures import TaskFailure, load_failure, of_task
from carnac.spark.progress import Tally
from carnac.spark.tasks import Attempt, guarded
from tests.unit.jobs.rewrite_cases import AMPLE, TINY, group_task, raw_row, scatter_job, write_raw

HASHED = CompactionTarget(partitioning=Partitioning(kind="hashed", buckets=1))
SORTED = CompactionTarget(sort_by=("d", "n"))
LITTLE = 3_000
"""Bytes that a file may have: more than those of a few rows, less than those of many."""
MANY, FEW = 600, 5


@contextmanager
def room_of(size_bytes: int) -> Iterator[None]:
    """Let no file grow larger than this."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def task_of(folder: Path, rows: int, target: CompactionTarget, memory_bytes: int) -> GroupTask:
    rng = random.Random(rows)
    segments = write_raw(
        folder, [[raw_row(rng) for _ in range(rows)] for _ in range(2)], f"in{rows}"
    )
    inputs = [SegmentInput(segment=one, visible=IntervalSet((one.span,))) for one in segments]
    (input_group,) = plan_input_groups(inputs, target)
    return group_task(
        folder,
        input_group,
        target,
        path_prefix=f"out{rows}",
        id_prefix=f"out{rows}",
        temp_dir=str(folder / "temp" / f"job{rows}"),
        memory_bytes=memory_bytes,
    )


def files_of(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


def in_one_task(tasks: Sequence[GroupTask]) -> list[CarnacError | RewriteResult]:
    """Run the jobs as one task of Spark does."""
    attempt = Attempt(0, Tally(None))
    try:
        ends = rewrite_all([(one,) for one in tasks], attempt)
    except Exception as error:  # what Spark would try again
        return [of_task(error)]
    return [
        result_of(end.input_groups) if end.failure is None else load_failure(end.failure)
        for end in ends
    ]


def shared_out(tasks: Sequence[GroupTask]) -> list[CarnacError | RewriteResult]:
    """Run each job as tasks that share it do."""
    ends: list[CarnacError | RewriteResult] = []
    for one in tasks:
        staging = Path(one.temp_dir).parents[1] / "store" / "staging" / one.id_prefix
        try:
            done = scatter_job(one, str(staging)).run()
            ends.append(result_of([done]))
        except CarnacError as error:
            ends.append(error)
    return ends


WAYS: dict[str, tuple[Callable[[Sequence[GroupTask]], Any], CompactionTarget, int]] = {
    "in memory": (in_one_task, SORTED, AMPLE),
    "staged": (in_one_task, HASHED, AMPLE),
    "range by range": (in_one_task, SORTED, TINY),
    "shared out": (shared_out, SORTED, TINY),
}


@pytest.mark.parametrize("size_bytes", [0, 100, LITTLE])
@pytest.mark.parametrize("way", sorted(WAYS))
def test_a_rewrite_without_room_says_so_and_leaves_nothing(
    way: str, size_bytes: int, tmp_path: Path
) -> None:
    run, target, memory_bytes = WAYS[way]
    task = task_of(tmp_path, MANY, target, memory_bytes)
    before = files_of(tmp_path)
    with room_of(size_bytes):
        (error,) = run([task])
    assert isinstance(error, Unavailable), error
    assert "is full; " in error.message
    assert "make room and run the job again" in error.message
    assert files_of(tmp_path) == before
    (done,) = run([task])
    assert isinstance(done, RewriteResult)
    assert conserves(done.proof)
    assert sum(one.rows for one in done.segments) == 2 * MANY


def test_of_jobs_that_share_a_task_the_one_that_fits_is_done(tmp_path: Path) -> None:
    tasks = [task_of(tmp_path, rows, SORTED, AMPLE) for rows in (MANY, FEW)]
    before = files_of(tmp_path)
    with room_of(LITTLE):
        (large, small) = in_one_task(tasks)
    assert isinstance(large, DiskFull)
    assert large.ids[WASTE] == LITTLE, "what was written until the room ended"
    assert isinstance(small, RewriteResult)
    (segment,) = small.segments
    assert files_of(tmp_path) - before == {tmp_path / "store" / segment.path}


def test_what_fits_beside_what_does_not_is_wasted_with_it(tmp_path: Path) -> None:
    target = CompactionTarget(target_rows=MANY, sort_by=("d",))
    task = task_of(tmp_path, MANY, target, AMPLE)
    (whole,) = in_one_task([task])
    assert isinstance(whole, RewriteResult)
    sizes = [one.size_bytes for one in whole.segments]
    for one in whole.segments:
        (tmp_path / "store" / one.path).unlink()
    assert len(sizes) == 2
    assert sizes[0] < sizes[1], "the example is one in which the first file fits"
    with room_of(sizes[0]):
        (error,) = in_one_task([task])
    assert isinstance(error, DiskFull)
    assert error.ids[WASTE] == 2 * sizes[0]


def test_deep_storage_without_room_is_not_tried_again_at_once() -> None:
    def fail(error: CarnacError, _attempt: Attempt) -> list[Segment]:
        raise error

    failure, result = guarded(fail, DiskFull("full", path="x"), Tally(None))
    assert result is None
    assert isinstance(load_failure(failure or ""), DiskFull)
    with pytest.raises(TaskFailure):
        guarded(fail, Unavailable("asleep"), Tally(None))
