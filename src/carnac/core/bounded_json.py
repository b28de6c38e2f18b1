"""JSON that somebody else wrote: of bounded depth, number of values and size of numbers, checked before it is read.

Python's own reader takes numbers of thousands of digits, `NaN`, fields that are given twice and halves of surrogate
pairs, and 30 MiB of brackets become a gigabyte: none of that can be kept, and what is kept elsewhere has it not.
"""

from __future__ import annotations

import json
import math
import re

from carnac.core.texts import NESTING_MAX, WHOLE_MAX, short
from carnac.errors import Invalid

VALUES_MAX = 500_000
"""Values in one body: each takes about a hundred bytes once it is read."""
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_OPENING = frozenset(b"[{")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class TooManyValues(Invalid):
    """It would take too much memory: send less."""


class _Unfit(Exception):
    """Something is wrong; the message begins with a verb."""


def parse_json(data: bytes, what: str) -> object:
    """Return the value of a JSON text; `what` it is, for sentences.

    Raises:
        Invalid: It is none, or nested too deep, names a field twice, or holds a number or text that nothing keeps.
        TooManyValues: It holds more than `VALUES_MAX`.
    """
    if _count_values(data) > VALUES_MAX:
        raise TooManyValues(f"{what} holds more than {VALUES_MAX} values")
    try:
        return _parse(data)
    except UnicodeDecodeError as error:
        said = f"is not UTF-8: byte {error.start} cannot be decoded"
    except json.JSONDecodeError as error:
        reason = f"{error.msg[:1].lower()}{error.msg[1:]}"
        said = f"is not JSON: line {error.lineno}, column {error.colno}: {reason}"
    except _Unfit as error:
        said = str(error)
    raise Invalid(f"{what} {said}")


def _parse(data: bytes) -> object:
    _check_depth(data)
    text = data.decode()
    value = json.loads(
        text,
        object_pairs_hook=_once_each,
        parse_int=_whole,
        parse_float=_finite,
        parse_constant=_no_number,
    )
    if _ESCAPED_SURROGATE.search(text) is not None:
        _check_texts(value)
    return value


def _count_values(data: bytes) -> int:
    """Return how many values there are at most; exactly enough to tell whether there are too many."""
    rough = _openings(data) + data.count(b",") + 1
    if rough <= VALUES_MAX:
        return rough
    plain = _without_escapes(data)
    texts = plain.count(b'"') // 2
    if texts > VALUES_MAX:
        return texts
    bare = _outside_of_texts(plain)
    return _openings(bare) + bare.count(b",") + 1


def _check_depth(data: bytes) -> None:
    if _openings(data) <= NESTING_MAX:
        return
    bare = _outside_of_texts(_without_escapes(data))
    depth = 0
    for bracket in bare.translate(None, _NOT_BRACKETS):
        depth += 1 if bracket in _OPENING else -1
        if depth > NESTING_MAX:
            raise _Unfit(
                f"is nested more than {NESTING_MAX} deep (objects and lists in one another)"
            )


def _without_escapes(data: bytes) -> bytes:
    """Return a text in which each quote begins or ends a text."""
    return data.replace(rb"\\", b"").replace(rb"\"", b"")


def _outside_of_texts(plain: bytes) -> bytes:
    return b"".join(plain.split(b'"')[::2])


def _openings(data: bytes) -> int:
    return data.count(b"[") + data.count(b"{")


def _once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _Unfit(f"gives {short(name)} more than once; keep one of them")
            seen.add(name)
    return found


def _whole(text: str) -> int:
    if len(text) <= len(str(WHOLE_MAX)) + 1:
        value = int(text)
        if abs(value) <= WHOLE_MAX:
            return value
    raise _Unfit(f"holds the number {short(text)}; whole numbers are at most {WHOLE_MAX}")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _Unfit(f"holds the number {short(text)}, which is out of range")
    return value


def _no_number(text: str) -> float:
    raise _Unfit(f"holds {text}, which is not JSON")


def _check_texts(value: object) -> None:
    """Check that no text holds half of a pair of surrogates: it cannot be written down."""
    if isinstance(value, dict):
        for name, item in value.items():
            _check_texts(name)
            _check_texts(item)
    elif isinstance(value, list):
        for item in value:
            _check_texts(item)
    elif isinstance(value, str) and _SURROGATE.search(value) is not None:
        raise _Unfit(
            f"holds the text {short(value)} with half of a surrogate pair, which is no character"
        )
