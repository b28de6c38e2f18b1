"""How a rewrite that tasks share is cut: evenly where rows are sorted already, and no finer than chunks need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.log.laws import conserves
from carnac.core.segments.segment import ColumnType, Segment
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.jobs.compact.conservation import prove
from carnac.jobs.compact.cuts import rows_by_chunk
from carnac.jobs.compact.parts import Scattered, ScatterTask
from carnac.jobs.compact.read import chunk_numbers
from carnac.jobs.compact.scatter import Gathered, GatherTask, ScatterJob
from carnac.jobs.compact.shape import plan_input_groups
from carnac.ports import SegmentInput
from carnac.rows.segment_writer import SegmentWriter
from tests.support.segments import record_of
from tests.unit.jobs.rewrite_cases import gather_here, group_task, scatter_here
from tests.unit.rows.rows import CHUNK, read

HOUR_MS = 3_600_000
COLUMNS = (("d", ColumnType.STRING), ("n", ColumnType.LONG))


class Recorder:
    """Runs tasks one after the other, and remembers what they were and gave."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.parts = 0

    def scatter(self, tasks: Sequence[ScatterTask]) -> list[Scattered]:
        done = scatter_here(tasks)
        self.parts += sum(len(one.parts) for one in done)
        return done

    def gather(self, tasks: Sequence[GatherTask]) -> list[Gathered]:
        self.rows += [sum(part.rows for part in task.parts) for task in tasks]
        return gather_here(tasks)


def write(folder: Path, name: str, words: Sequence[str], times_ms: Sequence[int]) -> Segment:
    """Write a segment of row groups of 200 rows."""
    path, temp_dir = f"{name}.parquet", str(folder / "temp")
    micros = pa.array([at_ms * 1000 for at_ms in times_ms], pa.int64())
    table = pa.table(
        {
            "__time": micros.cast(pa.timestamp("us", tz="UTC")),
            "d": pa.array(words),
            "n": pa.array(range(len(words)), pa.int64()),
        }
    )
    root = (folder / "store").as_uri()
    with SegmentWriter(root, path, COLUMNS, temp_dir=temp_dir, row_group_rows=200) as writer:
        writer.write(table)
        written = writer.finish()
    return record_of(written, segment_id=name, datasource="events", chunk=CHUNK, path=path)


def shared_out(
    folder: Path, segments: Sequence[Segment], chunks: Sequence[Interval], memory_bytes: int
) -> Recorder:
    """Rewrite the segments by text as many tasks do; every row must be kept and lie in its chunk."""
    target = CompactionTarget(target_rows=500, sort_by=("d", "__time"))
    inputs = [SegmentInput(segment=one, visible=IntervalSet((one.span,))) for one in segments]
    [input_group] = plan_input_groups(inputs, target)
    recorder = Recorder()
    done = ScatterJob(
        group_task(folder, input_group, target, chunks=tuple(chunks), memory_bytes=memory_bytes),
        recorder.scatter,
        recorder.gather,
        staging_url=str(folder / "staging"),
        cores=2,
    ).run()
    assert conserves(prove([done.went_in], [done.came_out]))
    for segment in done.segments:
        assert all(segment.chunk.holds(row["__time"]) for row in read(folder, [segment]))
    return recorder


def test_rows_that_are_sorted_already_are_shared_out_evenly(tmp_path: Path) -> None:
    """Of the first row group alone, which holds the least words, all cuts were in its tenth of the rows."""
    rng = np.random.default_rng(5)
    words = sorted(f"{number:06}" for number in rng.integers(0, 10**6, 2000).tolist())
    segment = write(tmp_path, "large", words, rng.integers(0, 24 * HOUR_MS, 2000).tolist())
    recorder = shared_out(tmp_path, [segment], [CHUNK], 1 << 16)
    assert len(recorder.rows) == 4
    assert max(recorder.rows) < 600


def test_many_chunks_are_not_each_cut_as_if_they_were_the_whole(tmp_path: Path) -> None:
    """One part file for each chunk and task: a hundred rows of an hour need no ranges."""
    rng = np.random.default_rng(6)
    segments = [
        write(
            tmp_path,
            f"s{index}",
            [f"w{number}" for number in rng.integers(0, 300, 1200).tolist()],
            np.sort(rng.integers(0, 24 * HOUR_MS, 1200)).tolist(),
        )
        for index in range(2)
    ]
    hours = [Interval(hour * HOUR_MS, (hour + 1) * HOUR_MS) for hour in range(24)]
    recorder = shared_out(tmp_path, segments, hours, 1 << 16)
    assert recorder.parts == 2 * 24
    assert len(recorder.rows) == 24


@given(st.data())
def test_every_row_is_found_in_its_chunk_or_in_none(data: st.DataObject) -> None:
    edges = sorted(data.draw(st.sets(st.integers(-50, 50), min_size=2, max_size=9)))
    pairs = list(zip(edges[::2], edges[1::2], strict=False))
    chunks = [Interval(start, end) for start, end in pairs]
    times = np.array(data.draw(st.lists(st.integers(-60_000, 60_000), max_size=20)), np.int64)
    expected = [
        next((n for n, chunk in enumerate(chunks) if chunk.holds(at_us // 1000)), -1)
        for at_us in times.tolist()
    ]
    assert chunk_numbers(times, chunks).tolist() == expected


def test_rows_of_a_chunk_are_estimated_from_what_clips_show(tmp_path: Path) -> None:
    segment = write(tmp_path, "s", ["a"] * 101, [place * HOUR_MS // 10 for place in range(101)])
    early = SegmentInput(segment=segment, visible=IntervalSet((Interval(0, 5 * HOUR_MS),)))
    whole = SegmentInput(segment=segment, visible=IntervalSet((segment.span,)))
    hours = [Interval(hour * HOUR_MS, (hour + 1) * HOUR_MS) for hour in range(12)]
    found = rows_by_chunk([early, whole], hours)
    assert found[:5] == pytest.approx([20.2] * 5, rel=1e-3)
    assert found[5:10] == pytest.approx([10.1] * 5, rel=1e-3)
    assert found[10:] == pytest.approx([0.0] * 2, abs=1e-3)
