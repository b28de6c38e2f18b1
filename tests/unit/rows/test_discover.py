"""What an input has, for specs that do not say."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carnac.core.segments.segment import ColumnType
from carnac.errors import Invalid
from carnac.rows.infer import sampling
from carnac.rows.infer.sampling import infer_from_files
from carnac.rows.normalise.shape import row_shape
from carnac.rows.read.discover import (
    SeenFields,
    discover_fields,
    discover_in_arrow,
    discovered_columns,
    needs_discovery,
    type_of,
    unite_seen,
)
from carnac.rows.read.inputs import InputFile
from carnac.rows.read.reading import ReadTask
from carnac.specs.ingest.inference import TimeHints
from carnac.specs.ingest.inputs import (
    CsvFormat,
    FlattenSpec,
    InputFormat,
    JsonFormat,
    OrcFormat,
    ParquetFormat,
)
from carnac.specs.ingest.spec import IngestSpec
from tests.unit.rows.loading import STAMP, connection, inline, load_files

LINES = """{"t":1,"whole":1,"mixed":"x","list":[1,2],"object":{"z":1},"null":null,"m":1,"b":true}
not json

[1]
{"t":2,"whole":-7,"real":1.5,"mixed":2,"list":["x",null],"flag":true,"empty":[],"deep":[[1]],"b":3}
{"t":3,"whole":null,"real":2,"numbers":[1,2.5],"wholes":[1,2],"only_last":"y"}
"""
TYPED = {
    "whole": "long",
    "mixed": "string",
    "list": "array<string>",
    "object": "json",
    "b": "long",
    "real": "double",
    "flag": "long",
    "deep": "json",
    "numbers": "array<double>",
    "wholes": "array<long>",
    "only_last": "string",
}
TEXT = {
    name: kind if kind == "json" else ("array<string>" if kind.startswith("array") else "string")
    for name, kind in TYPED.items()
}


def see(file_format: InputFormat, *files: InputFile) -> SeenFields:
    task = ReadTask(files=files, format=file_format, timestamp=STAMP, scratch_dir="")
    with connection() as con:
        return discover_fields(con, task)


def spec(**dimensions: Any) -> IngestSpec:
    return IngestSpec.model_validate(
        {
            "dataSource": "d",
            "input": {"data": ""},
            "timestampSpec": {"column": "t"},
            "dimensionsSpec": dimensions,
            "metricsSpec": [{"type": "longSum", "name": "sum", "fieldName": "m"}],
        }
    )


def columns(seen: SeenFields, **dimensions: Any) -> dict[str, str]:
    return {name: str(kind) for name, kind in discovered_columns(seen, spec(**dimensions))}


def test_json_with_types() -> None:
    seen = see(JsonFormat(), inline(LINES))
    assert list(columns(seen, useSchemaDiscovery=True).items()) == list(TYPED.items())


def test_a_field_whose_name_the_engine_would_cut_is_refused() -> None:
    """A NUL ends a name in DuckDB: the field would be another one's."""
    said = r"a field of .*, line 2, holds a control character \(U\+0000\)"
    with pytest.raises(Invalid, match=said):
        see(JsonFormat(), inline('{"a":1}\n{"a\\u0000b":2}\n'))


@pytest.mark.parametrize("names", [["t", "a\0b"], ["t", "a\0b", "a"]])
def test_nor_is_a_column_of_that_kind(tmp_path: Path, names: list[str]) -> None:
    table = pa.table({name: ["2024-01-01"] for name in names})
    pq.write_table(table, tmp_path / "a.parquet")
    file = InputFile(url=str(tmp_path / "a.parquet"), size_bytes=1)
    with pytest.raises(Invalid, match=r"holds a control character \(U\+0000\)"):
        see(ParquetFormat(), file)
    with pytest.raises(Invalid, match=r"holds a control character \(U\+0000\)"):
        infer_from_files("d", [str(tmp_path / "a.parquet")], TimeHints(), str(tmp_path / "x"))


@pytest.mark.slow
def test_a_sample_that_memory_does_not_hold_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "MEMORY_BYTES", 64 << 20)
    fields = ",".join(f'"c{number}":1' for number in range(8_000))
    (tmp_path / "wide.jsonl").write_text(f'{{"t":"2024-01-01",{fields}}}\n')
    with pytest.raises(Invalid, match=r"so many or so long fields .* give a spec"):
        infer_from_files("d", [str(tmp_path / "wide.jsonl")], TimeHints(), str(tmp_path / "x"))


def test_json_without_types_and_with_exclusions() -> None:
    seen = see(JsonFormat(), inline(LINES))
    assert columns(seen) == TEXT
    without = columns(seen, dimensionExclusions=["deep", "b"])
    assert without == {name: kind for name, kind in TEXT.items() if name not in {"deep", "b"}}


def test_listed_dimensions_keep_their_type_and_place() -> None:
    seen = see(JsonFormat(), inline(LINES))
    listed = [{"name": "real", "type": "auto"}, {"name": "whole", "type": "double"}]
    assert columns(seen, dimensions=listed) == {"real": "double"}
    further = spec(dimensions=listed, includeAllDimensions=True, useSchemaDiscovery=True)
    shape = row_shape(further, discovered_columns(seen, further))
    assert [(one.name, str(one.type)) for one in shape.dimensions[:3]] == [
        ("real", "double"),
        ("whole", "double"),
        ("mixed", "string"),
    ]
    assert set(shape.dimension_names) == set(TYPED)


def test_which_specs_need_it() -> None:
    assert needs_discovery(spec())
    assert needs_discovery(spec(dimensions=["a"], includeAllDimensions=True))
    assert needs_discovery(spec(dimensions=[{"name": "a", "type": "auto"}]))
    assert not needs_discovery(spec(dimensions=["a"]))


def test_what_was_discovered_takes_every_row_that_is_json() -> None:
    wanted = spec(useSchemaDiscovery=True)
    seen = see(JsonFormat(), inline(LINES))
    found = load_files(
        [inline(LINES)],
        row_shape(wanted, discovered_columns(seen, wanted)),
        file_format=JsonFormat(),
    )
    assert found.column("__time") == [1, 2, 3]
    assert found.reasons == ["malformed json", "not a json object"]


def test_flattened_fields() -> None:
    fields = [{"type": "path", "name": "z", "expr": "$.object.z"}, "whole"]
    for discovers, extra in ((False, set()), (True, set(TYPED))):
        flatten = FlattenSpec.model_validate({"useFieldDiscovery": discovers, "fields": fields})
        seen = see(JsonFormat(flatten=flatten), inline(LINES))
        found = columns(seen, useSchemaDiscovery=True)
        assert set(found) == {"z", "whole"} | extra
        assert found["z"] == "long"


def test_a_field_without_a_name_is_none_and_a_column_without_one_is_refused(tmp_path: Path) -> None:
    line = inline('{"t": 1, "": 5, "v": "x"}')
    task = ReadTask(files=(line,), format=JsonFormat(), timestamp=STAMP, scratch_dir="")
    with connection() as con:
        assert list(discover_fields(con, task).kinds) == ["t", "v"]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"t": [1], "": [5]}), path)
    file = InputFile(url=str(path), size_bytes=path.stat().st_size)
    with (
        pytest.raises(Invalid, match=r"^column 2 of input .* has no name; give it one$"),
        connection() as con,
    ):
        discover_fields(
            con, ReadTask(files=(file,), format=ParquetFormat(), timestamp=STAMP, scratch_dir="")
        )


def test_compressed_and_several_files(tmp_path: Path) -> None:
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(b'{"t":1,"z":1}\n{"t":1,"y":1}'))
    file = InputFile(url=str(packed), size_bytes=packed.stat().st_size, compression="gzip")
    seen = see(JsonFormat(), file, inline('{"t":1,"x":1,"y":1.5}'))
    assert list(columns(seen, useSchemaDiscovery=True).items()) == [
        ("z", "long"),
        ("y", "double"),
        ("x", "long"),
    ]


def test_csv() -> None:
    seen = see(CsvFormat(), inline("t,a,m\n1,2,3\n"), inline("b,t\n"), inline(""))
    assert columns(seen, useSchemaDiscovery=True) == {"a": "string", "b": "string"}


TABLE = pa.table(
    {
        "t": pa.array([1]),
        "i": pa.array([1], pa.int16()),
        "f": pa.array([1.5], pa.float32()),
        "b": pa.array([True]),
        "s": pa.array(["x"]),
        "d": pa.array([1]).cast(pa.timestamp("us")),
        "l": pa.array([[1]]),
        "ll": pa.array([[[1]]]),
        "o": pa.array([{"x": 1}]),
    }
)
TABLE_TYPES = {
    "i": "long",
    "f": "double",
    "b": "long",
    "s": "string",
    "d": "string",
    "l": "array<long>",
    "ll": "json",
    "o": "json",
}


def test_columns_of_files_and_frames(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "a.parquet")
    pyarrow.orc.write_table(TABLE, tmp_path / "a.orc")
    seen = [
        see(file_format, InputFile(url=str(tmp_path / f"a.{file_format.type}"), size_bytes=1))
        for file_format in (ParquetFormat(), OrcFormat())
    ]
    with connection() as con:
        seen.append(discover_in_arrow(con, TABLE.schema))
    for one in seen:
        assert columns(one, useSchemaDiscovery=True) == TABLE_TYPES


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (set(), "string"),
        ({"null"}, "string"),
        ({"boolean"}, "long"),
        ({"whole", "null"}, "long"),
        ({"whole", "number"}, "double"),
        ({"whole", "text"}, "string"),
        ({"text", "object"}, "json"),
        ({"[]"}, "array<string>"),
        ({"whole[]", "[]", "whole"}, "array<long>"),
        ({"null[]", "[]"}, "array<string>"),
        ({"number", "whole[]"}, "array<double>"),
        ({"text", "whole[]"}, "array<string>"),
        ({"object[]"}, "json"),
    ],
)
def test_narrowest_type(kinds: set[str], expected: str) -> None:
    assert type_of(frozenset(kinds)) is ColumnType(expected)


KINDS = st.frozensets(
    st.sampled_from(["null", "boolean", "whole", "number", "text", "object", "[]"])
)


@given(st.lists(st.dictionaries(st.sampled_from("abc"), KINDS), max_size=4), st.integers(0, 4))
def test_looks_unite_in_any_division(looks: list[dict[str, Any]], at: int) -> None:
    seen = [SeenFields(one) for one in looks]
    halves = [unite_seen(seen[:at]), unite_seen(seen[at:])]
    assert dict(unite_seen(halves).kinds) == dict(unite_seen(seen).kinds)
    assert list(unite_seen(halves).kinds) == list(unite_seen(seen).kinds)
