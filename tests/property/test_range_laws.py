"""Ranges of a file: whatever it holds, and wherever it is cut, each record is read in exactly one of them."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from carnac.rows.read import lines, ranges
from carnac.rows.read.inputs import InputFile
from carnac.specs.ingest.inputs import CsvFormat, JsonFormat, TsvFormat
from tests.unit.rows.loading import Loaded, load_files, shape


@given(
    st.lists(st.integers(min_value=0, max_value=60), min_size=1, max_size=30),
    st.lists(st.floats(min_value=0, max_value=1), max_size=4),
    st.booleans(),
)
def test_ranges_of_a_file_have_all_its_lines_once(
    tmp_path_factory: Any, sizes: list[int], cuts: list[float], ends_with_newline: bool
) -> None:
    lines = [json.dumps({"t": index, "s": "x" * size}) for index, size in enumerate(sizes)]
    data = ("\n".join(lines) + "\n" * ends_with_newline).encode()
    path = tmp_path_factory.getbasetemp() / "ranges.jsonl"
    path.write_bytes(data)
    edges = sorted({0, *(math.floor(cut * len(data)) for cut in cuts)})
    found: list[int] = []
    for start, end in zip(edges, [*edges[1:], None], strict=True):
        piece = InputFile(url=str(path), size_bytes=len(data), start_byte=start, end_byte=end)
        one = load_files([piece], shape({"s": "string"}), file_format=JsonFormat())
        found += one.column("__time")
    assert sorted(found) == list(range(len(sizes)))


ODD = st.sampled_from(
    ["a", "b", ",", "\t", "\n", "\r\n", '"', '""', '"\n', '\n"', '",', ',"', "x,y\n", "é", "\n\n"]
)
"""Pieces of CSV, which together are rows that go over lines, and rows that are none."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in blocks of some bytes, and cut small files."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", 16)
    monkeypatch.setattr(ranges, "MIN_SPLIT_BYTES", 1)


def contents(loaded: Loaded) -> tuple[list[str], list[tuple[object, ...]]]:
    """Return rows and rejected records, in an order of their own."""
    return sorted(map(repr, loaded.rows)), sorted(loaded.rejected, key=repr)


@pytest.mark.usefixtures("small")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=st.lists(ODD, max_size=60).map("".join),
    head=st.sampled_from([(b"", 0), (b"\xef\xbb\xbf", 0), (b"\n\n", 0), (b"", 1), (b"", 2)]),
    size=st.integers(8, 60),
    is_tsv=st.booleans(),
)
@example(body='x,"y\n",z\nx,"y\nx,y\n' * 3, head=(b"", 0), size=8, is_tsv=False)
@example(body='"' + "\n,," * 20, head=(b"", 0), size=8, is_tsv=False)
def test_ranges_of_csv_have_all_its_rows_once(
    tmp_path_factory: Any, body: str, head: tuple[bytes, int], size: int, is_tsv: bool
) -> None:
    of = TsvFormat if is_tsv else CsvFormat
    start, skipped = head
    file_format = of(header=True, skip_header_rows=skipped)
    names = "t\ts\tu" if is_tsv else "t,s,u"
    data = start + f"{'skipped' * 2}\n".encode() * skipped + f"{names}\n{body}".encode()
    path = tmp_path_factory.getbasetemp() / "ranges.csv"
    path.write_bytes(data)
    whole = InputFile(url=str(path), size_bytes=len(data))
    pieces = ranges.split_files([whole], file_format, max_bytes=size)
    assert pieces[0].start_byte == 0
    assert pieces[-1].end_byte is None
    assert all(left.end_byte == right.start_byte for left, right in pairwise(pieces))
    kinds = shape({"s": "string", "u": "string"})
    once = load_files([whole], kinds, file_format=file_format)
    assert contents(load_files(list(pieces), kinds, file_format=file_format)) == contents(once)
    assert {piece.start_line for piece in pieces} <= {
        data.count(b"\n", 0, piece.start_byte) + 1 for piece in pieces
    }


@pytest.mark.slow
@pytest.mark.parametrize("quoted", ["plain {}", '"said ""{}"", twice"', '"over\n{}\nlines"'])
def test_a_large_file_of_csv_is_cut_where_rows_begin(tmp_path: Path, quoted: str) -> None:
    rows = [f"2024-01-01,{quoted.format(index)},{index}\n" for index in range(100_000)]
    path = tmp_path / "a.csv"
    path.write_text("t,s,u\n" + "".join(rows))
    file = InputFile(url=str(path), size_bytes=path.stat().st_size)
    pieces = ranges.split_files([file], CsvFormat(header=True), max_bytes=ranges.MIN_SPLIT_BYTES)
    assert len(pieces) >= 3
    data = path.read_bytes()
    for piece in pieces[1:]:
        assert data[piece.start_byte :].startswith(b"2024-01-01,")
        assert piece.start_line == data.count(b"\n", 0, piece.start_byte) + 1
        assert piece.columns == ("t", "s", "u")


@pytest.mark.slow
def test_what_stays_whole(tmp_path: Path) -> None:
    size = 2 * ranges.MIN_SPLIT_BYTES
    named = CsvFormat(header=True)
    remote = InputFile(url="s3://a/b.csv", size_bytes=size)
    gone = InputFile(url=str(tmp_path / "gone.csv"), size_bytes=size)
    packed = InputFile(url=str(tmp_path / "a.csv.gz"), size_bytes=size, compression="gzip")
    doubled = tmp_path / "doubled.csv"
    doubled.write_bytes(b"a,a\n" + b"1,2\n" * (size // 4))
    broken = tmp_path / "broken.csv"
    broken.write_bytes(b"t,\xff\n" + b"1,2\n" * (size // 4))
    wrong = [InputFile(url=str(one), size_bytes=size) for one in (doubled, broken)]
    for file in (remote, gone, packed, *wrong):
        assert list(ranges.split_files([file], named, max_bytes=1)) == [file]
