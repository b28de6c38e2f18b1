"""Which ranges of a file in deep storage a scan reads: near ones at once, far ones alone, none that is too long."""

from __future__ import annotations

import dataclasses
import itertools
import random
import threading

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carnac.core.segments.blocks import UNIT_BYTES, BlockSums, UnitSums, read_blocks
from carnac.core.segments.segment import ColumnType, Segment
from carnac.errors import Cancelled, CarnacError, Corrupt, Unavailable
from carnac.historical.cold import GAP_MAX_BYTES, RUN_MAX_BYTES, ColdFile, open_cold
from carnac.ports.storage import OWNER_FILE
from tests.support.faulty import Faults, FaultyDeepStorage
from tests.support.historicals import RangedStorage, hour_rows
from tests.support.segments import write_segment

ROW_GROUP = 1_000


@pytest.fixture(scope="module")
def wide() -> tuple[RangedStorage, Segment]:
    """One row group of columns of bytes, which nothing compresses: b is a long gap, n a short one, d huge."""
    import io
    import random

    import pyarrow.parquet as pq

    storage, chance = RangedStorage(), random.Random(3)
    long, short = ((GAP_MAX_BYTES + more) // ROW_GROUP for more in (200_000, -200_000))
    sizes = {"a": 100, "b": long, "c": 100, "n": short, "e": 100, "d": 20_000}
    columns = {
        name: pa.array([chance.randbytes(size) for _ in range(ROW_GROUP)])
        for name, size in sizes.items()
    }
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, use_dictionary=False, compression="none")
    data = sink.getvalue()
    storage.write("wide.parquet", data)
    small = write_segment(storage, hour_rows(0))
    sums = UnitSums()
    sums.add(memoryview(data))
    return storage, dataclasses.replace(
        small, path="wide.parquet", size_bytes=len(data), blocks=sums.text()
    )


def read(storage: RangedStorage, segment: Segment, columns: list[str]) -> list[tuple[int, int]]:
    """Return the ranges that a scan of some columns reads, after the footer."""
    file = ColdFile(storage, segment, threading.Event())
    (dataset,) = open_cold([file]).values()
    assert isinstance(dataset, ds.Dataset)
    storage.ranges.clear()
    assert dataset.to_table(columns=columns).num_rows == ROW_GROUP
    return sorted((start, end) for _, start, end in storage.ranges)


@pytest.mark.slow
def test_near_ranges_are_one_request_and_far_ones_two(wide: tuple[RangedStorage, Segment]) -> None:
    storage, segment = wide
    ((_, end),) = read(storage, segment, ["a"])
    assert end < 200_000
    assert (
        len(read(storage, segment, ["a", "c"])) == 2
    )  # what lies between is too much to read along
    ((start, end),) = read(storage, segment, ["c", "e"])  # read along
    assert end - start > GAP_MAX_BYTES - 200_000
    ((start, end),) = read(storage, segment, ["a", "b", "c"])
    assert end - start > GAP_MAX_BYTES
    ((start, end),) = read(storage, segment, ["c", "d"])
    assert 20_000 * ROW_GROUP < end - start <= RUN_MAX_BYTES


def test_many_footers_are_read_at_a_time() -> None:
    storage = RangedStorage()
    segments = [write_segment(storage, hour_rows(hour)) for hour in range(40)]
    files = [ColdFile(storage, one, threading.Event()) for one in segments]
    found = open_cold(files)
    assert sorted(found) == sorted(one.segment_id for one in segments)
    assert all(file.error is None and not file.has_rows_read for file in files)
    assert open_cold([]) == {}


@pytest.mark.parametrize(
    ("spoil", "kind", "sentence"),
    [
        (lambda data: data[:0], Corrupt, "ends 0 bytes from its beginning"),
        (lambda data: data[:-1], Corrupt, "from its beginning"),
        (lambda data: data[:-4] + b"what", Corrupt, "block 0 of it is not what was written"),
        (lambda data: b"\0" * len(data), Corrupt, "block 0 of it is not what was written"),
        (None, Corrupt, "damaged (is not there)"),
    ],
)
def test_why_a_file_cannot_be_read_is_told(
    spoil: object, kind: type[CarnacError], sentence: str
) -> None:
    storage = RangedStorage()
    storage.write(OWNER_FILE, b"mine")
    segment = write_segment(storage, hour_rows(0), types={"n": ColumnType.LONG})
    if spoil is None:
        storage.delete(segment.path)
    else:
        assert callable(spoil)
        storage.write(segment.path, spoil(storage.read_range(segment.path, 0, 1 << 20)))
    file = ColdFile(storage, segment, threading.Event())
    assert open_cold([file]) == {}
    assert type(file.error) is kind
    assert sentence in file.error.message
    assert segment.path in file.error.message


def test_a_storage_that_is_away_is_no_damage() -> None:
    storage = RangedStorage()
    segment = write_segment(storage, hour_rows(0))
    storage.delete(segment.path)
    file = ColdFile(storage, segment, threading.Event())
    assert open_cold([file]) == {}
    assert isinstance(file.error, Unavailable)
    assert "as if it were not mounted, or emptied" in file.error.message


def test_a_storage_that_breaks_off_and_a_query_that_is_cancelled() -> None:
    inner = RangedStorage()
    segment = write_segment(inner, hour_rows(0))
    faults, stop = Faults(lambda name: Unavailable(f"cannot {name} now")), threading.Event()
    file = ColdFile(FaultyDeepStorage(inner, faults), segment, stop)
    (dataset,) = open_cold([file]).values()
    assert isinstance(dataset, ds.Dataset)
    faults.arm(1)
    with pytest.raises(OSError, match="cannot read_range now"):
        dataset.to_table()
    assert isinstance(file.error, Unavailable)
    other = ColdFile(inner, segment, stop)
    (dataset,) = open_cold([other]).values()
    assert isinstance(dataset, ds.Dataset)
    stop.set()
    with pytest.raises(OSError, match="cancelled"):
        dataset.to_table()
    assert isinstance(other.error, Cancelled)


@pytest.mark.slow
def test_a_run_that_is_too_long_is_several_requests() -> None:
    storage, size_bytes = RangedStorage(), 2 * RUN_MAX_BYTES + 12_345
    data = bytes(size_bytes)
    storage.write("long", data)
    sums = UnitSums()
    sums.add(memoryview(data))
    segment = dataclasses.replace(
        write_segment(storage, hour_rows(0)), path="long", size_bytes=size_bytes, blocks=sums.text()
    )
    file = ColdFile(storage, segment, threading.Event())
    file.seek(100)
    assert file.read(size_bytes) == data[100:]
    spans = [end - start for _, start, end in storage.ranges]
    assert len(spans) == 3
    assert max(spans) <= RUN_MAX_BYTES


def test_a_file_without_checksums_of_blocks_is_read_as_a_whole_once() -> None:
    storage = RangedStorage()
    segment = dataclasses.replace(write_segment(storage, hour_rows(0)), blocks="")
    file = ColdFile(storage, segment, threading.Event())
    (dataset,) = open_cold([file]).values()
    assert isinstance(dataset, ds.Dataset)
    assert dataset.to_table().num_rows == 10
    assert storage.ranges[0][1:] == (0, segment.size_bytes)
    assert len(storage.ranges) <= 3  # and the footer, and the rows
    data = bytearray(storage.read_range(segment.path, 0, segment.size_bytes))
    data[segment.size_bytes // 2] ^= 4
    storage.write(segment.path, bytes(data))
    wrong = ColdFile(storage, segment, threading.Event())
    assert open_cold([wrong]) == {}
    assert isinstance(wrong.error, Corrupt)


@given(st.integers(1, 300 * UNIT_BYTES), st.integers(0, 2**32), st.integers(1, 7))
@settings(max_examples=20, deadline=None)
def test_any_bit_that_is_other_is_found_in_its_block(
    size_bytes: int, seed: int, writes: int
) -> None:
    chance = random.Random(seed)
    data = bytearray(chance.randbytes(size_bytes))
    sums, cuts = UnitSums(), sorted(chance.randrange(size_bytes + 1) for _ in range(writes))
    for start, end in itertools.pairwise([0, *cuts, size_bytes]):
        sums.add(memoryview(data)[start:end])
    blocks = read_blocks(sums.text(), size_bytes)
    assert isinstance(blocks, BlockSums)
    assert blocks.find_wrong(0, bytes(data)) is None
    at = chance.randrange(size_bytes)
    data[at] ^= 1 << chance.randrange(8)
    number = at // blocks.block_bytes
    assert blocks.find_wrong(0, bytes(data)) == number
    start = number * blocks.block_bytes
    assert blocks.find_wrong(number, bytes(data[start : start + blocks.block_bytes])) == number


@pytest.mark.parametrize("text", ["", "x:", "0:AAAA", "1:AAAA", "1:AAAAAAAA", "1:?", "²:AAAAAA=="])
def test_checksums_that_do_not_fit_the_file_are_none(text: str) -> None:
    assert read_blocks(text, 100) is None
