"""Tables that go together, which compiled functions take as one argument: a pointer to where each one is.

numba passes a tuple of arrays as all their fields, some hundred numbers for the trees, in each call; to generate that,
and to optimise it away again, was most of the time of compiling. Here it passes one.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numba.core import cgutils, types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    unbox,
)
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import from_dtype

from carnac.errors import Invalid


class Tables:
    """The base of dataclasses of arrays and numbers; in compiled code they have the same attributes, to read.

    The arrays must be contiguous. Compiled code may change what they hold; where they are and how long stays as it is.

    Attributes:
        FIXED: Length of the last dimension of arrays for which it never changes, so that it is compiled in.
    """

    FIXED: ClassVar[dict[str, int]] = {}

    def __post_init__(self) -> None:
        """Note where everything is."""
        words: list[int] = []
        fields: list[Field] = []
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                if not value.flags.c_contiguous:
                    raise Invalid(f"the table {name} must be contiguous")
                last = self.FIXED.get(name, 0)
                if last and value.shape[-1] != last:
                    raise Invalid(
                        f"rows of the table {name} must have {last} elements, not {value.shape[-1]}"
                    )
                fields.append((name, value.dtype.str, value.ndim, last, len(words)))
                words += [value.ctypes.data, *value.shape]
            else:
                is_float = isinstance(value, float)
                fields.append((name, "f8" if is_float else "i8", 0, 0, len(words)))
                words.append(int(np.float64(value).view(np.int64)) if is_float else value)
        places = np.array(words, np.int64)
        attributes = vars(self)
        attributes["_places"] = places
        attributes["_address"] = places.ctypes.data
        attributes["_numba_type_"] = TablesType(type(self).__name__, tuple(fields))


Field = tuple[str, str, int, int, int]
"""Name, type of an element, dimensions (0: a number), fixed length of the last one (0: none), where its words begin."""


class TablesType(types.Type):
    """What numba knows of tables."""

    def __init__(self, name: str, fields: tuple[Field, ...]) -> None:
        self.fields = {field[0]: field for field in fields}
        super().__init__(name=f"{name}({fields})")


@register_model(TablesType)
class _Model(models.OpaqueModel):
    pass


@unbox(TablesType)
def _unbox(_type, value, c):  # noqa: ANN001, ANN202 - numba's own
    number = c.pyapi.object_getattr_string(value, "_address")
    address = c.pyapi.number_as_ssize_t(number)
    c.pyapi.decref(number)
    return NativeValue(c.builder.inttoptr(address, cgutils.voidptr_t))


@infer_getattr
class _Attributes(AttributeTemplate):
    key = TablesType

    def generic_resolve(self, tables: TablesType, name: str) -> types.Type | None:  # type: ignore[override]
        if name not in tables.fields:
            return None
        _, kind, dimensions, _, _ = tables.fields[name]
        scalar = from_dtype(np.dtype(kind))
        return types.Array(scalar, dimensions, "C") if dimensions else scalar


@lower_getattr_generic(TablesType)
def _read(context, builder, tables, pointer, name):  # noqa: ANN001, ANN202
    _, kind, dimensions, last, place = tables.fields[name]
    ir = cgutils.ir  # type: ignore[attr-defined]
    word = ir.IntType(64)
    scalar = from_dtype(np.dtype(kind))

    def load(at: int, of):  # noqa: ANN001, ANN202
        base = builder.bitcast(pointer, of.as_pointer())
        loaded = builder.load(builder.gep(base, [cgutils.int32_t(at)]))
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    if not dimensions:
        return load(place, context.get_value_type(scalar))
    of = types.Array(scalar, dimensions, "C")
    size = context.get_abi_sizeof(context.get_data_type(scalar))
    shape = [load(place + 1 + n, word) for n in range(dimensions)]
    if last:
        shape[-1] = word(last)
    strides: list[object] = []
    step = word(size)
    for length in reversed(shape):
        strides.insert(0, step)
        step = builder.mul(step, length)
    array = context.make_array(of)(context, builder)
    data = builder.inttoptr(load(place, word), context.get_data_type(scalar).as_pointer())
    populate_array(array, data, shape, strides, size, None)
    return array._getvalue()  # noqa: SLF001 - numba's own way
