from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carnac.core.segments.partitioning import hash_bucket
from carnac.core.segments.segment import HashedPartition, RangePartition, Segment
from carnac.core.time.intervals import Interval
from carnac.errors import Corrupt, Invalid
from carnac.rows.cutting import bucket_sql
from carnac.rows.merge import merge_parts
from carnac.rows.normalise.shape import RowShape
from carnac.rows.row_hash import add_hashes, hash_rows
from carnac.specs.ingest.layout import DynamicPartitions, HashedPartitions, RangePartitions
from tests.unit.rows.rows import (
    CHUNK,
    DAY_MS,
    dimensions,
    ingest,
    read,
    task,
    write_part,
    write_table,
)

pytestmark = pytest.mark.usefixtures("shared_connection")

SHAPE = RowShape(
    dimensions=dimensions(color="string", size="long", share="double", tags="array<string>"),
    sort_columns=("__time", "color", "size"),
)


def is_storable(text: str) -> bool:
    """DuckDB keeps no NUL inside of texts that it compares."""
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


COLORS = [None, "", "blue", "green", "red"]
TINY = 1
"""As memory limit: Arrow may sort nothing, so DuckDB does."""


def make_rows(count: int, seed: int = 1) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [
        {
            "__time": rng.randrange(DAY_MS // 3_600_000) * 3_600_000,
            "color": rng.choice(COLORS),
            "size": rng.choice([None, 1, 2, 3]),
            "share": rng.choice([None, rng.random(), float("inf")]),
            "tags": rng.choice([None, [], ["a"], ["a", "b"]]),
        }
        for _ in range(count)
    ]


def as_counts(rows: Sequence[Any]) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in rows)


def null_first(row: Any, names: Sequence[str]) -> list[Any]:
    return [(row[name] is not None, row[name]) for name in names]


@pytest.mark.parametrize("memory_bytes", [1 << 30, TINY], ids=["arrow", "duckdb"])
def test_rows_come_sorted_and_whole(tmp_path: Path, memory_bytes: int) -> None:
    rows = make_rows(500)
    segments = ingest(tmp_path, SHAPE, [rows[:100], rows[100:]], memory_bytes=memory_bytes)
    found = read(tmp_path, segments)
    assert as_counts(found) == as_counts(rows)
    keys = [null_first(row, SHAPE.sort_columns) for row in found]
    assert keys == sorted(keys)
    (segment,) = segments
    table = pq.read_table(tmp_path / "store" / segment.path)
    assert (segment.rows, segment.input_rows, segment.row_hash) == (500, 500, hash_rows(table))
    assert (segment.path, segment.sort_columns) == (
        "events/1970/abca0s0.parquet",
        SHAPE.sort_columns,
    )
    assert (segment.chunk, segment.rollup, segment.partition) == (CHUNK, None, None)
    assert segment.size_bytes == (tmp_path / "store" / segment.path).stat().st_size
    assert not (tmp_path / "temp").exists()


def test_both_ways_of_sorting_give_the_same_files(tmp_path: Path) -> None:
    shape = replace(SHAPE, sort_columns=("color", "size", "__time"))
    rows = [{**row, "__time": index} for index, row in enumerate(make_rows(300))]
    ways = [
        ingest(tmp_path / str(memory), shape, [rows[:7], rows[7:]], memory_bytes=memory)
        for memory in (1 << 30, TINY)
    ]
    assert ways[0][0].checksum == ways[1][0].checksum
    assert ways[0] == ways[1]


@pytest.mark.parametrize("share", [float("nan"), -0.0, float("-inf"), None], ids=repr)
def test_numbers_are_sorted_alike_both_ways(tmp_path: Path, share: float | None) -> None:
    shape = replace(SHAPE, sort_columns=("share", "__time"))
    rows = [{**row, "__time": index} for index, row in enumerate(make_rows(60))]
    some = [{**row, "share": share if index % 3 else 0.0} for index, row in enumerate(rows)]
    arrow, engine = (
        ingest(tmp_path / str(memory), shape, [some[:7], some[7:]], memory_bytes=memory)
        for memory in (1 << 30, TINY)
    )
    assert arrow[0].checksum == engine[0].checksum


def test_no_rows_make_no_segment(tmp_path: Path) -> None:
    assert ingest(tmp_path, SHAPE, [[], []]) == ()
    assert ingest(tmp_path, SHAPE, [[], []], memory_bytes=TINY) == ()


@pytest.mark.parametrize("memory_bytes", [1 << 30, TINY], ids=["arrow", "duckdb"])
@pytest.mark.parametrize(
    ("most", "sizes"), [(100, [100]), (99, [50, 50]), (34, [34, 34, 32]), (30, [25] * 4)]
)
def test_dynamic_pieces_are_even(
    tmp_path: Path, most: int, sizes: list[int], memory_bytes: int
) -> None:
    partitions = DynamicPartitions(max_rows_per_segment=most)
    segments = ingest(
        tmp_path, SHAPE, [make_rows(100)], partitions=partitions, memory_bytes=memory_bytes
    )
    assert [segment.rows for segment in segments] == sizes
    ends = [segment.max_time_ms for segment in segments]
    starts = [segment.min_time_ms for segment in segments]
    assert all(end <= start for end, start in zip(ends[:-1], starts[1:], strict=True))


@pytest.mark.slow
def test_a_file_ends_when_it_has_its_size(tmp_path: Path) -> None:
    rng = random.Random(3)
    shape = replace(SHAPE, dimensions=dimensions(word="string"), sort_columns=("__time",))
    rows = [{"__time": n, "word": rng.randbytes(20).hex()} for n in range(250_000)]
    segments = ingest(tmp_path, shape, [rows], target_bytes=1_500_000)
    assert [segment.rows for segment in segments] == [100_000, 100_000, 50_000]
    assert (
        add_hashes(*(s.row_hash for s in segments))
        == ingest(tmp_path / "one", shape, [rows])[0].row_hash
    )


def test_hashed_rows_are_where_their_bucket_is(tmp_path: Path) -> None:
    partitions = HashedPartitions(num_shards=4, dimensions=("color", "size"))
    rows = make_rows(400)
    segments = ingest(tmp_path, SHAPE, [rows], partitions=partitions)
    assert as_counts(read(tmp_path, segments)) == as_counts(rows)
    seen: dict[tuple[Any, ...], set[int]] = {}
    for segment in segments:
        partition = segment.partition
        assert isinstance(partition, HashedPartition)
        assert (partition.dimensions, partition.buckets) == (("color", "size"), 4)
        for row in read(tmp_path, [segment]):
            seen.setdefault((row["color"], row["size"]), set()).add(partition.bucket)
        keys = [null_first(row, SHAPE.sort_columns) for row in read(tmp_path, [segment])]
        assert keys == sorted(keys)
    assert all(len(buckets) == 1 for buckets in seen.values())
    assert len(segments) > 1


@given(
    words=st.lists(
        st.tuples(
            st.text(max_size=6).filter(is_storable) | st.none(),
            st.integers(-(2**63), 2**63 - 1) | st.none(),
        ),
        min_size=1,
        max_size=20,
    ),
    buckets=st.integers(1, 1000),
)
def test_the_bucket_in_sql_is_the_cores(words: list[tuple[Any, Any]], buckets: int) -> None:
    shape = RowShape(dimensions=dimensions(word="string", number="long"))
    table = pa.table(
        {
            "word": pa.array([word for word, _ in words], pa.string()),
            "number": pa.array([number for _, number in words], pa.int64()),
        }
    )
    with duckdb.connect() as con:
        con.register("rows", table)
        query = f"SELECT {bucket_sql(shape, (), buckets)} AS b FROM rows"
        found = con.sql(query).to_arrow_table().column("b").to_pylist()
    assert found == [hash_bucket(pair, buckets) for pair in words]


def test_hashed_by_target_rows_and_all_dimensions(tmp_path: Path) -> None:
    partitions = HashedPartitions(target_rows_per_segment=100)
    segments = ingest(tmp_path, SHAPE, [make_rows(400)], partitions=partitions)
    assert {s.partition.buckets for s in segments if isinstance(s.partition, HashedPartition)} == {
        4
    }
    assert sum(segment.rows for segment in segments) == 400


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from(COLORS), st.sampled_from([None, 1, 2])),
        min_size=1,
        max_size=60,
    ),
    target=st.integers(1, 30),
    memory_bytes=st.sampled_from([1 << 30, TINY]),
)
def test_ranges_tile_and_hold_their_rows(
    rows: list[tuple[int, Any, Any]],
    target: int,
    memory_bytes: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("range")
    names = ("color", "size")
    given_rows = [{"__time": t, "color": c, "size": s} for t, c, s in rows]
    partitions = RangePartitions(dimensions=names, target_rows_per_segment=target)
    segments = ingest(folder, SHAPE, [given_rows], partitions=partitions, memory_bytes=memory_bytes)
    found = read(folder, segments)
    assert len(found) == len(rows)
    check_ranges(folder, segments, names)
    pieces = max(1, -(-len(rows) // target))
    assert len(segments) <= pieces * 4 // 3 + (pieces > 1)
    for segment in segments:
        values = {(row["color"], row["size"]) for row in read(folder, [segment])}
        assert segment.rows <= partitions.most_rows_per_segment or len(values) == 1


def check_ranges(folder: Path, segments: Sequence[Segment], names: tuple[str, ...]) -> None:
    end: Any = None
    for index, segment in enumerate(segments):
        partition = segment.partition
        assert isinstance(partition, RangePartition)
        assert partition.start == (None if index == 0 else end)
        end = partition.end
        assert segment.sort_columns == (*names, "__time")
        for row in read(folder, [segment]):
            key = null_first(row, names)
            if partition.start is not None:
                assert as_key(partition.start) <= key
            if partition.end is not None:
                assert key < as_key(partition.end)
    assert end is None


def as_key(values: tuple[Any, ...]) -> list[Any]:
    return [(value is not None, value) for value in values]


def test_several_values_have_no_range(tmp_path: Path) -> None:
    partitions = RangePartitions(dimensions=("tags",))
    with pytest.raises(Invalid, match="range of 'tags', which holds several values"):
        ingest(tmp_path, SHAPE, [make_rows(3)], partitions=partitions)


def test_attempts_never_share_a_file(tmp_path: Path) -> None:
    part = write_part(tmp_path, SHAPE, make_rows(10))
    first = merge_parts(task(tmp_path, SHAPE, [part]), attempt=1)
    second = merge_parts(task(tmp_path, SHAPE, [part]), attempt=2)
    assert first[0].path != second[0].path
    assert first[0].row_hash == second[0].row_hash


def test_a_broken_part_leaves_nothing(tmp_path: Path) -> None:
    good = write_part(tmp_path, SHAPE, make_rows(100))
    bad = replace(good, path=str(tmp_path / "bad.arrow"))
    Path(bad.path).write_bytes(Path(good.path).read_bytes()[:-100])
    for memory_bytes in (1 << 30, TINY):
        one = task(tmp_path, SHAPE, [good, bad], memory_bytes=memory_bytes)
        with pytest.raises(Corrupt, match=r"bad\.arrow"):
            merge_parts(one)
    assert not [path for path in tmp_path.rglob("*") if "abca0" in path.name]


def test_parts_may_lack_columns_and_be_typed_otherwise(tmp_path: Path) -> None:
    narrow = RowShape(dimensions=dimensions(color="long", size="long"))
    old = write_part(tmp_path, narrow, [{"__time": 1, "color": 7, "size": 1}])
    wide = RowShape(dimensions=dimensions(color="array<string>", new="string"))
    new = write_part(tmp_path, wide, [{"__time": 2, "color": ["x", "y"]}])
    shape = replace(SHAPE, dimensions=dimensions(color="array<string>", size="long", new="string"))
    rows = read(tmp_path, merge_parts(task(tmp_path, shape, [old])))
    assert rows == [{"__time": 1, "color": ["7"], "size": 1, "new": None}]
    rows = read(tmp_path, merge_parts(task(tmp_path, shape, [new])))
    assert rows == [{"__time": 2, "color": ["x", "y"], "size": None, "new": None}]


def test_parts_are_named_by_urls_too(tmp_path: Path) -> None:
    rows = make_rows(50)
    part = write_part(tmp_path, SHAPE, rows)
    url = replace(part, path=Path(part.path).as_uri())
    for memory_bytes in (1 << 30, TINY):
        one = task(tmp_path, SHAPE, [url], memory_bytes=memory_bytes)
        assert as_counts(read(tmp_path, merge_parts(one))) == as_counts(rows)


def test_progress_counts_all_rows(tmp_path: Path) -> None:
    part = write_part(tmp_path, SHAPE, make_rows(100))
    seen: list[int] = []
    partitions = DynamicPartitions(max_rows_per_segment=30)
    merge_parts(task(tmp_path, SHAPE, [part], partitions=partitions), on_rows=seen.append)
    assert sum(seen) == 100


@pytest.mark.nightly("merges 0.17 GB")
@pytest.mark.slow
def test_a_chunk_ten_times_as_large_as_memory(tmp_path: Path) -> None:
    """0.17 GB of rows in 16 MiB: they must go through the disk."""
    shape = RowShape(dimensions=dimensions(word="string", n="long"), sort_columns=("word",))
    count, files = 350_000, 2
    parts, wanted = [], []
    for index in range(files):
        table = pa.table(
            {
                "__time": pa.array(range(index, count, files), pa.timestamp("us", tz="UTC")),
                "word": pa.array(
                    [f"{(n * 2654435761) % 2**32:0480d}" for n in range(index, count, files)]
                ),
                "n": pa.array(range(index, count, files)),
            }
        )
        wanted.append(hash_rows(table))
        parts.append(write_table(tmp_path, table))
    one = task(
        tmp_path,
        shape,
        parts,
        chunk=Interval(0, DAY_MS),
        memory_bytes=16 << 20,
        partitions=DynamicPartitions(max_rows_per_segment=125_000),
    )
    segments = merge_parts(one)
    assert [segment.rows for segment in segments] == [116_667, 116_667, 116_666]
    last = ""
    for segment in segments:
        words = pq.read_table(tmp_path / "store" / segment.path, columns=["word"])["word"]
        first = words[0].as_py()
        assert last <= first
        last = words[-1].as_py()
    assert add_hashes(*(segment.row_hash for segment in segments)) == add_hashes(*wanted)
