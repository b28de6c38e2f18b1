"""JSONPath with indexes from the end: the same element whatever the rows come as."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from carnac.rows.read.inputs import InputFile
from carnac.specs.ingest.inputs import InputFormat, JsonFormat, OrcFormat, ParquetFormat
from tests.unit.rows.loading import discovered_types, load_files, shape

ROWS: list[dict[str, Any]] = [
    {"t": 1, "tags": ["a", "b", "c"], "deep": [{"n": [1, 2]}, {"n": [3, 4, 5]}]},
    {"t": 2, "tags": ["only"], "deep": [{"n": [6]}]},
    {"t": 3, "tags": [], "deep": []},
    {"t": 4, "tags": None, "deep": None},
]
FIELDS = {
    "first": "$.tags[0]",
    "last": "$.tags[-1]",
    "last_but_one": "$['tags'][-2]",
    "far": "$.tags[-9]",
    "inner": "$.deep[-1].n[-2]",
    "mixed": "$.deep[0]['n'][-1]",
}
KINDS = {name: "long" if name in {"inner", "mixed"} else "string" for name in FIELDS}


def element(value: Any, *steps: str | int) -> Any:
    """Walk as a path does; None where there is nothing."""
    for step in steps:
        try:
            value = value[step]
        except (IndexError, KeyError, TypeError):
            return None
    return value


EXPECTED = [
    {
        "first": element(row, "tags", 0),
        "last": element(row, "tags", -1),
        "last_but_one": element(row, "tags", -2),
        "far": None,
        "inner": element(row, "deep", -1, "n", -2),
        "mixed": element(row, "deep", 0, "n", -1),
    }
    for row in ROWS
]
FLATTEN = {
    "flattenSpec": {
        "fields": [{"type": "path", "name": name, "expr": expr} for name, expr in FIELDS.items()]
    }
}


def write(path: Path) -> tuple[InputFile, InputFormat]:
    file_format: InputFormat
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
        file_format = ParquetFormat.model_validate(FLATTEN)
    elif path.suffix == ".orc":
        pyarrow.orc.write_table(pa.Table.from_pylist(ROWS), path)
        file_format = OrcFormat.model_validate(FLATTEN)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
        file_format = JsonFormat.model_validate(FLATTEN)
    return InputFile(url=str(path), size_bytes=path.stat().st_size), file_format


@pytest.mark.parametrize("kind", ["json", "parquet", "orc"])
def test_an_index_from_the_end_names_the_same_element(tmp_path: Path, kind: str) -> None:
    file, file_format = write(tmp_path / f"a.{kind}")
    found = load_files([file], shape(KINDS), file_format=file_format)
    assert [{name: row[name] for name in FIELDS} for row in found.rows] == EXPECTED
    assert not found.rejected


@pytest.mark.parametrize("kind", ["json", "parquet", "orc"])
def test_its_type_is_discovered(tmp_path: Path, kind: str) -> None:
    file, file_format = write(tmp_path / f"a.{kind}")
    types = discovered_types(file, file_format)
    without_values = {"far"} if kind == "json" else set()  # other files say a type of their own
    assert types.keys() & without_values == set()
    assert {name: types.get(name, KINDS["far"]) for name in KINDS} == KINDS
