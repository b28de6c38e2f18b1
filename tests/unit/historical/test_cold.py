"""Which ranges of a file in deep storage a scan reads: near ones at once, far ones alone, none that is too long."""

from __future__ import annotations

import dataclasses
import threading

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from carnac.core.segments.segment import ColumnType, Segment
from carnac.errors import Cancelled, CarnacError, Corrupt, NotFound, Unavailable
from carnac.historical.cold import GAP_MAX_BYTES, RUN_MAX_BYTES, ColdFile, open_cold
from tests.support.faulty import Faults, FaultyDeepStorage
from tests.support.historicals import RangedStorage, hour_rows
from tests.support.segments import write_segment

ROW_GROUP = 1_000


@pytest.fixture(scope="module")
def wide() -> tuple[RangedStorage, Segment]:
    """One row group of four columns of bytes, which nothing compresses: a (small), b (far), c (small), d (huge)."""
    import io
    import random

    import pyarrow.parquet as pq

    storage, chance = RangedStorage(), random.Random(3)
    sizes = {"a": 100, "b": (GAP_MAX_BYTES + 200_000) // ROW_GROUP, "c": 100, "d": 20_000}
    columns = {
        name: pa.array([chance.randbytes(size) for _ in range(ROW_GROUP)])
        for name, size in sizes.items()
    }
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, use_dictionary=False, compression="none")
    data = sink.getvalue()
    storage.write("wide.parquet", data)
    small = write_segment(storage, hour_rows(0))
    return storage, dataclasses.replace(small, path="wide.parquet", size_bytes=len(data))


def read(storage: RangedStorage, segment: Segment, columns: list[str]) -> list[tuple[int, int]]:
    """Return the ranges that a scan of some columns reads, after the footer."""
    file = ColdFile(storage, segment, threading.Event())
    (dataset,) = open_cold([file]).values()
    assert isinstance(dataset, ds.Dataset)
    storage.ranges.clear()
    assert dataset.to_table(columns=columns).num_rows == ROW_GROUP
    return sorted((start, end) for _, start, end in storage.ranges)


def test_near_ranges_are_one_request_and_far_ones_two(wide: tuple[RangedStorage, Segment]) -> None:
    storage, segment = wide
    ((_, end),) = read(storage, segment, ["a"])
    assert end < 200_000
    assert (
        len(read(storage, segment, ["a", "c"])) == 2
    )  # what lies between is too much to read along
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
        (lambda data: data[:-4] + b"what", Corrupt, "it is no Parquet file"),
        (lambda data: b"\0" * len(data), Corrupt, "it is no Parquet file"),
        (lambda data: data[:-60] + b"\xff" * 52 + data[-8:], Corrupt, "it is no Parquet file"),
        (None, NotFound, "no such file"),
    ],
)
def test_why_a_file_cannot_be_read_is_told(
    spoil: object, kind: type[CarnacError], sentence: str
) -> None:
    storage = RangedStorage()
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


def test_a_storage_that_breaks_off_and_a_query_that_is_cancelled() -> None:
    inner = RangedStorage()
    segment = write_segment(inner, hour_rows(0))
    faults, stop = Faults(lambda name: Unavailable(f"cannot {name} now")), threading.Event()
    file = ColdFile(FaultyDeepStorage(inner, faults), segment, stop)
    (dataset,) = open_cold([file]).values()
    assert isinstance(dataset, ds.Dataset)
    faults.arm(1)
    with pytest.raises(Unavailable, match="cannot read_range now"):
        dataset.to_table()
    assert file.error is not None
    other = ColdFile(inner, segment, stop)
    (dataset,) = open_cold([other]).values()
    assert isinstance(dataset, ds.Dataset)
    stop.set()
    with pytest.raises(Cancelled):
        dataset.to_table()
