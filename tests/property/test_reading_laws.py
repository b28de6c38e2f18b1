"""Reading: what is written comes back, every record is accounted for, and the fast pass agrees with the exact one."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from carnac.rows.normalise.coerce import SeveralValues
from carnac.rows.normalise.projection import LOADED, RAW, REASON, prepare
from carnac.rows.read.json import JsonPlan
from carnac.rows.read.reading import load_rows_from_arrow
from carnac.specs.ingest.inputs import CsvFormat
from tests.unit.rows.loading import STAMP, Loaded, connection, load_bytes, look, shape

LONGS = st.integers(min_value=-(2**63), max_value=2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=8)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
TIMES = st.integers(min_value=-62_135_596_800_000, max_value=253_402_300_799_999)
TYPES = {"s": "string", "l": "long", "d": "double", "m": "array<string>"}

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "t": TIMES,
            "s": st.none() | TEXTS,
            "l": st.none() | LONGS,
            "d": st.none() | DOUBLES,
            "m": st.none() | st.lists(st.none() | TEXTS, max_size=3),
        }
    ),
    max_size=12,
)


def by_value(rows: list[dict[str, Any]]) -> list[str]:
    """Rows in an order that does not depend on how they were read; -0.0 is 0.0."""
    return sorted(
        repr([(k, v + 0.0 if isinstance(v, float) else v) for k, v in sorted(row.items())])
        for row in rows
    )


def expected(rows: list[dict[str, Any]]) -> list[str]:
    return by_value([{"__time" if k == "t" else k: v for k, v in row.items()} for row in rows])


@given(ROWS, st.sampled_from(["\n", "\r\n", "\n\n", "\n  \n"]), st.booleans(), st.booleans())
def test_rows_written_as_json_lines_come_back(
    rows: list[dict[str, Any]], newline: str, ends_with_newline: bool, ascii_only: bool
) -> None:
    text = newline.join(json.dumps(row, ensure_ascii=ascii_only) for row in rows)
    found = load_bytes(text + newline * ends_with_newline, TYPES)
    assert by_value(found.rows) == expected(rows)
    assert found.rejected == []


@given(
    st.lists(
        st.fixed_dictionaries(
            {"t": TIMES, "s": st.none() | TEXTS, "l": st.none() | LONGS, "d": st.none() | DOUBLES}
        ),
        max_size=12,
    ),
    st.sampled_from([",", ";", "|", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_rows_written_as_csv_come_back(
    rows: list[dict[str, Any]], delimiter: str, newline: str, quoting: int
) -> None:
    for row in rows:
        # Python's csv writes null and empty text alike; Arrow takes a lone \r for a line break in quotes only
        assume(
            row["s"] is None or ("\r" not in row["s"] and row["s"] != "" and "\x01" not in row["s"])
        )
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=newline, quoting=quoting)
    writer.writerow(["t", "s", "l", "d"])
    for row in rows:
        writer.writerow(
            [row["t"], row["s"], row["l"], None if row["d"] is None else repr(row["d"])]
        )
    types = {"s": "string", "l": "long", "d": "double"}
    found = load_bytes(out.getvalue(), types, file_format=CsvFormat(delimiter=delimiter))
    null = "" if quoting == csv.QUOTE_ALL else None
    wanted = [{**row, "s": null if row["s"] is None else row["s"]} for row in rows]
    assert by_value(found.rows) == expected(wanted)
    assert found.rejected == []


@given(ROWS)
def test_rows_of_an_arrow_table_come_back(rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(
        rows,
        schema=pa.schema(
            [
                ("t", pa.int64()),
                ("s", pa.string()),
                ("l", pa.int64()),
                ("d", pa.float64()),
                ("m", pa.list_(pa.string())),
            ]
        ),
    )
    with connection() as con:
        counts = load_rows_from_arrow(con, table, shape(TYPES), origin="frame", timestamp=STAMP)
        found = look(con, counts)
    assert by_value(found.rows) == expected(rows)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**70), max_value=2**70)
    | st.floats()
    | TEXTS
    | st.sampled_from(
        [
            "12",
            "12.7",
            "1e3",
            "NaN",
            "-inf",
            "true",
            "[1,2]",
            "{}",
            "1_0",
            "0x1F",
            "9007199254740993",
            "9223372036854775808",
        ]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
ALL_TYPES = {
    "s": "string",
    "l": "long",
    "d": "double",
    "f": "float",
    "b": "boolean",
    "j": "json",
    "ms": "array<string>",
    "ml": "array<long>",
    "md": "array<double>",
}


def lines_of(data: bytes) -> pa.Table:
    lines = data.decode().split("\n")
    return pa.table(
        {
            "__carnac_file": pa.array([0] * len(lines), pa.int32()),
            "__carnac_line": pa.array(range(len(lines)), pa.int64()),
            "__carnac_offset": pa.array([0] * len(lines), pa.int64()),
            RAW: pa.array(lines, pa.string()),
        }
    )


@pytest.mark.slow
@given(
    st.lists(
        st.dictionaries(st.sampled_from(["t", *ALL_TYPES]), JSON_VALUES, max_size=6), max_size=5
    )
)
@example([{"t": 1, "l": 2**63 - 1}, {"t": 1, "l": -(2**63)}, {"t": 1, "l": 2**53 + 1}])
def test_the_fast_pass_over_json_agrees_with_the_exact_one(documents: list[dict[str, Any]]) -> None:
    wanted = shape(ALL_TYPES)
    plan = JsonPlan(wanted, STAMP, None)
    lines = lines_of("\n".join(json.dumps(one) for one in documents).encode())
    outcomes = []
    with connection() as con:
        con.register("lines", lines)
        for exact in (False, True):
            prepare(con, wanted)
            if exact:
                con.execute(plan.exact_sql("lines")).complete()
            else:
                plan.load(con, "lines")
            outcomes.append(
                con.execute(
                    f"SELECT * FROM {LOADED} WHERE {REASON} IS NULL OR NOT starts_with({REASON}, '?')"
                    " ORDER BY 2"
                ).fetchall()
            )
    assert repr(outcomes[0]) == repr(outcomes[1])


def load_or_widen(data: bytes, **more: Any) -> Loaded:
    try:
        return load_bytes(data, {"s": "string", "l": "long"}, **more)
    except SeveralValues:
        return load_bytes(data, {"s": "array<string>", "l": "long"}, **more)


MESSY = st.lists(
    st.sampled_from(
        [
            b'{"t":1,"s":"a","l":2}',
            b'{"t":"x"}',
            b"{",
            b"[1]",
            b"",
            b"\xff\xfe\xfd",
            b'{"t":1,"s":"\xc3"}',
            b"null",
            b'{"t":5,"s":["a","b"]}',
            '{"t":7,"s":"é\u2028"}'.encode(),
            b"\r",
            b'1,"a\n2",3',
            b'"',
            b'5,a"b,6',
            b"1,2,3,4",
            b"7,,8",
            b'9,"",1',
            b'""",,"',
        ]
    )
    | st.binary(max_size=12),
    max_size=14,
)


@given(MESSY, st.sampled_from([b"\n", b"\r\n"]))
def test_every_line_is_a_row_or_rejected(pieces: list[bytes], newline: bytes) -> None:
    data = newline.join(pieces)
    assume(not data.startswith((b"\xff\xfe", b"\xfe\xff")))
    found = load_or_widen(data)
    body = data.removeprefix(b"\xef\xbb\xbf")
    lines = [line for line in body.split(b"\n") if line.strip(b" \t\r\n")]
    assert found.counts.rows_read == len(lines)


@given(MESSY, st.sampled_from([b"\n", b"\r\n"]))
def test_every_row_of_csv_is_a_row_or_rejected(pieces: list[bytes], newline: bytes) -> None:
    data = b"t,s,l" + newline + newline.join(pieces)
    found = load_or_widen(data, file_format=CsvFormat())
    # a rejected row keeps its text; with the good ones, all bytes of the file are there
    assert found.counts.rows_read == len(found.rows) + len(found.rejected)
    offsets = [offset for _, offset, *_ in found.rejected]
    assert len(offsets) == len(set(offsets))
    for line, offset, *_ in found.rejected:
        assert offset is not None
        assert line == data[:offset].count(b"\n") + 1
