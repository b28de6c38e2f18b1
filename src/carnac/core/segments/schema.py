"""Uniting the columns of segments that were written at different times (schema evolution).

A column may be missing in some segments (null there), and its type may have been widened. Types unite upwards:
boolean → long → double → string, float → double → string, the scalar of an array → the array, anything else →
string; a sketch unites with nothing but its own kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from carnac.core.segments.segment import ELEMENT_TYPES, TEXT_TYPES, Column, ColumnType
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


def find_kept_apart(schemas: Iterable[Iterable[Column]]) -> frozenset[str]:
    """Return the columns that hold numbers of several types here and texts there: their numbers keep their types.

    A query reads them as text, a 7 as `7`. A 7 that became a double, beside doubles, would read as `7.0` ever after.
    """
    kinds: dict[str, set[ColumnType]] = {}
    for columns in schemas:
        for column in columns:
            kinds.setdefault(column.name, set()).add(_element_of(column.type))
    return frozenset(
        name for name, found in kinds.items() if found & TEXT_TYPES and len(found - TEXT_TYPES) > 1
    )


def reads_alike(first: ColumnType, second: ColumnType) -> bool:
    """Whether values of both types read as the same text once they are of one type."""
    elements = {_element_of(first), _element_of(second)}
    return len(elements) == 1 or bool(elements & TEXT_TYPES)


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
        inner = unite_types(name, _element_of(first), _element_of(second))
        return _array_of(inner)
    if first in _NUMERIC and second in _NUMERIC:
        return _widest_number(first, second)
    return ColumnType.STRING


def _element_of(kind: ColumnType) -> ColumnType:
    return ELEMENT_TYPES.get(kind, kind)


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
