"""One odd row ends no load: the good rows beside it are published, and it is one of them or in quarantine."""

from __future__ import annotations

import base64
import csv
import decimal
import itertools
import json
import re
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, example, given, reject
from hypothesis import strategies as st

import carnac
from carnac import Store
from carnac.errors import Invalid
from tests.property.test_direct_rows_laws import VALUES

GOOD = 1_704_067_200_000
WHOLE = st.sampled_from(
    [
        sign * 2**power + by
        for power in (31, 53, 62, 63, 64, 127)
        for by in (-1, 0, 1)
        for sign in (1, -1)
    ]
)
WORDS = st.sampled_from(
    [
        *(
            "",
            " ",
            "NaN",
            "-inf",
            "1e400",
            "1e37",
            "9" * 40,
            "epoch",
            "infinity",
            "0x1",
            "1_0",
            "[1",
            "{",
        ),
        *("0001-01-01", "0000-01-01", "9999-12-31T23:59:59.9999Z", "24:00", "2024-W53-7"),
        *(
            "2024-01-01T00:00:00+99:00",
            "\0",
            "\ud7ff",
            "é",
            "😀" * 300,
            "'",
            '"',
            "\\",
            "$.*",
            "\x1f",
        ),
        *("AAAA", "AgEH", base64.b64encode(b"\x02\x01\x07" * 9).decode()),
    ]
)
SCALARS = st.none() | st.booleans() | WHOLE | st.floats() | WORDS | st.text(max_size=5)
CELLS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)
NAMES = st.sampled_from(
    [
        "*",
        "**",
        "__rows",
        "__ROWS",
        "__in_m",
        "__at_m",
        "__carnac_file",
        "$",
        "#",
        "a.*",
        "_j",
        "\t",
    ]
)
FORMATS = [
    "auto",
    "iso",
    "posix",
    "millis",
    "micro",
    "nano",
    "ruby",
    "yyyy",
    "yyyy-MM-dd",
    "yyyy-DDD",
]
GRANULARITIES = [
    ("hour", "second"),
    ("day", "none"),
    ("P1W", "P1W"),
    ("year", "month"),
    ("P10Y", "P10Y"),
    ("all", "all"),
]
TYPES = [
    "string",
    "long",
    "double",
    "float",
    "json",
    "auto",
    "array<string>",
    "array<long>",
    "array<double>",
]
METRICS: list[dict[str, Any]] = [
    *(
        {"type": f"{value}{kind}"}
        for value in ("long", "double", "float")
        for kind in ("Max", "First", "Last")
    ),
    {"type": "stringLast", "maxStringBytes": 5},
    *({"type": kind} for kind in ("HLLSketchBuild", "HLLSketchMerge", "thetaSketch")),
    {"type": "quantilesDoublesSketch"},
    {"type": "thetaSketch", "isInputThetaSketch": True},
]
NEVER_FITS = re.compile("of type .* cannot be")
"""All values of a typed column are refused, not one."""


NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("odd")


@pytest.fixture(scope="module")
def store(folder: Path) -> Iterator[Store]:
    with carnac.open(folder / "store", create=True) as opened:
        yield opened


def spec_of(
    form: str,
    kinds: list[str],
    metric: dict[str, Any] | None = None,
    grains: tuple[str, str] = ("day", "none"),
    zone: str = "UTC",
) -> dict[str, Any]:
    """A spec with a dimension of a type, or one that discovers dimensions; of all inputs of metrics the name is x."""
    listed = [{"name": "x", "type": kind} for kind in kinds]
    metrics = [] if metric is None else [{"name": "m", "fieldName": "x", **metric}]
    return {
        "timestampSpec": {"column": "t", "format": form, "timeZone": zone},
        "dimensionsSpec": {"dimensions": listed} if kinds else {"useSchemaDiscovery": True},
        "metricsSpec": metrics,
        "granularitySpec": {"segmentGranularity": grains[0], "queryGranularity": grains[1]},
        "tuningConfig": {"allowMissing": True},
    }


SPECS = st.builds(
    spec_of,
    st.sampled_from(FORMATS),
    st.lists(st.sampled_from(TYPES), max_size=1),
    st.none() | st.sampled_from(METRICS),
    st.sampled_from(GRANULARITIES),
    st.sampled_from(["UTC", "Europe/Paris"]),
)


def good_time(form: str) -> Any:
    texts = {
        "iso": "2024-01-01",
        "yyyy": "2024",
        "yyyy-MM-dd": "2024-01-01",
        "yyyy-DDD": "2024-001",
    }
    per_ms = {"posix": 1, "micro": 1_000_000, "nano": 1_000_000_000, "ruby": 1}
    return texts.get(form) or GOOD // 1000 * per_ms.get(form, 1000)


def is_text(cell: str) -> bool:
    """Whether a file that holds it is still one of text."""
    return "\0" not in cell


def published(store: Store, spec: dict[str, Any], rows: object) -> None:
    """Load a good row and an odd one; the good one is there, and each is accounted for."""
    name = f"odd{next(NUMBERS)}"
    try:
        report = store.append(name, rows, spec={"dataSource": name, **spec}).report
    except Invalid as error:
        assume(not NEVER_FITS.search(error.message))
        raise
    assert report is not None
    assert report.rows_read == 2
    assert report.rejected.count <= 1
    assert report.rows_written >= 1


@given(spec=SPECS, time=st.none() | CELLS, more=st.dictionaries(st.just("x") | NAMES, CELLS))
@example(spec=spec_of("nano", ["long"]), time=-(2**63), more={})
@example(spec=spec_of("auto", []), time=None, more={"*": 1, "__rows": 1})
@example(spec=spec_of("auto", [], {"type": "HLLSketchMerge"}), time=None, more={"x": "AAAA"})
def test_an_odd_line_of_json_ends_no_load(
    store: Store, folder: Path, spec: dict[str, Any], time: Any, more: dict[str, Any]
) -> None:
    at = good_time(spec["timestampSpec"]["format"])
    odd = {"t": at if time is None else time, **more}
    path = folder / "rows.json"
    path.write_text(json.dumps({"t": at}) + "\n" + json.dumps(odd))
    published(store, spec, path)


@pytest.mark.slow
@given(
    spec=SPECS,
    time=st.none() | WORDS.filter(is_text),
    cell=SCALARS.filter(lambda one: is_text(str(one))),
)
def test_an_odd_line_of_csv_ends_no_load(
    store: Store, folder: Path, spec: dict[str, Any], time: Any, cell: Any
) -> None:
    at = good_time(spec["timestampSpec"]["format"])
    path = folder / "rows.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["t", "x"], [at, ""], [at if time is None else time, cell]])
    published(store, spec, path)


@st.composite
def far_times(draw: st.DrawFn) -> pa.Array:
    """A column of a time, near or far."""
    kind = pa.timestamp(
        draw(st.sampled_from(["s", "ms", "us", "ns"])), draw(st.sampled_from([None, "UTC"]))
    )
    return pa.array([draw(WHOLE.filter(lambda one: -(2**63) <= one < 2**63))], pa.int64()).view(
        kind
    )


@st.composite
def far_days(draw: st.DrawFn) -> pa.Array:
    """A column of a day or a duration, near or far."""
    kinds = [pa.date64(), pa.date32(), *map(pa.duration, ["s", "ms", "us", "ns"])]
    kind = draw(st.sampled_from(kinds))
    number = draw(WHOLE.filter(lambda one: -(2**63) <= one < 2**63))
    if kind == pa.date32():
        return pa.array([number % 2**32 - 2**31], pa.int32()).view(kind)
    day_ms = 86_400_000 if kind == pa.date64() else 1
    whole = max(number, day_ms - 2**63) // day_ms * day_ms
    return pa.array([whole], pa.int64()).view(kind)


def in_a_list(values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays([0, len(values)], values)


def in_an_object(values: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([values], ["a"])


def in_a_dictionary(values: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays([0] * len(values), values)


def in_runs(values: pa.Array) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays([len(values)], values)


def null_of(kind: pa.DataType) -> pa.Array:
    """A null of a type, where Arrow can make one."""
    try:
        made = pa.nulls(1, kind)
        made.validate(full=True)
    except pa.ArrowException:
        reject()
    return made


WAYS = [
    lambda values: values,
    in_a_dictionary,
    in_runs,
    in_a_list,
    in_an_object,
    lambda values: pa.FixedSizeListArray.from_arrays(values, 1),
    lambda values: pa.MapArray.from_arrays([0, len(values)], ["k"] * len(values), values),
    lambda values: pa.ListViewArray.from_arrays([0], [len(values)], values),
]
"""Ways in which a column of Arrow may hold values."""


ODD = [
    pa.array([1.5], pa.float16()),
    pa.array([decimal.Decimal("1.5")], pa.decimal256(38, 2)),
    pa.array([decimal.Decimal(100)], pa.decimal128(5, -2)),
    pa.array([decimal.Decimal("1E-10")], pa.decimal32(5, 10)),
    pa.array([b"0123456789abcdef"], pa.uuid()),
    pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1], pa.int8())),
    pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a":1}'])),
    pa.ExtensionArray.from_storage(pa.opaque(pa.string(), "a", "b"), pa.array(["x"])),
    pa.array(["x"], pa.string_view()),
    pa.array([b"x"], pa.binary_view()),
    pa.array([pa.MonthDayNano([1, 2, 3])]),
    pa.nulls(1),
]
"""Values of types that the engine, or Arrow itself, does not know everywhere."""


@st.composite
def values(draw: st.DrawFn) -> pa.Array:
    """A column of a value, of a type of Arrow that the store takes."""
    kind = draw(st.sampled_from(list(VALUES)))
    return pa.array([draw(VALUES[kind])], kind)


@pytest.mark.slow
@example(
    spec=spec_of("auto", ["string"]),
    time=pa.array([2**62], pa.timestamp("s")),
    cell=pa.array([2**62], pa.timestamp("s", "UTC")),
)
@example(spec=spec_of("auto", []), time=None, cell=in_a_list(pa.array([2**62], pa.timestamp("ms"))))
@example(
    spec=spec_of("auto", []),
    time=None,
    cell=in_an_object(in_a_list(pa.array([5 - 2**63], pa.timestamp("us")))),
)
@example(
    spec=spec_of("auto", []),
    time=None,
    cell=pa.array([192 - 2**63], pa.int64()).view("timestamp[ns]"),
)
@example(
    spec=spec_of("auto", ["array<long>"]),
    time=None,
    cell=pa.array([[[decimal.Decimal("1.5")]]]),
)
@given(
    spec=SPECS,
    time=st.none() | far_times(),
    cell=values()
    | st.builds(
        lambda cell, ways: reduce(lambda one, way: way(one), ways, cell),
        far_times() | far_days() | st.sampled_from(ODD),
        st.lists(st.sampled_from(WAYS), max_size=3),
    ),
)
def test_an_odd_row_of_arrow_ends_no_load(
    store: Store, spec: dict[str, Any], time: pa.Array | None, cell: pa.Array
) -> None:
    times = pa.array([GOOD], pa.timestamp("ms")) if time is None else time
    first = pa.array([GOOD], pa.timestamp("ms", times.type.tz)).cast(times.type)
    table = pa.table(
        {
            "t": pa.chunked_array([first, times]),
            "x": pa.chunked_array([null_of(cell.type), cell]),
        }
    )
    published(store, spec, table)
