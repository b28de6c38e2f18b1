"""Real time and real ids: the one module that reads the clock and the machine's randomness."""

from __future__ import annotations

import secrets
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32 in lower case: no letter looks like a digit, and text order is number order."""
_TIME_DIGITS = 10
_RANDOM_DIGITS = 16


class SystemClock:
    """The machine's clock (port `Clock`)."""

    def now_ms(self) -> int:
        """Return epoch milliseconds, UTC."""
        return time.time_ns() // 1_000_000

    def sleep_ms(self, duration_ms: int) -> None:
        """Wait for that long; not at all if it is negative."""
        time.sleep(max(0, duration_ms) / 1000)


class RandomIds:
    """Ids of 26 lower-case letters and digits (port `IdSource`).

    Ten digits of the time in milliseconds, then 80 random bits (the layout of a ULID): ids made later sort later, so
    that what is made together lies together in indexes and folders. The randomness is read from the operating system
    for each id, so processes that fork never make the same one.
    """

    def new_id(self) -> str:
        """Return a new id."""
        now_ms = time.time_ns() // 1_000_000
        return _digits(now_ms, _TIME_DIGITS) + _digits(secrets.randbits(80), _RANDOM_DIGITS)


def _digits(number: int, count: int) -> str:
    return "".join(_ALPHABET[number >> 5 * place & 31] for place in range(count - 1, -1, -1))
