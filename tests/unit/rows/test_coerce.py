"""What each type takes, whatever form the cell comes in."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import functools
import json
import math
from typing import Any

import pyarrow as pa
import pytest

from carnac import sketches
from carnac.core.segments.segment import ColumnType, Metric, MetricKind
from carnac.errors import Invalid
from carnac.rows.normalise.coerce import SeveralValues
from carnac.rows.normalise.shape import DimensionShape, RowShape
from carnac.rows.read.reading import load_rows_from_arrow
from carnac.sketches import build_hll, build_quantiles, build_theta
from carnac.specs.ingest.inputs import CsvFormat, JsonFormat
from tests.unit.rows.loading import (
    STAMP,
    Loaded,
    connection,
    inline,
    load_bytes,
    load_files,
    look,
    shape,
)

pytestmark = pytest.mark.usefixtures("shared_connection")

NAN = math.nan
INF = math.inf


class Bad:
    """The row is rejected."""


JSON_CELLS: list[tuple[str, dict[str, Any]]] = [
    (
        "null",
        dict.fromkeys(["string", "long", "double", "float", "boolean", "json", "array<string>"]),
    ),
    ("12", {"string": "12", "long": 12, "double": 12.0, "boolean": True, "json": "12"}),
    ("12", {"array<string>": ["12"], "array<long>": [12], "array<double>": [12.0]}),
    ("12.7", {"string": "12.7", "long": 12, "double": 12.7, "float": 12.699999809265137}),
    ("-12.7", {"long": -12, "array<long>": [-12]}),
    ("-0.5", {"long": 0}),
    ("1e3", {"string": "1000.0", "long": 1000, "json": "1000.0"}),
    ("1.0", {"string": "1.0", "long": 1, "json": "1.0"}),
    ("1E25", {"string": "1e+25", "array<string>": ["1e+25"], "long": Bad, "double": 1e25}),
    ("1e18", {"long": 10**18}),
    ("1e400", {"double": INF, "long": Bad}),
    ("9007199254740993", {"long": 2**53 + 1, "string": "9007199254740993"}),
    ("9223372036854775807", {"long": 2**63 - 1, "double": 2.0**63}),
    ("9223372036854775808", {"long": Bad, "string": "9223372036854775808", "array<long>": Bad}),
    ("-9223372036854775808", {"long": -(2**63)}),
    ("-9223372036854775809", {"long": Bad}),
    ("true", {"string": "true", "long": 1, "double": 1.0, "boolean": True, "json": "true"}),
    ("false", {"string": "false", "long": 0, "float": 0.0, "boolean": False}),
    ('"12"', {"string": "12", "long": 12, "double": 12.0, "json": '"12"'}),
    ('" 12 "', {"string": " 12 ", "long": 12, "double": 12.0}),
    ('"12.7"', {"long": 12, "double": 12.7}),
    ('"1.5e3"', {"long": 1500}),
    ('"9007199254740993.9"', {"long": 2**53 + 1}),
    ('"abc"', {"string": "abc", "long": Bad, "double": Bad, "float": Bad, "boolean": Bad}),
    ('"abc"', {"array<long>": Bad, "array<double>": Bad, "array<string>": ["abc"]}),
    ('""', {"string": "", "long": None, "double": None, "boolean": None, "json": '""'}),
    ('""', {"array<string>": [""], "array<long>": [None]}),
    ('"  "', {"string": "  ", "long": None, "float": None}),
    ('"true"', {"string": "true", "long": Bad, "boolean": True}),
    ('"NaN"', {"double": NAN, "long": Bad}),
    ('"Infinity"', {"double": INF, "long": Bad}),
    ('"-Infinity"', {"double": -INF}),
    ('"0x10"', {"long": Bad, "double": Bad}),
    ('{"a": 1}', {"string": '{"a":1}', "json": '{"a":1}', "long": Bad, "array<long>": Bad}),
    ("[]", {"string": None, "json": "[]", "array<string>": [], "array<long>": [], "long": Bad}),
    ("[5]", {"string": "5", "array<long>": [5], "json": "[5]", "long": Bad}),
    ('[1, "2", null, true]', {"array<string>": ["1", "2", None, "true"]}),
    (
        '[1, "2", null, true]',
        {"array<long>": [1, 2, None, 1], "array<double>": [1.0, 2.0, None, 1.0]},
    ),
    ('[1, "x"]', {"array<long>": Bad}),
    ('[[1], {"a": 2}]', {"array<string>": ["[1]", '{"a":2}'], "array<long>": Bad}),
    ('"[1, 2]"', {"string": "[1, 2]", "json": '"[1, 2]"', "array<string>": ["[1, 2]"]}),
    ('"\\u00e9\\u4e2d\\ud83d\\ude00"', {"string": "é中😀"}),
]


@pytest.mark.parametrize(
    ("cell", "kind", "value"),
    [(cell, kind, value) for cell, wanted in JSON_CELLS for kind, value in wanted.items()],
)
def test_cell_of_json(cell: str, kind: str, value: Any) -> None:
    cells = json_cells()[kind]
    found, at = json_column(kind), cells.index(cell)
    if value is Bad:
        article = "an" if kind.startswith("array") else "a"
        line, raw, reason = at + 1, json_line(at, cell), f"not {article} {kind}: x"
        assert [(n, *rest) for n, _, *rest in found.rejected if n == line] == [(line, raw, reason)]
    else:
        (row,) = (row for row in found.rows if row["__time"] == at)
        assert repr(row["x"]) == repr(value)


def json_cells() -> dict[str, list[str]]:
    """Return the cells that are read as each type, each once."""
    cells: dict[str, dict[str, None]] = {}
    for cell, wanted in JSON_CELLS:
        for kind in wanted:
            cells.setdefault(kind, {})[cell] = None
    return {kind: list(found) for kind, found in cells.items()}


def json_line(at: int, cell: str) -> str:
    return f'{{"t":{at},"x":{cell}}}'


@functools.cache
def json_column(kind: str) -> Loaded:
    """Read the cells of a type from one file, a line each."""
    lines = [json_line(at, cell) for at, cell in enumerate(json_cells()[kind])]
    return load_bytes("\n".join(lines), {"x": kind})


def test_lines_are_rejected_where_they_begin() -> None:
    lines = [json_line(0, "1"), json_line(1, '"é"'), json_line(2, "[]"), json_line(3, "2")]
    found = load_bytes("\n".join(lines), {"x": "long"})
    begin = [len("".join(f"{line}\n" for line in lines[:at]).encode()) for at in (1, 2)]
    assert found.rejected == [
        (at + 1, start, lines[at], "not a long: x") for at, start in zip((1, 2), begin, strict=True)
    ]


CSV_CELLS: list[tuple[str, dict[str, Any]]] = [
    ("", dict.fromkeys(["string", "long", "double", "boolean", "json", "array<string>"])),
    ('""', {"string": "", "long": None, "double": None}),
    ("12", {"string": "12", "long": 12, "double": 12.0, "boolean": True, "json": "12"}),
    ("12.7", {"string": "12.7", "long": 12, "double": 12.7}),
    (" 12 ", {"string": " 12 ", "long": 12}),
    ("true", {"boolean": True, "long": Bad, "string": "true", "json": "true"}),
    ("no", {"boolean": False}),
    ("abc", {"long": Bad, "double": Bad, "boolean": Bad, "json": '"abc"'}),
    ("NaN", {"double": NAN, "long": Bad}),
    ("9223372036854775808", {"long": Bad}),
    ("a|b", {"array<string>": ["a", "b"]}),
    ("1|2.5|", {"array<long>": [1, 2, None], "array<double>": [1.0, 2.5, None]}),
    ("1|x", {"array<long>": Bad}),
    ('"{""a"": 1}"', {"json": '{"a":1}', "string": '{"a": 1}'}),
]


@pytest.mark.parametrize(
    ("cell", "kind", "value"),
    [(cell, kind, value) for cell, wanted in CSV_CELLS for kind, value in wanted.items()],
)
def test_cell_of_csv(cell: str, kind: str, value: Any) -> None:
    cells = [one for one, wanted in CSV_CELLS if kind in wanted]
    found, at = csv_column(kind), cells.index(cell)
    if value is Bad:
        reasons = [reason for line, *_, reason in found.rejected if line == at + 2]
        assert [reason.split(" ", 2)[2] for reason in reasons] == [f"{kind}: x"]
    else:
        (row,) = (row for row in found.rows if row["__time"] == at)
        assert repr(row["x"]) == repr(value)


@functools.cache
def csv_column(kind: str) -> Loaded:
    """Read the cells of a type from one file, a line each."""
    cells = [cell for cell, wanted in CSV_CELLS if kind in wanted]
    text = "t,x\n" + "".join(f"{at},{cell}\n" for at, cell in enumerate(cells))
    return load_bytes(text, {"x": kind}, file_format=CsvFormat(list_delimiter="|"))


NOON = dt.datetime(2013, 1, 31, 12, 0, 0, 5000, tzinfo=dt.UTC)
TYPED_CELLS: list[tuple[Any, pa.DataType, dict[str, Any]]] = [
    (None, pa.null(), {"string": None, "long": None, "array<string>": None, "json": None}),
    (7, pa.int8(), {"string": "7", "long": 7, "double": 7.0, "boolean": True, "json": "7"}),
    (7, pa.int64(), {"array<long>": [7], "array<string>": ["7"]}),
    (2**63, pa.uint64(), {"long": Bad, "string": "9223372036854775808", "double": 2.0**63}),
    (12.7, pa.float64(), {"string": "12.7", "long": 12, "float": 12.699999809265137}),
    (-12.7, pa.float32(), {"long": -12}),
    (NAN, pa.float64(), {"long": Bad, "double": NAN, "string": "NaN"}),
    (-INF, pa.float32(), {"string": "-Infinity", "array<string>": ["-Infinity"], "float": -INF}),
    (INF, pa.float64(), {"string": "Infinity", "json": "Infinity"}),
    (1e300, pa.float64(), {"long": Bad}),
    (decimal.Decimal("12.70"), pa.decimal128(9, 2), {"string": "12.70", "long": 12}),
    (True, pa.bool_(), {"string": "true", "long": 1, "double": 1.0, "boolean": True}),
    ("12", pa.string(), {"string": "12", "long": 12, "double": 12.0, "array<long>": [12]}),
    ("abc", pa.large_string(), {"long": Bad, "string": "abc", "json": '"abc"'}),
    ("a", pa.dictionary(pa.int32(), pa.string()), {"string": "a", "long": Bad}),
    (NOON, pa.timestamp("us", "UTC"), {"string": "2013-01-31T12:00:00.005Z"}),
    (NOON, pa.timestamp("ms", "UTC"), {"long": 1359633600005}),
    (
        NOON,
        pa.timestamp("ns", "UTC"),
        {"long": 1359633600005, "string": "2013-01-31T12:00:00.005Z"},
    ),
    (NOON, pa.timestamp("ns"), {"long": 1359633600005, "string": "2013-01-31T12:00:00.005Z"}),
    (dt.date(2013, 1, 31), pa.date32(), {"string": "2013-01-31", "long": 1359590400000}),
    ([1, None], pa.list_(pa.int32()), {"array<long>": [1, None], "array<string>": ["1", None]}),
    (["a", "1"], pa.list_(pa.string()), {"array<string>": ["a", "1"], "array<long>": Bad}),
    ([], pa.list_(pa.string()), {"array<string>": [], "json": "[]"}),
    ({"a": 1}, pa.struct([("a", pa.int64())]), {"json": '{"a":1}', "string": '{"a":1}'}),
    (b"ab", pa.binary(), {"string": "YWI="}),
]


@pytest.mark.parametrize(
    ("cell", "arrow_type", "kind", "value"),
    [(cell, kind, to, v) for cell, kind, wanted in TYPED_CELLS for to, v in wanted.items()],
)
def test_typed_cell(cell: Any, arrow_type: pa.DataType, kind: str, value: Any) -> None:
    table = pa.table({"t": pa.array([1000]), "x": pa.array([cell], arrow_type)})
    with connection() as con:
        counts = load_rows_from_arrow(con, table, shape({"x": kind}), origin="a", timestamp=STAMP)
        found = look(con, counts)
    if value is Bad:
        assert [(line, reason.split(" ", 2)[2]) for line, _, _, reason in found.rejected] == [
            (1, f"{kind}: x")
        ]
    else:
        assert repr(found.column("x")) == repr([value])


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("sign", ["int", "uint"])
def test_the_least_and_the_largest_whole_number_are_taken_where_they_fit(
    sign: str, bits: int
) -> None:
    top = 2 ** (bits - (sign == "int")) - 1
    cells = [0 if sign == "uint" else -top - 1, top, None]
    table = pa.table(
        {"t": pa.array([1, 2, 3]), "x": pa.array(cells, getattr(pa, sign + str(bits))())}
    )
    for kind, value in {"long": int, "double": float}.items():
        with connection() as con:
            counts = load_rows_from_arrow(
                con, table, shape({"x": kind}), origin="a", timestamp=STAMP
            )
            found = look(con, counts)
        if kind == "long" and top >= 2**63:
            assert [line for line, *_ in found.rejected] == [2], "it does not fit into 64 bits"
        else:
            assert found.column("x") == [value(cells[0]), value(top), None]


@pytest.mark.parametrize(
    ("arrow_type", "kind"),
    [
        (pa.struct([("a", pa.int64())]), "long"),
        (pa.list_(pa.int64()), "double"),
        (pa.binary(), "long"),
        (pa.map_(pa.string(), pa.string()), "double"),
        (pa.struct([("a", pa.int64())]), "array<long>"),
        (pa.time64("us"), "long"),
    ],
)
def test_type_that_can_never_fit_is_one_error_before_any_row(
    arrow_type: pa.DataType, kind: str
) -> None:
    table = pa.table({"t": pa.array([1000]), "x": pa.array([None], arrow_type)})
    with (
        connection() as con,
        pytest.raises(Invalid, match=f"input a: column 'x' of type .* cannot become {kind}"),
    ):
        load_rows_from_arrow(con, table, shape({"x": kind}), origin="a", timestamp=STAMP)


def test_several_values_of_a_string_are_told_and_never_cut() -> None:
    lines = '{"t":1,"x":"a"}\n{"t":2,"x":["b","c"]}\n{"t":3,"y":[1,2],"z":["one"]}'
    with pytest.raises(SeveralValues, match=r"dimension x, y has several values") as caught:
        load_bytes(lines, {"x": "string", "y": "string", "z": "string"})
    assert caught.value.columns == ("x", "y")


def test_several_values_of_a_string_in_csv_and_arrow() -> None:
    with pytest.raises(SeveralValues, match="dimension x has"):
        load_bytes("t,x\n1,a;b\n", {"x": "string"}, file_format=CsvFormat(list_delimiter=";"))
    table = pa.table({"t": [1], "x": [["a"]]})
    with connection() as con, pytest.raises(SeveralValues, match="dimension x has"):
        load_rows_from_arrow(con, table, shape({"x": "string"}), origin="a", timestamp=STAMP)


@pytest.mark.parametrize(
    ("handling", "value"),
    [
        ("array", ["b", None, "a", "b"]),
        ("sorted_array", [None, "a", "b", "b"]),
        ("sorted_set", [None, "a", "b"]),
    ],
)
def test_multi_value_handling(handling: Any, value: list[str | None]) -> None:
    lines = '{"t":1,"x":["b",null,"a","b"]}\n{"t":2,"x":null}\n{"t":3,"x":[]}'
    found = load_bytes(lines, {"x": "array<string>"}, multi_value=handling)
    assert found.column("x") == [value, None, []]


STATE = build_theta(["a"])


def metric(kind: MetricKind, column: ColumnType, *, is_state: bool = False) -> Metric:
    return Metric(name="m", kind=kind, input="x", type=column, is_state=is_state)


@pytest.mark.parametrize(
    ("wanted", "cells", "values"),
    [
        (metric(MetricKind.SUM, ColumnType.LONG), ["1", '"2"', "null"], [1, 2, None]),
        (metric(MetricKind.HLL, ColumnType.HLL), ["1", '"1"', "[1,2]"], ["1", "1", "[1,2]"]),
        (metric(MetricKind.QUANTILES, ColumnType.QUANTILES), ["1", '"2.5"'], [1.0, 2.5]),
        (
            metric(MetricKind.THETA, ColumnType.THETA, is_state=True),
            [json.dumps(base64.b64encode(STATE).decode())],
            [STATE],
        ),
    ],
)
def test_inputs_of_metrics(wanted: Metric, cells: list[str], values: list[Any]) -> None:
    lines = "\n".join(f'{{"t":{at},"x":{cell}}}' for at, cell in enumerate(cells))
    row_shape = RowShape(dimensions=(), metrics=(wanted,))
    found = load_files([inline(lines)], row_shape, file_format=JsonFormat())
    assert found.column("__in_m") == values


@pytest.mark.parametrize("kind", ["hll", "theta", "quantiles"])
@pytest.mark.parametrize(
    "other", [b"", b"\0\0\0", build_hll(["a"])[:-1], build_quantiles([1.0])[:9]]
)
def test_what_is_no_sketch_is_rejected_and_its_neighbours_stay(kind: str, other: bytes) -> None:
    state = metric(MetricKind(kind), ColumnType(kind), is_state=True)
    row_shape = RowShape(dimensions=(), metrics=(state,))
    good = sketches.build(kind, [1, 2], {})
    cells = [base64.b64encode(one).decode() for one in (good, other)] + ["!!"]
    lines = "\n".join(json.dumps({"t": at, "x": cell}) for at, cell in enumerate(cells))
    found = load_files([inline(lines)], row_shape, file_format=JsonFormat())
    assert [row["__in_m"] for row in found.rows] == ([good] if other else [good, None])
    assert found.reasons == [f"not a {kind}: x"] * (2 if other else 1)


def test_instant_that_orders_first_and_last() -> None:
    row_shape = RowShape(
        dimensions=(),
        metrics=(metric(MetricKind.LAST, ColumnType.LONG),),
        order_fields=(("m", "seen"),),
    )
    lines = (
        '{"t":1,"x":1,"seen":"1970-01-01T00:00:01Z"}\n{"t":2,"x":1,"seen":2000}\n'
        '{"t":3,"x":1}\n{"t":4,"x":1,"seen":"soon"}\n{"t":5,"x":1,"seen":"1970-01-02T00:00:00+25:00"}'
    )
    found = load_files([inline(lines)], row_shape, file_format=JsonFormat())
    assert found.column("__at_m") == [1_000_000, 2_000_000, None]
    assert found.reasons == ["not a time: seen"] * 2


def test_one_field_may_be_dimension_and_input_at_once() -> None:
    row_shape = RowShape(
        dimensions=(DimensionShape(name="x", type=ColumnType.STRING),),
        metrics=(metric(MetricKind.SUM, ColumnType.DOUBLE),),
    )
    found = load_files([inline('{"t":1,"x":1.50}')], row_shape, file_format=JsonFormat())
    assert found.rows == [{"__time": 1, "x": "1.5", "__in_m": 1.5}]


def test_columns_that_differ_only_in_case_are_refused() -> None:
    with pytest.raises(Invalid, match="columns 'User' and 'user' differ only in case"):
        load_bytes('{"t":1}', {"User": "string", "user": "string"})
