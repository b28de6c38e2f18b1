"""JSONPath with wildcards: the same values whatever the rows come as, held against walking the rows in Python."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from carnac.errors import Invalid
from carnac.rows.normalise.coerce import SeveralValues
from carnac.rows.read.inputs import InputFile
from carnac.specs.ingest.inputs import InputFormat, JsonFormat, OrcFormat, ParquetFormat
from carnac.specs.ingest.json_paths import EVERY, Step, parse_path
from carnac.specs.load import load_spec
from tests.unit.rows.loading import (
    discovered_types,
    load_bytes,
    load_files,
    shape,
)

ROWS: list[dict[str, Any]] = [
    {
        "t": 1,
        "tags": ["a", None, "c"],
        "items": [
            {"id": 1, "n": [1, 2], "of": {"x": "p"}},
            {"id": None, "n": [], "of": None},
            None,
            {"id": 3, "n": [None, 5], "of": {"x": "q"}},
        ],
        "pair": {"left": {"v": 1}, "right": {"v": 2}},
        "grid": [[1, 2], [], [3]],
        "by": {"k1": "one", "k2": "two"},
        "text": '{"list": [{"z": "A"}, {"y": 0}, {"z": "B"}], "deep": [[7], [8, 9]]}',
    },
    {
        "t": 2,
        "tags": [],
        "items": [{"id": 7, "n": None, "of": {"x": None}}],
        "pair": {"left": None, "right": {"v": 4}},
        "grid": None,
        "by": {"k9": "it's"},
        "text": '{"list": {"a": {"z": "C"}}}',
    },
    {
        "t": 3,
        "tags": None,
        "items": None,
        "pair": None,
        "grid": [[]],
        "by": None,
        "text": "5",
    },
]
SCHEMA = pa.schema(
    [
        ("t", pa.int64()),
        ("tags", pa.list_(pa.string())),
        (
            "items",
            pa.list_(
                pa.struct(
                    {
                        "id": pa.int64(),
                        "n": pa.list_(pa.int64()),
                        "of": pa.struct({"x": pa.string()}),
                    }
                )
            ),
        ),
        (
            "pair",
            pa.struct(
                {"left": pa.struct({"v": pa.int64()}), "right": pa.struct({"v": pa.int64()})}
            ),
        ),
        ("grid", pa.list_(pa.list_(pa.int64()))),
        ("by", pa.map_(pa.string(), pa.string())),
        ("text", pa.string()),
    ]
)
FIELDS = {
    "all_tags": ("$.tags[*]", "array<string>"),
    "ids": ("$.items[*].id", "array<long>"),
    "numbers": ("$.items[*].n[*]", "array<long>"),
    "lasts": ("$['items'][*]['n'][-1]", "array<long>"),
    "inner": ("$.items[*].of.x", "array<string>"),
    "members": ("$.items[0].of.*", "array<string>"),
    "sides": ("$.pair.*.v", "array<long>"),
    "sides_too": ("$.pair[ * ].v", "array<long>"),
    "flat": ("$.grid[*][*]", "array<long>"),
    "heads": ("$.grid[*][0]", "array<long>"),
    "values": ("$.by.*", "array<string>"),
    "missing": ("$.items[*].nowhere", "array<string>"),
    "of_number": ("$.t[*]", "array<string>"),
}
OF_TEXT = {
    "in_text": ("$.text.list[*].z", "array<string>"),
    "deep_text": ("$.text.deep[*][*]", "array<long>"),
}
"""Paths into text that is JSON, which columns may hold."""


def walk(value: Any, steps: tuple[Step, ...]) -> Iterator[Any]:
    """Yield what a path finds, nulls left out."""
    if not steps:
        if value is not None:
            yield value
        return
    step, rest = steps[0], steps[1:]
    if step is EVERY:
        children = value.values() if isinstance(value, dict) else value
        for child in children if isinstance(children, list | type({}.values())) else ():
            yield from walk(child, rest)
        return
    is_there = isinstance(value, dict if isinstance(step, str) else list)
    try:
        found = value[step] if is_there else None
    except (KeyError, IndexError):
        return
    yield from walk(found, rest)


def expected(row: dict[str, Any], expr: str) -> list[Any] | None:
    return list(walk(row, parse_path(expr, "a"))) or None


def flatten(fields: dict[str, tuple[str, str]]) -> dict[str, Any]:
    paths = [{"type": "path", "name": name, "expr": expr} for name, (expr, _) in fields.items()]
    return {"flattenSpec": {"useFieldDiscovery": False, "fields": [*paths, "t"]}}


def write(path: Path, fields: dict[str, tuple[str, str]]) -> tuple[InputFile, InputFormat]:
    """Write the rows as the file's ending says; Arrow knows a map by its pairs."""
    table = pa.Table.from_pylist(
        [{**row, "by": None if row["by"] is None else list(row["by"].items())} for row in ROWS],
        schema=SCHEMA,
    )
    file_format: InputFormat
    if path.suffix == ".parquet":
        pq.write_table(table, path)
        file_format = ParquetFormat.model_validate(flatten(fields))
    elif path.suffix == ".orc":
        pyarrow.orc.write_table(table, path)
        file_format = OrcFormat.model_validate(flatten(fields))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
        file_format = JsonFormat.model_validate(flatten(fields))
    return InputFile(url=str(path), size_bytes=path.stat().st_size), file_format


@pytest.mark.parametrize("kind", ["json", "parquet", "orc"])
def test_a_wildcard_finds_the_same_values(tmp_path: Path, kind: str) -> None:
    file, file_format = write(tmp_path / f"a.{kind}", FIELDS)
    kinds = {name: kind for name, (_, kind) in FIELDS.items()}
    found = load_files([file], shape(kinds), file_format=file_format)
    assert not found.rejected
    for name, (expr, _) in FIELDS.items():
        assert found.column(name) == [expected(row, expr) for row in ROWS], expr


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_a_wildcard_looks_into_text_that_is_json(tmp_path: Path, kind: str) -> None:
    file, file_format = write(tmp_path / f"a.{kind}", OF_TEXT)
    kinds = {name: kind for name, (_, kind) in OF_TEXT.items()}
    found = load_files([file], shape(kinds), file_format=file_format)
    parsed = [{**row, "text": json.loads(row["text"])} for row in ROWS]
    for name, (expr, _) in OF_TEXT.items():
        assert found.column(name) == [expected(row, expr) for row in parsed], expr


@pytest.mark.parametrize("kind", ["json", "parquet", "orc"])
def test_its_type_is_discovered(tmp_path: Path, kind: str) -> None:
    file, file_format = write(tmp_path / f"a.{kind}", FIELDS)
    types = discovered_types(file, file_format)
    nowhere = {"missing", "of_number"}
    assert {name: types[name] for name in FIELDS if name not in nowhere} == {
        name: kind for name, (_, kind) in FIELDS.items() if name not in nowhere
    }


def test_one_value_of_a_string_dimension_is_that_value_and_several_widen_it() -> None:
    file_format = JsonFormat.model_validate(flatten({"d": ("$.a[*].b", "string")}))
    one = load_bytes('{"t":1,"a":[{"b":"x"},{}]}', {"d": "string"}, file_format=file_format)
    assert one.column("d") == ["x"]
    none = load_bytes('{"t":1,"a":[{}]}', {"d": "string"}, file_format=file_format)
    assert none.column("d") == [None]
    with pytest.raises(SeveralValues):
        load_bytes('{"t":1,"a":[{"b":"x"},{"b":"y"}]}', {"d": "string"}, file_format=file_format)


def test_the_exact_look_at_a_suspect_line_finds_the_same_values() -> None:
    file_format = JsonFormat.model_validate(flatten({"d": ("$.a[*]", "string"), "n": ("$.n", "")}))
    line = '{"t":1,"n":%s,"a":["x",2,null,{"b":[1]}]}\n{"t":'
    for number, reasons in (("1", 1), ('"no number"', 2)):
        found = load_bytes(
            line % number, {"d": "array<string>", "n": "long"}, file_format=file_format
        )
        assert len(found.rejected) == reasons
        assert found.column("d") == [["x", "2", '{"b":[1]}']][: 2 - reasons]


@pytest.mark.parametrize(
    "expr",
    [
        "$..a",
        "$.a[?(@.b)]",
        "$.a[--1]",
        "$.a[-]",
        "$.a[1:2]",
        "$.a[0,1]",
        "$.a.length()",
        "$a",
        "$.",
        "$.a['']",
    ],
)
def test_the_rest_of_jsonpath_is_refused_with_the_spec(expr: str) -> None:
    text = {
        "dataSource": "a",
        "input": {
            "type": "inline",
            "data": "",
            "inputFormat": {
                "type": "json",
                "flattenSpec": {"fields": [{"type": "path", "name": "n", "expr": expr}]},
            },
        },
    }
    with pytest.raises(Invalid) as caught:
        load_spec(text)
    assert f"path '{expr}' of field 'n' cannot be read at '" in caught.value.message
    assert caught.value.message.endswith(
        "of JSONPath are taken names, indexes and wildcards, like $.a.b[0], $['a b'], $.a[-1] and $.a[*].b"
    )
