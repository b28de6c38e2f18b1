"""Computed values, kept while they are in use: for functions of values that do not change."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Generic, TypeVar
from uuid import UUID

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_PLAIN = frozenset(
    {bool, bytes, date, datetime, Decimal, float, int, str, time, timedelta, type(None), UUID}
)
"""Types of which two values are the same where their texts are: equal ones may differ, as `1.0` and `1.00` do."""


def key_of_values(given: Sequence[object] | Mapping[str, object]) -> Hashable | None:
    """Return a key that tells values of a statement's parameters from others; None: no key does for sure."""
    named = sorted(given.items()) if isinstance(given, Mapping) else list(enumerate(given))
    if any(type(value) not in _PLAIN for _, value in named):
        return None
    return tuple((name, type(value), repr(value)) for name, value in named)


class Memo(Generic[K, V]):
    """The values that were used last, within two bounds. Safe for threads.

    Args:
        values_max: How many are kept.
        weight_max: How much they weigh together; a value that weighs more is not kept.
        weigh: Returns what a key and its value weigh, the same each time.
    """

    def __init__(self, *, values_max: int, weight_max: int, weigh: Callable[[K, V], int]) -> None:
        self._values_max = values_max
        self._weight_max = weight_max
        self._weigh = weigh
        self._kept: OrderedDict[K, V] = OrderedDict()
        self._weight = 0
        self._mutex = threading.Lock()

    def find(self, key: K) -> V | None:
        """Return the value of a key; None: it is not kept."""
        with self._mutex:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
        return found

    def keep(self, key: K, value: V) -> None:
        """Keep a value, in place of those that were not used for longest."""
        with self._mutex:
            before = self._kept.pop(key, None)
            self._weight -= 0 if before is None else self._weigh(key, before)
            self._kept[key] = value
            self._weight += self._weigh(key, value)
            while self._kept and (
                len(self._kept) > self._values_max or self._weight > self._weight_max
            ):
                self._weight -= self._weigh(*self._kept.popitem(last=False))

    def drop(self, key: K) -> None:
        """Forget a value. Idempotent."""
        with self._mutex:
            found = self._kept.pop(key, None)
            self._weight -= 0 if found is None else self._weigh(key, found)

    def clear(self) -> None:
        """Forget everything."""
        with self._mutex:
            self._kept.clear()
            self._weight = 0

    def get(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key, made if it is not kept. Exceptions of `make` pass through."""
        found = self.find(key)
        if found is None:
            found = make()
            self.keep(key, found)
        return found
