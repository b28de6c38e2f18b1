"""What is compiled into what, and tables that are passed by one pointer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from carnac.core.balancing.columns import Floats, Ints
from carnac.core.balancing.compiled import _stamps, aside, compiled, part
from carnac.core.balancing.tables import Tables
from carnac.errors import Invalid


@dataclass(frozen=True, kw_only=True, eq=False)
class Shelf(Tables):
    FIXED: ClassVar[dict[str, int]] = {"pairs": 2}

    factor: float
    shift: int
    pairs: Ints
    sums: Floats


def make_shelf(rows: int) -> Shelf:
    pairs = np.arange(2 * rows).reshape(rows, 2)
    return Shelf(factor=0.5, shift=-3, pairs=pairs, sums=np.zeros(rows))


@part
def _scaled(shelf: Shelf, row: int) -> float:
    return shelf.factor * shelf.pairs[row, 1]


@aside
def _put(shelf: Shelf, row: int) -> None:
    shelf.sums[row] = _scaled(shelf, row) + shelf.shift


@compiled
def _put_all(shelf: Shelf) -> int:
    for row in range(len(shelf.sums)):
        _put(shelf, row)
    return shelf.pairs.shape[0] * shelf.pairs.shape[1]


def test_compiled_code_reads_and_changes_what_python_holds() -> None:
    shelf = make_shelf(4)
    assert _put_all(shelf) == 8
    assert shelf.sums.tolist() == [0.5 * second - 3 for second in (1, 3, 5, 7)]


def test_tables_that_were_replaced_are_read_where_they_are_now() -> None:
    shelf = replace(make_shelf(2), sums=np.zeros(6), pairs=np.full((6, 2), 10))
    assert _put_all(shelf) == 12
    assert shelf.sums.tolist() == [2.0] * 6


def test_tables_must_lie_in_one_piece_and_be_as_wide_as_they_say() -> None:
    with pytest.raises(Invalid, match="the table sums must be contiguous"):
        replace(make_shelf(2), sums=np.zeros((4, 2))[:, 0])
    with pytest.raises(Invalid, match="rows of the table pairs must have 2 elements, not 3"):
        replace(make_shelf(2), pairs=np.zeros((2, 3), np.int64))


def test_a_part_cannot_be_called_from_python() -> None:
    with pytest.raises(TypeError, match="_scaled is compiled into others"):
        _scaled(make_shelf(1), 0)


def test_a_stamp_tells_when_something_that_was_compiled_in_has_changed() -> None:
    first, same, other = (_caller_of(step) for step in (1, 1, 2))
    assert _stamps[id(first)] == _stamps[id(same)]
    assert _stamps[id(first)] != _stamps[id(other)]


def _caller_of(step: int) -> object:
    source = f"def inner(x):\n    return x + {step}\n"
    names: dict[str, object] = {}
    exec(source, names)
    names["inner"] = part(names["inner"])  # type: ignore[arg-type]
    exec("def outer(x):\n    return inner(x)\n", names)
    return part(names["outer"])  # type: ignore[arg-type]
