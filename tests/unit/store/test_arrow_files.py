"""Files of Arrow, with and without a spec: files, streams, Feather; compressed ones; and what is none."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather, ipc, orc

import carnac
from carnac import Store
from carnac.errors import Invalid

pytestmark = pytest.mark.usefixtures("shared_connection")

AT = 1_704_067_200_000
TABLE = pa.table(
    {
        "time": pa.array([AT, AT + 1, AT + 2], pa.timestamp("ms")),
        "page": pa.chunked_array(
            [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c"]).dictionary_encode()]
        ),
        "tags": pa.array([["x"], [], None]),
        "n": [1, 2, None],
    }
)
ROWS = [
    {"page": "a", "tags": ["x"], "n": 1},
    {"page": "b", "tags": [], "n": 2},
    {"page": "c", "tags": None, "n": None},
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with carnac.open(tmp_path / "store", create=True) as opened:
        yield opened


def as_file(path: Path, compression: str | None = None) -> None:
    options = ipc.IpcWriteOptions(compression=compression, unify_dictionaries=True)
    with ipc.new_file(path, TABLE.schema, options=options) as writer:
        writer.write_table(TABLE)


def as_stream(path: Path) -> None:
    with ipc.new_stream(path, TABLE.schema) as writer:
        writer.write_table(TABLE)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("rows.arrow", as_file),
        ("rows.ipc", lambda path: as_file(path, "lz4")),
        ("rows.feather", lambda path: feather.write_feather(TABLE, str(path), compression="zstd")),
        ("rows.arrows", as_stream),
        ("rows.bin", as_file),
        ("stream.bin", as_stream),
    ],
)
def test_a_file_of_arrow_is_known_by_its_name_or_its_first_bytes(
    store: Store, tmp_path: Path, name: str, write: Callable[[Path], None]
) -> None:
    write(tmp_path / name)
    store.append("d", tmp_path / name)
    found = store.sql("SELECT page, tags, n FROM d ORDER BY __time").arrow().to_pylist()
    assert found == ROWS


WRITERS: dict[str, Any] = {
    "parquet": pq.write_table,
    "orc": orc.write_table,
    "feather": feather.write_feather,
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_bytes_are_texts_where_the_format_says_so(
    store: Store, tmp_path: Path, suffix: str
) -> None:
    """Of ORC, the option was read and passed over."""
    rows = pa.table({"time": [AT], "b": [b"x"], "l": [[b"y"]]})
    WRITERS[suffix](rows, str(tmp_path / f"rows.{suffix}"))
    spec = {
        "dataSource": "d",
        "input": {
            "paths": str(tmp_path / f"rows.{suffix}"),
            "inputFormat": {"type": suffix, "binaryAsString": True},
        },
        "timestampSpec": {"column": "time"},
        "dimensions": ["b", "l"],
    }
    store.append("d", tmp_path / f"rows.{suffix}", spec=spec)
    assert store.sql("SELECT b, l FROM d").arrow().to_pylist() == [{"b": "x", "l": ["y"]}]


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_file_of_columns_may_be_compressed_as_a_whole(
    store: Store, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"rows.{suffix}"
    WRITERS[suffix](TABLE.select(["time", "n"]), str(path))
    (tmp_path / f"rows.{suffix}.gz").write_bytes(gzip.compress(path.read_bytes()))
    store.append("d", tmp_path / f"rows.{suffix}.gz")
    assert store.sql("SELECT sum(n) AS n FROM d").arrow()["n"].to_pylist() == [3]


def test_the_types_of_parquet_are_those_that_are_read(store: Store, tmp_path: Path) -> None:
    """The schema of Arrow that a file holds beside its own said others: texts for durations, of which numbers came."""
    rows = pa.table(
        {
            "time": TABLE["time"],
            "took": pa.array([1, 2, 3], pa.duration("s")),
            "pair": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2)),
            "ids": pa.ListArray.from_arrays([0, 1, 1, 1], pa.array([bytes(16)], pa.uuid())),
            "half": pa.array([1.5, None, 2.5], pa.float16()),
        }
    )
    pq.write_table(rows, tmp_path / "rows.parquet")
    store.append("d", tmp_path / "rows.parquet")
    found = store.sql("SELECT took, pair, ids, half FROM d ORDER BY __time LIMIT 1").arrow()
    zero = "00000000-0000-0000-0000-000000000000"
    assert found.to_pylist() == [{"took": 1, "pair": [1, 2], "ids": [zero], "half": 1.5}]


def test_a_spec_names_arrow_and_flattens_it(store: Store, tmp_path: Path) -> None:
    rows = pa.table({"t": ["2024-01-01"], "user": [{"id": 7}], "x": ["later"]})
    feather.write_feather(rows, str(tmp_path / "rows.bin"))
    spec = {
        "dataSource": "d",
        "input": {
            "paths": str(tmp_path / "rows.bin"),
            "inputFormat": {
                "type": "feather",
                "flattenSpec": {"fields": [{"name": "id", "expr": "$.user.id"}]},
            },
        },
        "timestampSpec": {"column": "t"},
        "dimensions": ["x", {"name": "id", "type": "long"}],
    }
    store.append("d", tmp_path / "rows.bin", spec=spec)
    assert store.sql("SELECT x, id FROM d").arrow().to_pylist() == [{"x": "later", "id": 7}]


def test_a_file_of_arrow_without_rows_adds_none(store: Store, tmp_path: Path) -> None:
    feather.write_feather(TABLE.slice(0, 0), str(tmp_path / "none.feather"))
    feather.write_feather(TABLE, str(tmp_path / "some.feather"))
    with pytest.raises(Invalid, match=r"none.feather has no rows"):
        store.append("d", tmp_path / "none.feather")
    store.append("d", [tmp_path / "none.feather", tmp_path / "some.feather"])
    assert store.sql("SELECT count(*) AS n FROM d").arrow()["n"].to_pylist() == [3]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"FEA1" + bytes(20), "is Feather of version 1; write it anew as version 2"),
        (b"ARROW1" + bytes(20), "Arrow file .* cannot be read: "),
        (b"\xff\xff\xff\xff\x10\0\0\0damaged", "Arrow file .* cannot be read: "),
    ],
)
def test_what_is_no_file_of_arrow_is_told(
    store: Store, tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "rows.arrow"
    path.write_bytes(content)
    with pytest.raises(Invalid, match=message):
        store.append("d", path)
    as_file(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(Invalid, match=r"Arrow file .* cannot be read: "):
        store.append("d", path)


def test_a_sample_of_parquet_is_read_a_few_columns_at_a_time(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of a wide file at once would not fit into the memory that a sample has."""
    monkeypatch.setattr("carnac.rows.read.columnar.COLUMNS_AT_ONCE", 3)
    rows = {"time": [AT, AT + 1], **{f"c{place}": [place, place + 0.5] for place in range(7)}}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    store.append("d", tmp_path / "rows.parquet")
    found = store.sql("SELECT * FROM d ORDER BY __time").arrow().drop_columns("__time")
    assert found.column_names == [f"c{place}" for place in range(7)]
    assert found.to_pylist()[1] == {f"c{place}": place + 0.5 for place in range(7)}
