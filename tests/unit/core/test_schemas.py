"""Uniting the columns of segments."""

from __future__ import annotations

import itertools

import pytest

from carnac.core.segments.schema import unite_columns, unite_types
from carnac.core.segments.segment import Column, ColumnType
from carnac.errors import Invalid

PLAIN = [kind for kind in ColumnType if not kind.is_sketch]


@pytest.mark.parametrize(
    ("first", "second", "united"),
    [
        (ColumnType.LONG, ColumnType.DOUBLE, ColumnType.DOUBLE),
        (ColumnType.LONG, ColumnType.FLOAT, ColumnType.DOUBLE),
        (ColumnType.BOOLEAN, ColumnType.LONG, ColumnType.LONG),
        (ColumnType.BOOLEAN, ColumnType.FLOAT, ColumnType.FLOAT),
        (ColumnType.LONG, ColumnType.STRING, ColumnType.STRING),
        (ColumnType.JSON, ColumnType.STRING, ColumnType.STRING),
        (ColumnType.STRING, ColumnType.STRING_ARRAY, ColumnType.STRING_ARRAY),
        (ColumnType.LONG, ColumnType.DOUBLE_ARRAY, ColumnType.DOUBLE_ARRAY),
        (ColumnType.LONG_ARRAY, ColumnType.BOOLEAN, ColumnType.LONG_ARRAY),
        (ColumnType.LONG_ARRAY, ColumnType.STRING, ColumnType.STRING_ARRAY),
        (ColumnType.HLL, ColumnType.HLL, ColumnType.HLL),
    ],
)
def test_unite(first: ColumnType, second: ColumnType, united: ColumnType) -> None:
    assert unite_types("c", first, second) is united
    assert unite_types("c", second, first) is united


def unite_three(first: ColumnType, second: ColumnType, third: ColumnType) -> ColumnType:
    return unite_types("c", unite_types("c", first, second), third)


def test_order_does_not_matter() -> None:
    for trio in itertools.combinations_with_replacement(PLAIN, 3):
        assert len({unite_three(*order) for order in itertools.permutations(trio)}) == 1, trio


def test_a_sketch_unites_with_its_own_kind_only() -> None:
    with pytest.raises(Invalid, match="column 'c' is hll in some segments and long in others"):
        unite_types("c", ColumnType.HLL, ColumnType.LONG)


def test_columns_come_in_order_of_first_appearance() -> None:
    older = [Column(name="b", type=ColumnType.LONG), Column(name="a", type=ColumnType.STRING)]
    newer = [Column(name="c", type=ColumnType.STRING), Column(name="b", type=ColumnType.DOUBLE)]
    assert list(unite_columns([older, newer]).items()) == [
        ("b", ColumnType.DOUBLE),
        ("a", ColumnType.STRING),
        ("c", ColumnType.STRING),
    ]
