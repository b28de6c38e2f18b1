"""Ids as texts: how they are spelled, and how those of one attempt at a task are known.

An id has 26 lower-case letters and digits: the time in milliseconds, then 80 bits that make it unique (the layout of a
ULID). The ids that an attempt makes bear its *mark* in 50 of those bits. So the files of an attempt that died are found
without a record of them: no record is written before a file is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32 in lower case: no letter looks like a digit, and text order is number order."""
_PAIRS = [first + second for first in ALPHABET for second in ALPHABET]
TIME_DIGITS = 10
MARK_DIGITS = 10
COUNT_DIGITS = 6
_NAME = re.compile(
    rf"(?:[a-z]+-)*([{ALPHABET}]{{{TIME_DIGITS}}})[{ALPHABET}]{{{MARK_DIGITS + COUNT_DIGITS}}}"
)


def digits(number: int, count: int) -> str:
    """Return the last digits of a number."""
    pairs = [_PAIRS[number >> 5 * index & 1023] for index in range(count & ~1, -1, -2)]
    return "".join(pairs)[-count:]


def mark_of(task_id: str, number: int, created_at_ms: int) -> str:
    """Return the mark of an attempt.

    Args:
        created_at_ms: When it was dispatched: a task that was forgotten may be submitted again under its id.
    """
    text = f"{task_id}\x1f{number}\x1f{created_at_ms}"
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return digits(int.from_bytes(digest, "big"), MARK_DIGITS)


def bears_mark(mark: str) -> Callable[[str], bool]:
    """Return what tells whether a path has a part that begins with an id of that mark, or with a word and one."""
    pattern = re.compile(
        rf"(?:^|/)(?:[a-z]+-)*[{ALPHABET}]{{{TIME_DIGITS}}}{mark}[{ALPHABET}]{{{COUNT_DIGITS}}}"
    )
    return lambda path: pattern.search(path) is not None


def time_of(name: str) -> int | None:
    """Return the time in milliseconds of a name that begins with an id, or with a word and one; None: it does not."""
    found = _NAME.match(name)
    if found is None:
        return None
    value = 0
    for digit in found[1]:
        value = value << 5 | ALPHABET.index(digit)
    return value
