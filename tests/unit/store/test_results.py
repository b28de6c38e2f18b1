"""A result at a prompt and in a notebook: what it is, its first rows, and no markup of strangers."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from carnac.core.showing import ROWS_MAX
from carnac.errors import Invalid
from carnac.ports import QueryResult
from carnac.ports.answers import Receipt
from carnac.store.results import Result

ROWS = [{"a": n, "<b>": "<script>alert(1)</script>" if n % 2 else None} for n in range(30)]


def result(table: pa.Table | None = None) -> Result:
    table = pa.Table.from_pylist(ROWS) if table is None else table
    found = QueryResult(table=table, revision=7, segments_total=9, segments_read=1)
    receipt = Receipt(store_id="store", revision=7, statement_digest="s", segments_digest="d")
    return Result(found, lambda rows: replace(receipt, rows=rows.num_rows))


def test_a_result_says_in_one_line_what_it_is() -> None:
    assert repr(result()) == "<Result: 30 rows of 2 columns at revision 7, 1 of 9 segments read>"


def test_a_result_can_be_iterated_and_has_the_frame_of_duckdbs_name() -> None:
    assert list(result()) == result().rows() == ROWS
    assert result().df().equals(result().pandas())


def test_columns_of_one_name_are_all_in_the_rows() -> None:
    """`SELECT a.*, b.*` of a join names its keys twice."""
    joined = result(pa.table([[1], [2], [3]], names=["k", "n", "k"]))
    assert joined.rows() == list(joined) == [{"k": 1, "n": 2, "k_1": 3}]
    assert joined.polars().rows(named=True) == joined.rows()
    assert joined.arrow().column_names == list(joined.pandas().columns) == ["k", "n", "k"]


SPAN = pa.scalar((0, 2, 0), pa.month_day_nano_interval())


@pytest.mark.parametrize("spans", [pa.array([SPAN]), pa.array([[SPAN]])], ids=["alone", "in lists"])
def test_intervals_which_polars_has_not_are_one_sentence(spans: pa.Array) -> None:
    with pytest.raises(Invalid, match="column 'span' holds intervals, which Polars has not"):
        result(pa.table({"span": spans})).polars()


FAR_TIMES = (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.date32())


@pytest.mark.parametrize("kind", FAR_TIMES, ids=str)
def test_a_time_that_python_has_not_is_one_sentence_and_shown_in_a_notebook(
    kind: pa.DataType,
) -> None:
    far = result(
        pa.table({"n": [1], "t": pa.array([4_000_000], pa.int32()).cast(pa.date32()).cast(kind)})
    )
    for read in (far.rows, lambda: list(far)):
        with pytest.raises(Invalid, match="column 't' holds a time outside of the years 1 to 9999"):
            read()
    assert "12921-" in far._repr_html_()


def test_a_date_that_pandas_has_not_is_one_sentence() -> None:
    dates = pa.array([4_000_000], pa.int32()).cast(pa.date32())
    with pytest.raises(Invalid, match="column 't' holds a time outside of the years 1 to 9999"):
        result(pa.table({"t": dates})).pandas()


def test_a_notebook_shows_the_first_rows_and_escapes_what_strangers_wrote() -> None:
    page = result()._repr_html_()
    assert "<script>" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert page.count("<tr>") == 1 + ROWS_MAX
    assert "30 rows of 2 columns at revision 7, 1 of 9 segments read, the first 20 shown" in page


def test_a_result_has_a_receipt() -> None:
    assert result().receipt.rows == len(ROWS)
