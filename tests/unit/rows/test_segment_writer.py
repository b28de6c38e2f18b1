from __future__ import annotations

import errno
import hashlib
import os
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from carnac.core.segments.segment import Column, ColumnType
from carnac.core.segments.sql_columns import field_ids
from carnac.errors import Corrupt, DiskFull, Unavailable
from carnac.rows import output
from carnac.rows.row_hash import hash_rows
from carnac.rows.segment_writer import FEW_ROWS, SegmentWriter, WrittenFile, segment_schema
from carnac.rows.statistics import (
    FEW_WORDS,
    MAX_BOUND_CHARS,
    ColumnStatistics,
    bounds_of,
    upper_bound,
)

COLUMNS = (
    ("word", ColumnType.STRING),
    ("number", ColumnType.LONG),
    ("share", ColumnType.DOUBLE),
    ("is_new", ColumnType.BOOLEAN),
    ("tags", ColumnType.STRING_ARRAY),
    ("state", ColumnType.HLL),
)


def rows(count: int) -> pa.Table:
    data = {
        "__time": pa.array([i * 1_000_000 for i in range(count)], pa.timestamp("us", tz="UTC")),
        "word": [None if i % 5 == 0 else f"w{i % 7}" for i in range(count)],
        "number": list(range(count)),
        "share": [i / 4 for i in range(count)],
        "is_new": [i % 2 == 0 for i in range(count)],
        "tags": [["a", "b"][: i % 3] for i in range(count)],
        "state": pa.array([b"x"] * count, pa.binary()),
    }
    return pa.table(data)


def write(folder: Path, table: pa.Table, **more: int) -> WrittenFile:
    url = (folder / "root").as_uri()
    with SegmentWriter(
        url, "a/b.parquet", COLUMNS, temp_dir=str(folder), sort_columns=("__time",), **more
    ) as writer:
        for start in range(0, table.num_rows, 33):
            writer.write(table.slice(start, 33))
        return writer.finish()


def test_the_file_and_what_is_said_of_it(tmp_path: Path) -> None:
    table = rows(250)
    written = write(tmp_path, table, row_group_rows=100)
    path = tmp_path / "root/a/b.parquet"
    data = path.read_bytes()
    assert written.size_bytes == len(data)
    assert written.checksum == "sha256:" + hashlib.sha256(data).hexdigest()
    assert (written.rows, written.min_time_ms, written.max_time_ms) == (250, 0, 249_000)
    assert pq.read_table(path).to_pylist() == table.to_pylist()
    assert written.row_hash == hash_rows(table)
    assert written.columns == (
        Column(name="word", type=ColumnType.STRING, null_count=50, min_value="w0", max_value="w6"),
        Column(name="number", type=ColumnType.LONG, null_count=0, min_value=0, max_value=249),
        Column(name="share", type=ColumnType.DOUBLE, null_count=0, min_value=0.0, max_value=62.25),
        Column(
            name="is_new", type=ColumnType.BOOLEAN, null_count=0, min_value=False, max_value=True
        ),
        Column(name="tags", type=ColumnType.STRING_ARRAY, null_count=0),
        Column(name="state", type=ColumnType.HLL, null_count=0),
    )
    assert [path.name for path in path.parent.iterdir()] == ["b.parquet"]


@pytest.mark.parametrize(
    ("group_rows", "compression"), [(100, "SNAPPY"), (FEW_ROWS, "SNAPPY"), (FEW_ROWS + 1, "ZSTD")]
)
def test_the_format_on_disk(tmp_path: Path, group_rows: int, compression: str) -> None:
    write(tmp_path, rows(2 * group_rows + 50), row_group_rows=group_rows)
    file = pq.ParquetFile(tmp_path / "root/a/b.parquet")
    groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == [group_rows, group_rows, 50]
    time = groups[0].column(0)
    assert {group.column(0).compression for group in groups} == {compression}
    has_statistics = {group.column(index).is_stats_set for group in groups for index in (0, 1, 2)}
    assert has_statistics == {group_rows > FEW_ROWS}
    assert "DELTA_BINARY_PACKED" in time.encodings
    assert "RLE_DICTIONARY" in groups[0].column(1).encodings
    assert file.schema_arrow.field("__time") == pa.field(
        "__time", pa.timestamp("us", tz="UTC"), nullable=False
    )
    assert file.schema_arrow.field("word").type == pa.string()
    assert groups[0].sorting_columns == (
        pq.SortingColumn(column_index=0, descending=False, nulls_first=True),
    )


@pytest.mark.parametrize("count", [FEW_ROWS, FEW_ROWS + 1])
def test_numbers_that_repeat_have_a_dictionary_where_rows_are_many(
    tmp_path: Path, count: int
) -> None:
    table = rows(count)
    same = table.set_column(2, "number", pa.array([i % 3 for i in range(count)], pa.int64()))
    write(tmp_path, same)
    group = pq.ParquetFile(tmp_path / "root/a/b.parquet").metadata.row_group(0)
    assert ("RLE_DICTIONARY" in group.column(2).encodings) == (count > FEW_ROWS)
    assert ("DELTA_BINARY_PACKED" in group.column(2).encodings) == (count <= FEW_ROWS)
    assert pq.read_table(tmp_path / "root/a/b.parquet").equals(same.cast(_schema_read(same)))


def _schema_read(table: pa.Table) -> pa.Schema:
    """Return the schema under which a file's rows are read: times have no nulls."""
    time = pa.field("__time", pa.timestamp("us", tz="UTC"), nullable=False)
    return table.schema.set(0, time)


def test_columns_go_by_name_and_absent_ones_are_null(tmp_path: Path) -> None:
    table = rows(3).select(["number", "__time", "is_new"])
    written = write(tmp_path, table)
    assert [column.null_count for column in written.columns] == [3, 0, 3, 0, 3, 3]
    read = pq.read_table(tmp_path / "root/a/b.parquet")
    assert read.schema.equals(segment_schema(COLUMNS))
    assert read.column("number").to_pylist() == [0, 1, 2]


def test_dictionaries_may_hold_words_that_no_row_uses(tmp_path: Path) -> None:
    table = rows(250)
    words = table.column("word").combine_chunks().dictionary_encode()
    larger = pa.DictionaryArray.from_arrays(
        words.indices, pa.concat_arrays([words.dictionary, pa.array(["aaa", "zzz"])])
    )
    index = table.schema.get_field_index("word")
    written = write(tmp_path, table.set_column(index, "word", larger), row_group_rows=40)
    plain = write(tmp_path / "plain", table, row_group_rows=40)
    assert written.columns == plain.columns
    assert written.row_hash == plain.row_hash
    read = pq.read_table(tmp_path / "root/a/b.parquet")
    assert read.to_pylist() == table.to_pylist()
    assert read.schema.field("word").type == pa.string()


def test_nothing_is_left_of_a_file_that_is_not_finished(tmp_path: Path) -> None:
    url = (tmp_path / "root").as_uri()
    with SegmentWriter(url, "a/b.parquet", COLUMNS, temp_dir=str(tmp_path), row_group_rows=2) as w:
        w.write(rows(5))
    assert list((tmp_path / "root/a").iterdir()) == []
    with (
        pytest.raises(Corrupt, match="would hold no rows"),
        SegmentWriter(url, "a/b.parquet", COLUMNS, temp_dir=str(tmp_path)) as w,
    ):
        w.finish()


def test_a_full_disk_is_said_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "root/a").mkdir(parents=True)
    monkeypatch.setattr(output.os, "fsync", fail)
    with pytest.raises(DiskFull, match=r"^the disk of deep storage .*root is full; make room"):
        write(tmp_path, rows(5))
    assert list((tmp_path / "root/a").iterdir()) == []


def test_file_and_folders_are_synced_before_the_file_counts_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    sync = os.fsync

    def note(handle: int) -> None:
        sync(handle)
        path = Path(f"/proc/self/fd/{handle}").readlink()
        synced.append(os.path.relpath(path, tmp_path))

    monkeypatch.setattr(output.os, "fsync", note)
    write(tmp_path, rows(5))
    assert synced[-4:] == [".", "root", "root/a/b.parquet", "root/a"]
    synced.clear()
    url = (tmp_path / "root").as_uri()
    with SegmentWriter(url, "a/c.parquet", COLUMNS, temp_dir=str(tmp_path)) as writer:
        writer.write(rows(5))
        writer.finish()
    assert synced == ["root/a/c.parquet", "root/a"]


def test_nothing_is_left_of_a_file_whose_folder_cannot_be_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "root/a"
    folder.mkdir(parents=True)
    sync = os.fsync

    def fail(handle: int) -> None:
        if os.path.samestat(os.fstat(handle), folder.stat()):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(handle)

    monkeypatch.setattr(output.os, "fsync", fail)
    with pytest.raises(Unavailable, match="input/output error"):
        write(tmp_path, rows(5))
    assert list(folder.iterdir()) == []


def test_a_remote_file_goes_there_in_one_upload(tmp_path: Path) -> None:
    import fsspec

    with SegmentWriter(
        "memory://bucket/x", "a/b.parquet", COLUMNS, temp_dir=str(tmp_path / "t")
    ) as w:
        w.write(rows(5))
        written = w.finish()
    data = fsspec.filesystem("memory").cat("/bucket/x/a/b.parquet")
    assert written.checksum == "sha256:" + hashlib.sha256(data).hexdigest()
    assert list((tmp_path / "t").iterdir()) == []
    output.remove_file("memory://bucket/x", "a/b.parquet")
    output.remove_file("memory://bucket/x", "a/b.parquet")
    assert not fsspec.filesystem("memory").exists("/bucket/x/a/b.parquet")


def bounds(kind: ColumnType, *batches: list[object]) -> tuple[object, object]:
    statistics = ColumnStatistics("c", kind)
    for batch in batches:
        statistics.add(pa.array(batch))
    column = statistics.column()
    return column.min_value, column.max_value


@pytest.mark.parametrize(
    ("kind", "batches", "expected"),
    [
        (ColumnType.LONG, [[3, None], [-2]], (-2, 3)),
        (ColumnType.LONG, [[None]], (None, None)),
        (ColumnType.DOUBLE, [[1.0], [float("nan")]], (None, None)),
        (ColumnType.DOUBLE, [[1.0], [float("inf")]], (None, None)),
        (ColumnType.STRING, [["b"], [""], ["ä"]], ("", "ä")),
        (ColumnType.JSON, [["{}"]], (None, None)),
    ],
)
def test_bounds(kind: ColumnType, batches: list[list[object]], expected: object) -> None:
    assert bounds(kind, *batches) == expected


@pytest.mark.parametrize("tail", ["a", "z" * 9, "\ud7ff" * 3, "\U0010ffff", "ab\U0010ffff"])
def test_a_cut_bound_is_still_a_bound(tail: str) -> None:
    text = "p" * (MAX_BOUND_CHARS - 1) + tail
    low, high = bounds(ColumnType.STRING, [text])
    assert isinstance(low, str)
    assert isinstance(high, str)
    assert low <= text <= high
    assert max(len(low), len(high)) <= MAX_BOUND_CHARS
    assert high.encode() >= text.encode()


def test_no_text_is_larger_than_the_largest_character() -> None:
    assert upper_bound("\U0010ffff" * (MAX_BOUND_CHARS + 1)) is None
    assert upper_bound("\U0010ffff" * MAX_BOUND_CHARS) == "\U0010ffff" * MAX_BOUND_CHARS


@pytest.mark.parametrize("count", [1, 7, FEW_WORDS, FEW_WORDS + 1, 3_000])
@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize(
    ("kind", "draw"),
    [
        (pa.int64(), lambda chance: chance.randint(-(2**63), 2**63 - 1)),
        (pa.float64(), lambda chance: chance.choice([chance.gauss(0, 9), float("inf"), 0.0])),
        (pa.float32(), lambda chance: chance.randint(-9, 9) / 4),
        (pa.bool_(), lambda chance: chance.random() < 0.5),
        (pa.string(), lambda chance: "".join(chance.choices("aZ\0é\ud7ff\ue000\uffff😀", k=3))),
    ],
    ids=lambda one: str(one) if isinstance(one, pa.DataType) else "",
)
def test_bounds_of_few_values_are_those_that_arrow_finds(
    kind: pa.DataType, draw: Callable[[random.Random], object], nulls: bool, count: int
) -> None:
    """Few texts and numbers without nulls are compared in another way, which nobody must notice."""
    chance = random.Random(count)
    values = [draw(chance) for _ in range(count)] + [None] * nulls
    array = pa.array(values, kind)
    expected = pc.min_max(array)
    assert bounds_of(array) == (expected["min"].as_py(), expected["max"].as_py())


def field_ids_of(path: Path) -> dict[str, str]:
    """Return the Parquet field id of each column that has one, and of the elements of lists."""
    found = {}
    for field in pq.ParquetFile(path).schema_arrow:
        parts = {field.name: field}
        if pa.types.is_list(field.type):
            parts[f"{field.name}[]"] = field.type.value_field
        for name, part in parts.items():
            if part.metadata and b"PARQUET:field_id" in part.metadata:
                found[name] = part.metadata[b"PARQUET:field_id"].decode()
    return found


def test_each_column_has_the_field_id_of_its_name_whatever_stands_beside_it(tmp_path: Path) -> None:
    write(tmp_path, rows(250))
    found = field_ids_of(tmp_path / "root/a/b.parquet")
    assert found.keys() == {"__time", *(name for name, _ in COLUMNS), "tags[]"}
    assert len(set(found.values())) == len(found)
    assert found["__time"] == "1005826440"  # what files have now, readers know for ever
    url = (tmp_path / "root").as_uri()
    columns = (("tags", ColumnType.STRING_ARRAY), ("new", ColumnType.LONG))
    with SegmentWriter(url, "a/c.parquet", columns, temp_dir=str(tmp_path)) as writer:
        writer.write(rows(10).select(["__time", "tags"]))
        writer.finish()
    again = field_ids_of(tmp_path / "root/a/c.parquet")
    assert {name: found[name] for name in ("__time", "tags", "tags[]")} == {
        name: one for name, one in again.items() if name != "new"
    }


def test_two_names_with_the_same_field_id_have_none() -> None:
    ids = field_ids(["column_369", "column_7349", "country"])
    assert ids == {"country": 1_609_365_634}
