"""A result at a prompt and in a notebook: what it is, its first rows, and no markup of strangers."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from carnac.core.showing import ROWS_MAX
from carnac.ports import QueryResult
from carnac.ports.answers import Receipt
from carnac.store.results import Result

ROWS = [{"a": n, "<b>": "<script>alert(1)</script>" if n % 2 else None} for n in range(30)]


def result() -> Result:
    table = pa.Table.from_pylist(ROWS)
    found = QueryResult(table=table, revision=7, segments_total=9, segments_read=1)
    receipt = Receipt(store_id="store", revision=7, statement_digest="s", segments_digest="d")
    return Result(found, lambda rows: replace(receipt, rows=rows.num_rows))


def test_a_result_says_in_one_line_what_it_is() -> None:
    assert repr(result()) == "<Result: 30 rows of 2 columns at revision 7, 1 of 9 segments read>"


def test_a_result_can_be_iterated_and_has_the_frame_of_duckdbs_name() -> None:
    assert list(result()) == result().rows() == ROWS
    assert result().df().equals(result().pandas())


def test_a_notebook_shows_the_first_rows_and_escapes_what_strangers_wrote() -> None:
    page = result()._repr_html_()
    assert "<script>" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert page.count("<tr>") == 1 + ROWS_MAX
    assert "30 rows of 2 columns at revision 7, 1 of 9 segments read, the first 20 shown" in page


def test_a_result_has_a_receipt() -> None:
    assert result().receipt.rows == len(ROWS)
