"""Failures on their way through Spark, which shows them with their traceback: as short a one as can be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from carnac.errors import CarnacError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def in_one_sentence(function: Callable[P, R]) -> Callable[P, R]:
    """Have what a function raises on purpose begin here: how it came about says nothing to who asked Spark."""

    @wraps(function)
    def told(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except CarnacError as error:
            failure = error
        raise failure.with_traceback(None) from None

    return told


def each_in_one_sentence(function: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """Do so for a function that raises while it yields."""

    @wraps(function)
    def told(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        try:
            yield from function(*args, **kwargs)
        except CarnacError as error:
            failure = error
        else:
            return
        raise failure.with_traceback(None) from None

    return told
