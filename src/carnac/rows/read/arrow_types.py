"""Types of Arrow data as others, wherever they stand: in lists, views, maps, objects, dictionaries and runs.

`known_rows` makes types that the engine knows of those that it does not. `far_times` does so with values. Dictionaries
and runs are taken apart where the engine, or Arrow itself, cannot take what they hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from carnac.errors import Invalid

_DIGITS_MAX = 38
_KEPT = frozenset({"arrow.uuid", "arrow.json", "arrow.bool8"})
"""Extensions that the engine knows, where they are a column's own type."""

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


class Change(NamedTuple):
    """Another type, and what makes its values."""

    type: pa.DataType
    make: Callable[[pa.Array], pa.Array]


Leaf = Callable[[pa.DataType], Change | None]
"""Returns what becomes of a plain type; None: it stays.

Raises:
    Unreadable: Nothing can become of it.
"""


class Unreadable(Exception):
    """Raised of a type, or of values, that have no counterpart; its text may say more of the column."""


def known_rows(rows: Rows) -> Rows:
    """Return the rows with types that the engine knows.

    Raises:
        Invalid: There is none for a column; names it.
    """
    return changed_rows(rows, known)


def known(kind: pa.DataType) -> Change | None:
    """Return what becomes of a plain type that the engine does not know."""
    if kinds.is_float16(kind):
        return cast_to(pa.float32())
    if kinds.is_union(kind):
        raise Unreadable
    if not kinds.is_decimal(kind):
        return None
    digits = max(kind.precision, kind.scale, kind.precision - kind.scale)
    if kind.bit_width <= 128 and digits == kind.precision:
        return None
    if digits > _DIGITS_MAX:
        raise Unreadable
    return cast_to(pa.decimal128(digits, max(kind.scale, 0)))


def bytes_as_text(kind: pa.DataType) -> Change | None:
    """Return what becomes of bytes that are texts."""
    if kinds.is_binary(kind) or kinds.is_binary_view(kind):
        return cast_to(pa.string())
    return cast_to(pa.large_string()) if kinds.is_large_binary(kind) else None


def changed_schema(schema: pa.Schema, leaf: Leaf) -> pa.Schema:
    """Return the schema of changed rows.

    Raises:
        Invalid: A column has a type of which nothing can become; names it.
    """
    for index, field in enumerate(schema):
        try:
            schema = schema.set(index, field.with_type(_type(field.type, leaf)))
        except Unreadable as error:
            raise _invalid(field, error) from None
    return schema


def changed_rows(rows: Rows, leaf: Leaf) -> Rows:
    """Return the rows with what a leaf says in place of each plain type; the same ones if nothing changes.

    Raises:
        Invalid: A column has a type, or a value, of which nothing can become; names it.
    """
    for index, field in enumerate(rows.schema):
        try:
            if not _is_changed(field.type, leaf):
                continue
            column = rows.column(index)
            found = _of(column, leaf) if isinstance(column, pa.Array) else _pieces(column, leaf)
        except Unreadable as error:
            raise _invalid(field, error) from None
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise _invalid(
                field, Unreadable()
            ) from error  # says which value, or what Arrow cannot do
        if found is not column:
            rows = rows.set_column(index, field.with_type(found.type), found)
    return rows


def _invalid(field: pa.Field, error: Unreadable) -> Invalid:
    what = str(error) or f"of type {field.type} cannot be read"
    return Invalid(f"column '{field.name}' {what}; cast it to another type", column=field.name)


def cast_to(kind: pa.DataType) -> Change:
    """Return the change that casts to a type."""
    return Change(kind, lambda column: column.cast(kind))


# ------------------------------------------------------------------------------------------ types


def _is_encoded(kind: pa.DataType) -> bool:
    return bool(kinds.is_dictionary(kind) or kinds.is_run_end_encoded(kind))


def _is_extension(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType)


def _is_changed(kind: pa.DataType, leaf: Leaf, *, is_inner: bool = False) -> bool:
    if _is_encoded(kind):
        value = kind.value_type
        is_plain = not (kinds.is_nested(value) or _is_encoded(value) or _is_extension(value))
        is_view = kinds.is_string_view(value) or kinds.is_binary_view(value)
        stays = is_plain and not is_view and not kinds.is_null(value)
        return is_inner or not stays or _is_changed(value, leaf)
    if _is_extension(kind):
        is_kept = not is_inner and kind.extension_name in _KEPT
        return not is_kept or _is_changed(kind.storage_type, leaf)
    if kinds.is_nested(kind) and not kinds.is_union(kind):
        fields = (kind.field(index) for index in range(kind.num_fields))
        return any(_is_changed(one.type, leaf, is_inner=True) for one in fields)
    return leaf(kind) is not None


def _inner_field(field: pa.Field, leaf: Leaf) -> pa.Field:
    return field.with_type(_type(field.type, leaf, is_inner=True))


def _type(kind: pa.DataType, leaf: Leaf, *, is_inner: bool = False) -> pa.DataType:
    if not _is_changed(kind, leaf, is_inner=is_inner):
        return kind
    if _is_encoded(kind):
        return _type(_plain_type(kind.value_type), leaf, is_inner=True)
    if _is_extension(kind):
        if kind.extension_name == "pandas.period":
            raise Unreadable("holds periods of pandas, of which dt.to_timestamp() makes times")
        named = {"arrow.bool8": pa.bool_(), "arrow.uuid": pa.string()}.get(kind.extension_name)
        return named or _type(kind.storage_type, leaf, is_inner=is_inner)
    if kinds.is_map(kind):
        key, item = _inner_field(kind.key_field, leaf), _inner_field(kind.item_field, leaf)
        return pa.map_(key, item, keys_sorted=kind.keys_sorted)
    if kinds.is_struct(kind):
        return pa.struct([_inner_field(one, leaf) for one in kind])
    if not kinds.is_nested(kind):
        change = leaf(kind)
        return kind if change is None else change.type
    inner = _inner_field(kind.value_field, leaf)
    if kinds.is_fixed_size_list(kind):
        return pa.list_(inner, kind.list_size)
    is_large = kinds.is_large_list(kind) or kinds.is_large_list_view(kind)
    return pa.large_list(inner) if is_large else pa.list_(inner)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of values that Arrow can take one by one, in place of a view."""
    if kinds.is_string_view(kind):
        return pa.string()
    return pa.binary() if kinds.is_binary_view(kind) else kind


# ----------------------------------------------------------------------------------------- values


def _pieces(column: pa.ChunkedArray, leaf: Leaf) -> pa.ChunkedArray:
    return pa.chunked_array([_of(one, leaf) for one in column.chunks], _type(column.type, leaf))


def _inner(column: pa.Array, leaf: Leaf) -> pa.Array:
    return _of(column, leaf, is_inner=True)


def _of(column: pa.Array, leaf: Leaf, *, is_inner: bool = False) -> pa.Array:
    kind = column.type
    if not _is_changed(kind, leaf, is_inner=is_inner):
        return column
    if _is_encoded(kind):
        return _decoded(column, leaf)
    if _is_extension(kind):
        return _stored(column, leaf, is_inner=is_inner)
    if kinds.is_list_view(kind) or kinds.is_large_list_view(kind):
        return _of_view(column, leaf)
    if kinds.is_struct(kind):
        return _of_struct(column, leaf)
    if kinds.is_fixed_size_list(kind):
        size = kind.list_size
        inner = column.values.slice(column.offset * size, len(column) * size)
        made = pa.FixedSizeListArray.from_arrays(_inner(inner, leaf), size, mask=column.is_null())
        return made.cast(_type(kind, leaf))
    if kinds.is_nested(kind):
        return _of_list(column, leaf)
    change = leaf(kind)
    return column if change is None else change.make(column)


def _decoded(column: pa.Array, leaf: Leaf) -> pa.Array:
    """Return the values of a dictionary, or of runs, each in its place."""
    if kinds.is_dictionary(column.type):
        places, values = column.indices, column.dictionary
    else:
        rows = np.arange(column.offset, column.offset + len(column))
        found = np.searchsorted(column.run_ends.to_numpy(), rows, side="right")
        places, values = pa.array(found), column.values
    plain = _plain_type(values.type)
    return _inner(values if plain == values.type else values.cast(plain), leaf).take(places)


def _stored(column: pa.Array, leaf: Leaf, *, is_inner: bool) -> pa.Array:
    """Return what stands behind an extension."""
    match column.type.extension_name:
        case "arrow.bool8":
            return column.cast(pa.bool_())
        case "arrow.uuid":
            texts = [None if one is None else str(one) for one in column.to_pylist()]
            return pa.array(texts, pa.string())
        case _:
            return _of(column.storage, leaf, is_inner=is_inner)


def _of_list(column: pa.Array, leaf: Leaf) -> pa.Array:
    """Return a list, or a map, of changed values."""
    kind = column.type
    parts = [column.keys, column.items] if kinds.is_map(kind) else [column.values]
    changed = [_inner(one, leaf) for one in parts]
    if all(one is other for one, other in zip(parts, changed, strict=True)):
        return column
    # a copy from 0 on, beside which a mask may stand
    offsets = pa.array(column.offsets.to_numpy())
    made = type(column).from_arrays(offsets, *changed, mask=column.is_null())
    return made.cast(_type(kind, leaf))


def _of_view(column: pa.Array, leaf: Leaf) -> pa.Array:
    """Return a view of a list as a list: Arrow's own cast makes an offset too few."""
    is_large = kinds.is_large_list_view(column.type)
    lengths = column.value_lengths().fill_null(0).to_numpy()
    offsets = pa.array(
        np.concatenate(([0], np.cumsum(lengths))), pa.int64() if is_large else pa.int32()
    )
    make = pa.LargeListArray if is_large else pa.ListArray
    made = make.from_arrays(offsets, _inner(column.flatten(), leaf), mask=column.is_null())
    return made.cast(_type(column.type, leaf))


def _of_struct(column: pa.Array, leaf: Leaf) -> pa.Array:
    parts = [column.field(index) for index in range(column.type.num_fields)]
    changed = [_inner(one, leaf) for one in parts]
    if all(one is other for one, other in zip(parts, changed, strict=True)):
        return column
    fields = list(_type(column.type, leaf))
    return pa.StructArray.from_arrays(changed, fields=fields, mask=column.is_null())
