"""numba, behind one decorator: machine code made at the first call and kept beside the module for the next process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec, TypeVar, cast

import numba
from numba.core import cgutils, types
from numba.extending import intrinsic

P = ParamSpec("P")
R = TypeVar("R")

_stamps: dict[int, object] = {}
"""What the code of a compiled function depends on, by the function's identity."""


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile the function when it is first called, without the GIL and without fast-math: results are exact.

    The code is cached next to the source file, or in the user's cache folder where that cannot be written. Where
    neither can, it is compiled anew in each process.

    numba asks of a cached function only whether its own file has changed. What it calls is compiled into it, so its
    stamp must cover those functions and constants as well: define or import them before it.
    """
    return _made(function, counts=True)


def lean(function: Callable[P, R]) -> Callable[P, R]:
    """Compile as `compiled` does, but without reference counts: for kernels that make no arrays.

    To count the ten arrays of a tree at each call of a small kernel would take most of the time.
    """
    return _made(function, counts=False)


@intrinsic
def _fetch(_typing, table, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - numba's own
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        ir = cgutils.ir  # type: ignore[attr-defined]
        pointer, number = cgutils.voidptr_t, cgutils.int32_t
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        line = builder.gep(builder.bitcast(array.data, pointer), [arguments[1]])
        to_read, soon_again, data = number(0), number(3), number(1)
        builder.call(prefetch, [line, to_read, soon_again, data])
        return context.get_dummy_value()

    return types.void(table, at), generate


fetch = cast("Callable[[object, int], None]", _fetch)
"""Ask for the cache line with byte `at` of a contiguous table. Nothing waits for it; that it exists is not checked."""


def _made(function: Callable[P, R], *, counts: bool) -> Callable[P, R]:
    try:
        made = _decorated(function, cache=True, counts=counts)
        index = made._cache._cache_file  # type: ignore[attr-defined]  # noqa: SLF001 - numba has no public way
        stamp = (index._source_stamp, counts, *_used_by(function))  # noqa: SLF001
        index._source_stamp = stamp  # noqa: SLF001
    except (AttributeError, RuntimeError):  # another numba, or no folder to cache in
        return _decorated(function, cache=False, counts=counts)
    _stamps[id(made)] = stamp
    return made


def _decorated(function: Callable[P, R], *, cache: bool, counts: bool) -> Callable[P, R]:
    decorate = numba.njit(nogil=True, cache=cache, _nrt=counts)  # type: ignore[call-overload]
    made = decorate(function)
    _generalise(made)
    return cast("Callable[P, R]", made)


def _generalise(made: object) -> None:
    """Compile the function once for a type, not once more for each constant that a compiled caller passes.

    That halves the time of the first use: what the function calls is compiled anew with it.
    """
    template = getattr(made, "get_call_template", None)
    if template is None:  # numba is switched off, or another one
        return

    def general(args: Sequence[types.Type], kws: Mapping[str, types.Type]) -> object:
        return template(
            tuple(types.unliteral(one) for one in args),  # type: ignore[no-untyped-call]
            {name: types.unliteral(one) for name, one in kws.items()},  # type: ignore[no-untyped-call]
        )

    made.get_call_template = general  # type: ignore[attr-defined]


def _used_by(function: Callable[P, R]) -> list[tuple[str, object]]:
    """Return the compiled functions and the numbers that the function takes from its module, by name."""
    used: list[tuple[str, object]] = []
    for name in sorted(set(function.__code__.co_names)):
        value = function.__globals__.get(name)
        if isinstance(value, int | float):
            used.append((name, value))
        elif id(value) in _stamps:
            used.append((name, _stamps[id(value)]))
    return used
