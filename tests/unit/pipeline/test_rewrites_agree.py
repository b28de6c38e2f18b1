"""The ways of a rewrite held against one another, without Spark: random inputs and targets, little memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carnac.pipeline.compact_job import result_of
from carnac.pipeline.compact_scatter import ScatterJob, TaskRunner
from carnac.pipeline.compact_shape import plan_families
from carnac.pipeline.compact_task import FamilyTask
from carnac.pipeline.progress import Tally
from carnac.pipeline.tasks import Attempt
from carnac.ports import RewriteJob, RewriteResult
from tests.unit.pipeline.rewrite_cases import KINDS, TINY, assert_same, in_one_task, random_case
from tests.unit.store.events import fast_folder

SMALL = 1 << 17
"""Memory of a task that holds one range of the groups at a time."""


def shared_out(folder: Path, job: RewriteJob, memory_bytes: int) -> RewriteResult:
    """Rewrite a group as several tasks do, one after the other."""
    runner = TaskRunner(Attempt(0, Tally(None)))
    staging_url = str(folder / "staging" / "job")
    return result_of(
        [
            ScatterJob(
                FamilyTask(
                    datasource=job.datasource,
                    family=family,
                    target=job.target,
                    chunks=job.chunks,
                    output_url=(folder / "store").as_uri(),
                    path_prefix="out",
                    id_prefix=f"out{memory_bytes}",
                    created_at_ms=9,
                    temp_dir=str(folder / "temp"),
                    memory_bytes=memory_bytes,
                    is_whole=job.is_whole,
                ),
                runner,
                staging_url=staging_url,
                cores=2,
            ).run()
            for family in plan_families(job.inputs, job.target)
        ]
    )


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
