"""Uniting the columns of segments that were written at different times (schema evolution).

A column may be missing in some segments (null there), and its type may have been widened. Types unite upwards:
boolean → long → double → string, float → double → string, the scalar of an array → the array, anything else →
string; a sketch unites with nothing but its own kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from carnac.core.segments.segment import ELEMENT_TYPES, Column, ColumnType
from carnac.errors import Invalid

_NUMERIC = (ColumnType.BOOLEAN, ColumnType.LONG, ColumnType.FLOAT, ColumnType.DOUBLE)


def unite_columns(schemas: Iterable[Iterable[Column]]) -> Mapping[str, ColumnType]:
    """Return the columns of all `schemas`, in order of first appearance, with united types.

    Raises:
        Invalid: A column is a sketch in one segment and something else in another.
    """
    united: dict[str, ColumnType] = {}
    for columns in schemas:
        for column in columns:
            known = united.get(column.name)
            united[column.name] = (
                column.type if known is None else unite_types(column.name, known, column.type)
            )
    return united


def unite_types(name: str, first: ColumnType, second: ColumnType) -> ColumnType:
    """Return the narrowest type that holds the values of both.

    Raises:
        Invalid: One is a sketch and the other is not of the same kind.
    """
    if first is second:
        return first
    if first.is_sketch or second.is_sketch:
        raise Invalid(
            f"column '{name}' is {first} in some segments and {second} in others, which cannot be united; "
            f"give one of them another name",
            column=name,
        )
    if first in ELEMENT_TYPES or second in ELEMENT_TYPES:
        elements = (ELEMENT_TYPES.get(kind, kind) for kind in (first, second))
        inner = unite_types(name, *elements)
        return _array_of(inner)
    if first in _NUMERIC and second in _NUMERIC:
        return _widest_number(first, second)
    return ColumnType.STRING


def _widest_number(first: ColumnType, second: ColumnType) -> ColumnType:
    pair = {first, second}
    if pair == {ColumnType.BOOLEAN, ColumnType.LONG}:
        return ColumnType.LONG
    if pair == {ColumnType.BOOLEAN, ColumnType.FLOAT}:
        return ColumnType.FLOAT
    return ColumnType.DOUBLE


def _array_of(inner: ColumnType) -> ColumnType:
    if inner in {ColumnType.LONG, ColumnType.BOOLEAN}:
        return ColumnType.LONG_ARRAY
    if inner in {ColumnType.DOUBLE, ColumnType.FLOAT}:
        return ColumnType.DOUBLE_ARRAY
    return ColumnType.STRING_ARRAY
