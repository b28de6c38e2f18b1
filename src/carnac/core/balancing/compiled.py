"""numba, behind one decorator: machine code made at the first call and kept beside the module for the next process."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile the function when it is first called, without the GIL and without fast-math: results are exact.

    The code is cached next to the source file, or in the user's cache folder where that cannot be written. Where
    neither can, it is compiled anew in each process.
    """
    try:
        return cast("Callable[P, R]", numba.njit(nogil=True, cache=True)(function))
    except RuntimeError:  # no folder to cache in
        return cast("Callable[P, R]", numba.njit(nogil=True)(function))
