"""What is decided before Spark runs: who reads what, which chunks there are, who merges what."""

from __future__ import annotations

from itertools import count, pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from carnac.core.time.granularity import parse_granularity
from carnac.core.time.intervals import Interval, interval_set, parse_interval
from carnac.errors import CarnacError, Conflict, Corrupt, Invalid, NotFound, Unavailable
from carnac.jobs.bins import into_bins, share_out
from carnac.jobs.ingest.write_pass import pack, plan_merges
from carnac.ports import ChunkLayout
from carnac.rows.merge_task import MergeTask, Part
from carnac.rows.normalise.coerce import SeveralValues
from carnac.rows.normalise.shape import RowShape
from carnac.rows.parts import ChunkPartitioner
from carnac.rows.read.inputs import InputFile
from carnac.spark.failures import TaskFailure, dump_failure, load_failure, of_spark, of_task
from carnac.spark.session import local_master
from carnac.specs.ingest.inputs import JsonFormat, ParquetFormat
from carnac.specs.ingest.layout import DynamicPartitions

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
MIB = 1 << 20


@given(
    sizes=st.lists(st.integers(0, 900 * MIB), min_size=1, max_size=60),
    cores=st.integers(1, 16),
    is_gzip=st.booleans(),
)
@example(sizes=[0, 0], cores=1, is_gzip=False)  # once made a task without a file
def test_every_byte_of_every_file_is_read_by_one_task(
    sizes: list[int], cores: int, is_gzip: bool
) -> None:
    files = [
        InputFile(url=f"{i}", size_bytes=size, compression="gzip" if is_gzip else None)
        for i, size in enumerate(sizes)
    ]
    tasks = share_out(files, JsonFormat(), cores=cores)
    pieces = [piece for task in tasks for piece in task]
    for file in files:
        ranges = sorted((p.start_byte, p.end_byte) for p in pieces if p.url == file.url)
        assert ranges[0][0] == 0
        assert ranges[-1][1] is None
        assert all(left[1] == right[0] for left, right in pairwise(ranges))
    assert all(tasks)
    loads = [sum(piece.read_bytes for piece in task) for task in tasks]
    assert loads == sorted(loads, reverse=True)


def test_one_core_reads_as_few_tasks_as_their_sizes_allow() -> None:
    """A task plans its statements anew: for two thousand columns that takes seconds."""
    small = [InputFile(url=str(i), size_bytes=30 * MIB) for i in range(4)]
    assert share_out(small, JsonFormat(), cores=1) == [tuple(small)]
    large = [InputFile(url="a", size_bytes=900 * MIB)]
    assert len(share_out(large, JsonFormat(), cores=1)) == 4


def test_many_small_files_share_tasks() -> None:
    files = [InputFile(url=str(i), size_bytes=1000) for i in range(10_000)]
    tasks = share_out(files, ParquetFormat(), cores=2)
    assert len(tasks) == 32
    assert max(map(len, tasks)) - min(map(len, tasks)) <= 1


@given(
    weights=st.lists(st.integers(0, 1000), max_size=60),
    cores=st.integers(1, 4),
    most=st.integers(1, 500),
)
def test_bins_hold_everything_once_the_fullest_first(
    weights: list[int], cores: int, most: int
) -> None:
    bins = into_bins(range(len(weights)), weights.__getitem__, cores=cores, per_core=2, most=most)
    assert sorted(one for some in bins for one in some) == list(range(len(weights)))
    assert all(bins)
    assert len(bins) <= max(2 * cores, -(-sum(weights) // most))
    loads = [sum(weights[one] for one in some) for some in bins]
    assert loads == sorted(loads, reverse=True)


def cut(granularity: str, **fields: object) -> ChunkPartitioner:
    layout = ChunkLayout(segment_granularity=granularity, **fields)  # type: ignore[arg-type]
    return ChunkPartitioner(layout=layout, newest_before_ms=None, staging_url="/nowhere")


@given(
    days=st.sets(st.integers(-1000, 30_000), min_size=1, max_size=20),
    granularity=st.sampled_from(["HOUR", "DAY", "WEEK", "MONTH", "YEAR", "P3D", "ALL"]),
)
def test_chunks_hold_every_day_and_are_buckets(days: set[int], granularity: str) -> None:
    chunks = cut(granularity).chunks(days)
    whole = interval_set(chunks)
    assert list(chunks) == sorted(chunks)
    assert all(not a.overlaps(b) for a, b in pairwise(chunks))
    for day in days:
        assert not interval_set([Interval(day * DAY_MS, (day + 1) * DAY_MS)]).minus(whole)
    assert all(parse_granularity(granularity).bucket(c.start_ms) == c for c in chunks)


def test_two_tasks_that_see_different_days_agree_on_their_chunks() -> None:
    existing = (parse_interval("2024-01-03/2024-01-05"),)
    layout = cut("MONTH", existing=existing)
    first = layout.chunks([19_723, 19_724])
    second = layout.chunks([19_724, 19_727, 19_740])
    assert set(first) & set(second)
    assert all(not a.overlaps(b) or a == b for a in first for b in second)


TEMPLATE = MergeTask(
    datasource="x",
    parts=(),
    shape=RowShape(dimensions=()),
    chunk=Interval(0, 1),
    partitions=DynamicPartitions(),
    output_url="/o",
    path_prefix="p",
    id_prefix="",
    created_at_ms=0,
    temp_dir="/t",
)


@given(
    parts=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9_000_000)), max_size=60),
    cores=st.integers(1, 8),
    max_rows=st.none() | st.integers(1, 20_000_000),
)
def test_every_part_is_merged_once_with_its_chunk(
    parts: list[tuple[int, int]], cores: int, max_rows: int | None
) -> None:
    given_parts = [
        Part(
            chunk=Interval(day * DAY_MS, (day + 1) * DAY_MS),
            path=f"{day}/{index}",
            rows=rows,
            memory_bytes=rows,
        )
        for index, (day, rows) in enumerate(parts)
    ]
    merges = plan_merges(
        given_parts, TEMPLATE, max_rows=max_rows, new_id=(f"id{i}" for i in count())
    )
    merged = [part.path for merge in merges for part in merge.task.parts]
    assert sorted(merged) == sorted(part.path for part in given_parts)
    ids = [merge.task.id_prefix for merge in merges]
    assert len(set(ids)) == len(ids)
    for merge in merges:
        assert {part.path.split("/")[0] for part in merge.task.parts} == {
            str(merge.task.chunk.start_ms // DAY_MS)
        }
    chunks = {part.chunk for part in given_parts}
    if max_rows is None:
        assert len(merges) == len(chunks)
        assert all(merge.task.is_perfect for merge in merges)
    packed = pack(merges, cores=cores)
    assert sorted(task.id_prefix for tasks in packed for task in tasks) == sorted(ids)
    assert all(packed)


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", "local[1,3]"),
        ("local[*]", "local[*,3]"),
        ("local[2]", "local[2,3]"),
        ("local[2,7]", "local[2,7]"),
        ("spark://host:7077", None),
        ("yarn", None),
    ],
)
def test_local_masters_try_again(master: str, expected: str | None) -> None:
    assert local_master(master) == expected


@pytest.mark.parametrize("kind", [Conflict, Corrupt, Invalid, NotFound, Unavailable])
def test_a_failure_survives_the_way_through_spark(kind: type[CarnacError], tmp_path: Path) -> None:
    failure = kind("what happened to 'x'\u00fc", segment_id="s1", rows=3)
    there = load_failure(dump_failure(failure))
    assert (type(there), there.message, there.ids) == (kind, failure.message, failure.ids)
    wrapped = RuntimeError(
        f"org.apache.spark.SparkException: Job aborted\n  pyspark...: {TaskFailure(failure)}\n at Foo.java"
    )
    home = of_spark(wrapped, lambda: str(tmp_path))
    assert (type(home), home.message, home.ids) == (kind, failure.message, failure.ids)


def test_several_values_come_home_with_their_columns() -> None:
    there = load_failure(dump_failure(SeveralValues(["b", "a"])))
    assert isinstance(there, SeveralValues)
    assert there.columns == ("a", "b")


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (OSError(28, "No space left on device", "/x"), Unavailable, "the disk is full"),
        (FileNotFoundError(2, "No such file", "/x"), NotFound, "/x does not exist"),
        (PermissionError(13, "Permission denied", "/x"), Unavailable, "permission denied"),
        (MemoryError(), Unavailable, "out of memory"),
        (KeyError("boo"), CarnacError, "KeyError: 'boo'"),
    ],
)
def test_what_goes_wrong_in_a_task_is_one_sentence(
    error: Exception, kind: type[CarnacError], words: str
) -> None:
    failure = of_task(error)
    assert isinstance(failure, kind)
    assert words in failure.message
    assert "\n" not in failure.message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Python worker exited unexpectedly (crashed)\n at x", "a Python worker of Spark died"),
        ("java.lang.OutOfMemoryError: Java heap space", "out of memory"),
        ("An error occurred: Connection refused", "Spark has stopped"),
        ("Job aborted\nCaused by: java.io.IOException: Broken pipe", "IOException: Broken pipe"),
    ],
)
def test_what_goes_wrong_in_spark_is_one_sentence(text: str, words: str, tmp_path: Path) -> None:
    failure = of_spark(RuntimeError(text), lambda: str(tmp_path / "spark.log"))
    assert isinstance(failure, Unavailable)
    assert words in failure.message
    assert "\n" not in failure.message


def test_a_python_without_carnac_is_told(tmp_path: Path) -> None:
    """That of a notebook's own session is whatever `python3` is, unless `PYSPARK_PYTHON` says more."""
    text = "Traceback:\nModuleNotFoundError: No module named 'carnac'\n\n at org.apache.spark"
    failure = of_spark(RuntimeError(text), lambda: str(tmp_path / "spark.log"))
    assert isinstance(failure, Invalid)
    assert "PYSPARK_PYTHON" in failure.message
