"""The one way in which balancing uses numba: machine code made at the first call, and cached for the next process.

A cached function is compiled anew if its own file has changed, but not if others have. So the functions that compiled
ones call are in the same file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile the function when it is first called, without the GIL and without fast-math: results are exact.

    The code is cached next to the source file, or in the user's cache folder where that cannot be written.
    """
    return cast("Callable[P, R]", njit(cache=True, nogil=True, error_model="numpy")(function))
