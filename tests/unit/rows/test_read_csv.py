"""CSV and TSV as they come."""

from __future__ import annotations

from typing import Any

import pytest

from carnac.errors import Invalid
from carnac.rows.read import lines
from carnac.rows.read.csv import REASON_FIELDS, REASON_QUOTES
from carnac.rows.read.lines import REASON_UTF8
from carnac.specs.ingest.inputs import CsvFormat, TsvFormat
from tests.unit.rows.loading import Loaded, inline, load_bytes, load_files, shape

KINDS = {"a": "string", "b": "string"}


def load(body: bytes | str, **options: Any) -> Loaded:
    """Read rows below the header `t,a,b`."""
    raw = body.encode() if isinstance(body, str) else body
    return load_bytes(b"t,a,b\n" + raw, KINDS, file_format=CsvFormat(**options))


def cells(found: Loaded) -> list[tuple[Any, Any]]:
    return [(row["a"], row["b"]) for row in found.rows]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("", []),
        ("1,x,y", [("x", "y")]),
        ("1,x,y\r\n2,z,\r\n", [("x", "y"), ("z", None)]),
        ('1,"x,1","y ""q"""\n', [("x,1", 'y "q"')]),
        (
            '1,"two\nlines","three\r\n\r\nlines"\n2,c,d\n',
            [("two\nlines", "three\r\n\r\nlines"), ("c", "d")],
        ),
        ('1,"",\n', [("", None)]),
        ('1,5" disk,6" disk\n', [('5" disk', '6" disk')]),
        ('1,5" disk,y\n2,c,d\n', [('5" disk', "y"), ("c", "d")]),
        ("\n\n1,x,y\n\r\n\n2,c,d\n\n", [("x", "y"), ("c", "d")]),
        ("1, x ,é中\n", [(" x ", "é中")]),
        ('1,"a\n\n""b""\n",c\n2,"""",d', [('a\n\n"b"\n', "c"), ('"', "d")]),
    ],
)
def test_fields(body: str, expected: list[tuple[Any, Any]]) -> None:
    found = load(body)
    assert (cells(found), found.rejected) == (expected, [])


def test_ragged_rows_are_rejected_with_line_offset_and_text() -> None:
    found = load('1,x,y\n2,"two\nlines"\n3,c,d,e\n\n4,"a\nb",c\n5\n6,u,v\n')
    assert cells(found) == [("x", "y"), ("a\nb", "c"), ("u", "v")]
    assert found.rejected == [
        (3, 12, '2,"two\nlines"', REASON_FIELDS),
        (5, 26, "3,c,d,e", REASON_FIELDS),
        (9, 45, "5", REASON_FIELDS),
    ]


def test_quotes_that_are_not_closed_cost_one_line() -> None:
    found = load('1,x,y\n2,"open,z\n3,c,d\n4,e,f\n')
    assert cells(found) == [("x", "y"), ("c", "d"), ("e", "f")]
    assert found.rejected == [(3, 12, '2,"open,z', REASON_QUOTES)]


def test_text_behind_a_closing_quote_that_breaks_the_row_costs_one_line() -> None:
    found = load('1,"x" "y",z "\n2,c,d\n')
    assert cells(found) == [("c", "d")]
    assert found.rejected == [(2, 6, '1,"x" "y",z "', REASON_QUOTES)]


def test_broken_utf8() -> None:
    found = load(b"1,\xff,y\n2,c,d\n")
    assert cells(found) == [("c", "d")]
    assert found.rejected == [(2, 6, "1,\\xff,y", REASON_UTF8)]


def test_bad_cells_keep_line_and_text() -> None:
    found = load_bytes('t,n\n1,5\n2,"x\ny"\nsoon,6\n', {"n": "long"}, file_format=CsvFormat())
    assert found.column("n") == [5]
    assert found.rejected == [
        (3, 8, '2,"x\ny"', "not a long: n"),
        (5, 16, "soon,6", "unparseable timestamp"),
    ]


def test_rows_over_many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", 11)
    body = "".join(f'{at},"a\n{at}",{"b" * (at % 5)}\n' for at in range(40)) + "bad\n"
    found = load(body)
    assert cells(found) == [(f"a\n{at}", "b" * (at % 5) or None) for at in range(40)]
    assert [(line, raw) for line, _, raw, _ in found.rejected] == [(82, "bad")]


def test_given_columns_skipped_rows_and_delimiter() -> None:
    text = "# made by\n# a machine\n1\tx\ty\n2\tz\t\n"
    tsv = TsvFormat(columns=("t", "a", "b"), skip_header_rows=2)
    found = load_bytes(text, KINDS, file_format=tsv)
    assert cells(found) == [("x", "y"), ("z", None)]
    bar = CsvFormat(columns=("a", "t", "b"), delimiter="|")
    assert cells(load_bytes("x|1|y,z", KINDS, file_format=bar)) == [("x", "y,z")]


def test_header_behind_skipped_rows_mark_and_blanks() -> None:
    text = '\ufeff"made, by"\n\nb, t ,\n1,5,x\n'
    found = load_bytes(
        text,
        {"b": "string", "column_3": "string", "absent": "string"},
        file_format=CsvFormat(skip_header_rows=1),
    )
    assert found.rows == [{"__time": 5, "b": "1", "column_3": "x", "absent": None}]


def test_header_that_names_a_column_twice() -> None:
    with pytest.raises(Invalid, match="header of inline: names a more than once"):
        load_bytes("t,a,a\n1,2,3\n", KINDS, file_format=CsvFormat())


def test_columns_that_the_header_names_itself() -> None:
    given = CsvFormat(columns=("t", "a", "a_1"), skip_header_rows=1)
    kinds = {"a": "string", "a_1": "string"}
    for header in ("t,a,a_1", "t,a,a"):
        found = load_bytes(f"{header}\n1,x,y\n", kinds, file_format=given)
        assert found.rows == [{"__time": 1, "a": "x", "a_1": "y"}]
    with pytest.raises(Invalid, match="header of inline: is t, a_1, a, and columns were named by"):
        load_bytes("t,a_1,a\n1,x,y\n", kinds, file_format=given)


def test_lines_that_end_with_cr_alone() -> None:
    with pytest.raises(Invalid, match="lines of inline: end with CR alone; convert them to LF"):
        load_bytes("t,a\r1,2\r", KINDS, file_format=CsvFormat())


def test_null_values_and_lists() -> None:
    found = load_bytes(
        't,a,b\n1,NA,x|y\n2,"NA",\n3,-,z\n',
        {"a": "string", "b": "array<string>"},
        file_format=CsvFormat(null_values=("NA", "-"), list_delimiter="|"),
    )
    assert [(row["a"], row["b"]) for row in found.rows] == [
        (None, ["x", "y"]),
        ("NA", None),
        (None, ["z"]),
    ]


def test_files_of_one_task_may_have_columns_in_another_order() -> None:
    files = [
        inline("t,a,b\n1,x,y\n"),
        inline("b,t\nz,2\nbad\n"),
        inline("b,t\nw,3\n"),
        inline("t,a\n"),
    ]
    found = load_files(files, shape(KINDS), file_format=CsvFormat())
    assert cells(found) == [("x", "y"), (None, "z"), (None, "w")]
    assert found.rejected == [(3, 8, "bad", REASON_FIELDS)]


def test_one_column() -> None:
    found = load_bytes("t\n1\n\n2\n", {}, file_format=CsvFormat())
    assert found.column("__time") == [1, 2]


def test_header_that_cannot_be_read() -> None:
    with pytest.raises(Invalid, match="the header of inline: cannot be read"):
        load_bytes(b"t,\xff,b\n1,2,3\n", KINDS, file_format=CsvFormat())


def test_lone_carriage_returns_end_no_row() -> None:
    found = load('1,a\rb,c\n2,"c\rd",e\n3,f,g\n')
    assert cells(found) == [("c\rd", "e"), ("f", "g")]
    assert found.rejected == [(2, 6, "1,a\rb,c", REASON_QUOTES)]


def test_many_rows_with_stray_quotes_stay_apart() -> None:
    found = load('1,"a,b\n' * 3000 + "2,c,d\n")
    assert cells(found) == [("c", "d")]
    assert found.counts.rejected_by_reason == {REASON_QUOTES: 3000}


@pytest.mark.slow
def test_a_row_has_as_many_columns_as_it_likes_of_each_type() -> None:
    cells = {"boolean": "yes", "long": "12.7", "double": "1.5", "string": "x"}
    types = {f"c{place}": list(cells)[place % len(cells)] for place in range(400)}
    body = f"t,{','.join(types)}\n1,{','.join(cells[one] for one in types.values())}\n"
    (row,) = load_bytes(body, types, file_format=CsvFormat()).rows
    read = {"boolean": True, "long": 12, "double": 1.5, "string": "x"}
    assert {name: row[name] for name in types} == {name: read[one] for name, one in types.items()}
