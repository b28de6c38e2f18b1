"""numba, behind one decorator: machine code made at the first call and kept beside the module for the next process."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

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
    return cast("Callable[P, R]", decorate(function))


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
