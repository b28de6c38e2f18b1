"""A chunk ten times larger than a task's memory is rewritten in a process that the kernel lets have little more."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.log.laws import conserves
from carnac.core.segments.segment import ColumnType, Segment
from carnac.core.time.intervals import IntervalSet
from carnac.deep_storage import open_deep_storage
from carnac.jobs.compact.conservation import prove
from carnac.jobs.compact.scatter import rewrite_in_task
from carnac.jobs.compact.shape import plan_input_groups
from carnac.ports import SegmentInput
from carnac.spark.progress import Tally
from carnac.spark.tasks import Attempt
from tests.support.segments import write_segment
from tests.unit.jobs.rewrite_cases import group_task
from tests.unit.rows.rows import CHUNK, DAY_MS

MIB = 1 << 20
MEMORY = 32 * MIB
ROWS, COPIES = 30_000, 20
TEXT_BYTES = 512
LIMIT = 6 * MEMORY
"""What the process may take beyond what it has when it begins: far less than the rows."""


def make_inputs(folder: Path) -> list[Segment]:
    """Write one segment, and link its file under other names."""
    rng = random.Random(1)
    rows = [
        {
            "__time": rng.randrange(DAY_MS),
            "text": rng.randbytes(TEXT_BYTES // 2).hex(),
            "word": rng.choice("abc"),
            "n": index,
        }
        for index in range(ROWS)
    ]
    types = {"text": ColumnType.STRING, "word": ColumnType.STRING, "n": ColumnType.LONG}
    storage = open_deep_storage(str(folder))
    first = write_segment(storage, rows, types=types, segment_id="s0", chunk=CHUNK)
    made = [first]
    for copy in range(1, COPIES):
        path = first.path.replace("s0", f"s{copy}")
        os.link(folder / first.path, folder / path)
        made.append(replace(first, segment_id=f"s{copy}", path=path))
    return made


def rewrite(folder: Path, segments: Sequence[Segment], target_rows: int) -> tuple[int, list[int]]:
    """Rewrite within the limit; return the bytes that were taken at most, and the rows of each segment."""
    import duckdb  # noqa: F401  # is there before, so it does not count
    import pyarrow.dataset
    import pyarrow.parquet  # noqa: F401

    data_kib = next(
        int(line.split()[1])
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmData")
    )
    limit = data_kib * 1024 + LIMIT
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    target = CompactionTarget(target_rows=target_rows, sort_by=("text", "__time"))
    inputs = [SegmentInput(segment=one, visible=IntervalSet((one.span,))) for one in segments]
    [input_group] = plan_input_groups(inputs, target)
    done = rewrite_in_task(
        group_task(folder, input_group, target, output_url=folder.as_uri(), memory_bytes=MEMORY),
        Attempt(0, Tally(None)),
    )
    assert conserves(prove([done.went_in], [done.came_out]))
    taken = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    return taken, [segment.rows for segment in done.segments]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's limits")
def test_a_chunk_ten_times_larger_than_memory_becomes_one_segment(tmp_path: Path) -> None:
    segments = make_inputs(tmp_path)
    rows = ROWS * COPIES
    assert rows * TEXT_BYTES > 9 * MEMORY
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        taken, written = pool.submit(rewrite, tmp_path, segments, rows).result(120)
    assert written == [rows]
    assert taken < LIMIT
    assert not (tmp_path / "temp").exists()
