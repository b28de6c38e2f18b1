"""What goes into a rewrite is measured by the fewer rows, and it is what was read all the same."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from carnac.core.segments.segment import ROW_HASH_VERSION, ColumnType, Segment
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.errors import Corrupt
from carnac.jobs.compact.conservation import Side
from carnac.jobs.compact.measure import as_read, blame_inputs, recorded
from carnac.jobs.compact.read import ReadPlan, read_tables
from carnac.ports import SegmentInput
from carnac.rows.row_hash import add_hashes, hash_rows
from tests.unit.jobs.rewrite_cases import CHUNK, HOUR_MS, TYPES, raw_row, write_raw
from tests.unit.store.events import fast_folder

GROUP_ROWS = 10
CLIPS = {
    "all": [(0, 24)],
    "most": [(0, 5), (6, 24)],
    "half": [(6, 18)],
    "little": [(3, 4), (22, 23)],
    "nothing": [],
}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with fast_folder() as name:
        yield Path(name)


@pytest.fixture
def segment(folder: Path, request: pytest.FixtureRequest) -> Segment:
    """A segment in row groups of ten rows, in order of time."""
    rng = random.Random(7)
    rows = sorted((raw_row(rng) for _ in range(95)), key=lambda row: int(row["__time"]))
    [written] = write_raw(folder, [rows], request.node.name)
    path = file_of(folder, written)
    pq.write_table(pq.read_table(path), path, row_group_size=GROUP_ROWS, compression="none")
    return recorded_anew(folder, written)


def recorded_anew(folder: Path, segment: Segment) -> Segment:
    """Return the segment with the bytes that its file has now; the rows on its record stay."""
    content = file_of(folder, segment).read_bytes()
    checksum = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return replace(segment, size_bytes=len(content), checksum=checksum)


def file_of(folder: Path, segment: Segment) -> Path:
    return folder / "store" / segment.path


def plan_for(folder: Path, **types: ColumnType) -> ReadPlan:
    columns = tuple((TYPES | types).items())
    url = (folder / "store").as_uri()
    return ReadPlan(output_url=url, columns=columns, truncate_to=None, chunks=(CHUNK,))


def clipped(segment: Segment, clip: str) -> SegmentInput:
    hours = [Interval(start * HOUR_MS, end * HOUR_MS) for start, end in CLIPS[clip]]
    return SegmentInput(segment=segment, visible=IntervalSet(tuple(hours)))


def spoil(path: Path, group: int) -> None:
    """Overwrite the pages of a row group."""
    pages = pq.ParquetFile(path).metadata.row_group(group)
    places = [pages.column(index) for index in range(pages.num_columns)]
    start = min(
        place.dictionary_page_offset or place.data_page_offset
        if place.has_dictionary_page
        else place.data_page_offset
        for place in places
    )
    content = bytearray(path.read_bytes())
    length = sum(place.total_compressed_size for place in places)
    content[start : start + length] = b"\xff" * length
    path.write_bytes(content)


@pytest.mark.parametrize("plan", ["as recorded", "wider", "with more columns"])
@pytest.mark.parametrize("clip", CLIPS)
def test_the_side_that_goes_in_is_what_was_read(
    folder: Path, segment: Segment, clip: str, plan: str
) -> None:
    types = {"wider": {"n": ColumnType.DOUBLE}, "with more columns": {"more": ColumnType.LONG}}
    side, inputs = Side(), [clipped(segment, clip), clipped(segment, "most")]
    tables = [table for _, table in as_read(plan_for(folder, **types.get(plan, {})), inputs, side)]
    assert side.rows == sum(table.num_rows for table in tables)
    assert side.row_hash == add_hashes(*(hash_rows(table) for table in tables))
    times = [time for table in tables for time in table["__time"].cast(pa.int64()).to_pylist()]
    assert all(any(source.visible.holds(time // 1000) for source in inputs) for time in times)


def test_a_hidden_row_that_has_changed_is_found_and_the_file_is_blamed(
    folder: Path, segment: Segment
) -> None:
    path = file_of(folder, segment)
    rows = pq.read_table(path).to_pylist()
    hidden = next(row for row in rows if row["__time"].hour == 5)
    hidden["n"] = 4711
    pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(path)), path)
    side, source = Side(), clipped(recorded_anew(folder, segment), "most")
    tables = [table for _, table in as_read(plan_for(folder), [source], side)]
    assert side.row_hash != add_hashes(*(hash_rows(table) for table in tables))
    with pytest.raises(Corrupt, match=rf"{segment.segment_id} does not hold .*; run 'verify'"):
        blame_inputs(plan_for(folder), [source])


def test_row_groups_of_which_nothing_is_visible_are_not_read(
    folder: Path, segment: Segment
) -> None:
    spoil(file_of(folder, segment), 0)
    plan = replace(plan_for(folder), is_survey=True)
    tables = list(read_tables(plan, clipped(segment, "little")))
    assert sum(table.num_rows for table in tables) > 0
    with pytest.raises(
        Corrupt, match=rf"{segment.segment_id} of events is damaged .its bytes are not"
    ):
        list(read_tables(plan, clipped(segment, "all")))


def test_rows_at_the_ends_of_row_groups_are_read_where_a_clip_ends_beside_them(
    folder: Path, segment: Segment
) -> None:
    times = [
        time // 1000
        for time in pq.read_table(file_of(folder, segment))["__time"].cast(pa.int64()).to_pylist()
    ]
    ends = {*times[::GROUP_ROWS], *times[GROUP_ROWS - 1 :: GROUP_ROWS], times[-1]}
    for at_ms in ends:
        one = IntervalSet((Interval(at_ms, at_ms + 1),))
        found = read_tables(plan_for(folder), SegmentInput(segment=segment, visible=one))
        assert sum(table.num_rows for table in found) == times.count(at_ms)


def test_a_row_hash_of_another_version_says_nothing_and_the_rows_are_measured(
    folder: Path, segment: Segment
) -> None:
    older = replace(segment, row_hash=12_345, row_hash_version=ROW_HASH_VERSION - 1)
    plan, source = plan_for(folder), SegmentInput(segment=older, visible=IntervalSet((CHUNK,)))
    side = Side()
    for _ in as_read(plan, [source], side):
        pass
    assert (side.rows, side.row_hash) == (segment.rows, segment.row_hash)
    assert recorded(plan, [source]) is None
    blame_inputs(plan, [source])
    unnamed = replace(older, row_hash_version=ROW_HASH_VERSION)
    with pytest.raises(Corrupt, match="does not hold the rows"):
        blame_inputs(plan, [replace(source, segment=unnamed)])
