"""Range partitions: no segment has more rows than it may, unless all of them have one value."""

from __future__ import annotations

import math
from itertools import groupby, pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carnac.rows.cutting import Piece, cut_ranges, even_rows
from carnac.specs.ingest.layout import RangePartitions, target_of

RUNS = st.lists(st.integers(1, 40), min_size=1, max_size=30)


def batches(values: list[float | None], size: int) -> list[pa.RecordBatch]:
    return [
        pa.record_batch({"x": pa.array(values[at : at + size], pa.float64())})
        for at in range(0, len(values), size)
    ]


def segments(pieces: list[Piece]) -> list[list[float | None]]:
    found: list[list[float | None]] = []
    for piece in pieces:
        assert piece.rows.num_rows
        if piece.is_new:
            found.append([])
            assert repr(piece.start) == repr((piece.rows.column("x")[0].as_py(),))
        found[-1] += piece.rows.column("x").to_pylist()
    return found


@given(runs=RUNS, size=st.integers(1, 60), enough=st.integers(1, 50), with_null=st.booleans())
def test_the_rows_of_a_value_stay_together_and_no_segment_is_too_large(
    runs: list[int], size: int, enough: int, with_null: bool
) -> None:
    names: list[float | None] = [float(number) for number in range(len(runs))]
    names[-1] = math.nan
    if with_null:
        names[0] = None
    values = [name for name, count in zip(names, runs, strict=True) for _ in range(count)]
    most = enough * 3 // 2
    found = segments(list(cut_ranges(batches(values, size), ("x",), enough, most=most)))
    assert repr([value for one in found for value in one]) == repr(values)
    kinds = [[key for key, _ in groupby(map(repr, one))] for one in found]
    assert sum(map(len, kinds)) == len({repr(value) for value in values})
    for one, inside in zip(found, kinds, strict=True):
        assert len(one) <= most or len(inside) == 1
    for one, after in pairwise(found):
        first_value = next(len(list(rows)) for _, rows in groupby(map(repr, after)))
        assert len(one) >= enough or len(one) + first_value > most
    total = len(values)
    assert len(found) <= max(1, -(-2 * total // enough))


def test_a_value_that_is_waited_for_too_long_begins_a_segment() -> None:
    values: list[float | None] = [1.0] * 10 + [2.0] * 30
    pieces = cut_ranges(batches(values, 5), ("x",), 100, most=150, held_bytes_max=100)
    assert list(map(len, segments(list(pieces)))) == [10, 30]


def test_most_rows_are_what_the_spec_says_and_the_target_is_two_thirds() -> None:
    most = RangePartitions(dimensions=("x",), max_rows_per_segment=150)
    assert (most.rows_per_segment, most.most_rows_per_segment) == (100, 150)
    target = RangePartitions(dimensions=("x",), target_rows_per_segment=100)
    assert (target.rows_per_segment, target.most_rows_per_segment) == (100, 150)
    assert target_of(1) == 1


@pytest.mark.parametrize("most", [30, 100, 101])
def test_no_segment_of_many_values_has_more_than_the_most(most: int) -> None:
    spec = RangePartitions(dimensions=("x",), max_rows_per_segment=most)
    values: list[float | None] = [float(number // 29) for number in range(29 * 40)]
    limit = even_rows(len(values), spec.rows_per_segment)
    found = segments(
        list(cut_ranges(batches(values, 64), ("x",), limit, most=spec.most_rows_per_segment))
    )
    assert max(map(len, found)) <= most
