from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carnac.rows.packed_sort import is_in_order, sorted_order
from carnac.rows.segment_writer import TIME_TYPE

VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "__time": (TIME_TYPE, st.sampled_from([0, 1000, 1_000_000, -5, 7, 2**40, 2**40 + 1])),
    "text": (pa.string(), st.none() | st.sampled_from(["", "a", "ab", "b", "ä", "\U0001f600"])),
    "long": (pa.int64(), st.none() | st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63), 2_000_000])),
    "double": (pa.float64(), st.none() | st.floats(allow_nan=True) | st.sampled_from([0.0, -0.0])),
    "flag": (pa.bool_(), st.none() | st.booleans()),
}


def key_of(value: object) -> tuple[Any, ...]:
    """Sorts as DuckDB does: null first, NaN last, texts by their bytes."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, 1, 0.0) if math.isnan(value) else (1, 0, value)
    return (1, value.encode() if isinstance(value, str) else value)


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.RecordBatch, list[str]]:
    count = draw(st.integers(0, 40))
    columns = draw(st.permutations(list(VALUES)))[: draw(st.integers(1, 5))]
    arrays = []
    for name in columns:
        kind, values = VALUES[name]
        array = pa.array(draw(st.lists(values, min_size=count, max_size=count)), kind)
        is_encoded = name == "text" and draw(st.booleans())
        arrays.append(array.dictionary_encode() if is_encoded else array)
    return pa.RecordBatch.from_arrays(arrays, names=list(columns)), list(columns)


@given(tables())
def test_order_is_that_of_the_values_and_stable(case: tuple[pa.RecordBatch, list[str]]) -> None:
    rows, columns = case
    plain = [
        (rows.column(name).cast(pa.int64()) if name == "__time" else rows.column(name)).to_pylist()
        for name in columns
    ]
    expected = sorted(
        range(rows.num_rows), key=lambda place: [key_of(values[place]) for values in plain]
    )
    assert sorted_order(rows, columns).tolist() == expected
    assert not is_in_order(rows, columns) or expected == [*range(rows.num_rows)]


@pytest.mark.parametrize(
    ("times", "is_known"), [([], True), ([5], True), ([-1, 0, 7], True), ([1, 1], False)]
)
def test_times_that_rise_need_no_sorting(times: list[int], is_known: bool) -> None:
    column = pa.array(times, TIME_TYPE)
    rows = pa.RecordBatch.from_arrays([column, pa.nulls(len(times))], names=["__time", "text"])
    assert is_in_order(rows, ["__time", "text"]) is is_known
