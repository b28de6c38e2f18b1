"""Rows of a leaf that are kept until it has reported, in memory or in a file."""

from __future__ import annotations

import pyarrow as pa
import pytest

from carnac.broker import parts
from carnac.broker.parts import Part
from carnac.ports.queries import LeafReport
from carnac.ports.temporary import own_folder


def batches(count: int, rows: int = 100) -> list[pa.RecordBatch]:
    return [
        pa.RecordBatch.from_pydict({"n": range(place * rows, (place + 1) * rows)})
        for place in range(count)
    ]


@pytest.mark.parametrize(("held_bytes", "is_spilt"), [(1 << 20, False), (3_000, True), (0, True)])
def test_rows_come_back_as_they_went(
    monkeypatch: pytest.MonkeyPatch, held_bytes: int, is_spilt: bool
) -> None:
    monkeypatch.setattr(parts, "HELD_BYTES_MAX", held_bytes)
    monkeypatch.setattr(parts, "GROUP_BYTES", 2_000)
    part = Part(may_spill=True)
    for batch in batches(10):
        part.add(batch)
    part.finish(LeafReport(is_whole=True))
    assert any(own_folder("answers").iterdir()) is is_spilt
    tables = list(part.tables())
    assert len(tables) > 1
    part.close()
    part.close()
    assert not any(own_folder("answers").iterdir())
    assert pa.concat_tables(tables).column("n").to_pylist() == list(range(1000))
    assert (part.rows, part.size_bytes) == (1000, 8000)


def test_no_rows_are_one_table_with_columns() -> None:
    part = Part(may_spill=False)
    part.add(batches(1)[0].slice(0, 0))
    part.finish(LeafReport(is_whole=True))
    [table] = part.tables()
    assert table.schema.names == ["n"]
    assert not list(Part(may_spill=False).tables())


def test_what_is_dropped_amid_its_rows_leaves_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "HELD_BYTES_MAX", 0)
    part = Part(may_spill=True)
    part.add(batches(1)[0])
    part.close()
    assert not any(own_folder("answers").iterdir())
