"""JSON from people and programs: read after a look at how long and how deep it is, and refused in one sentence.

Python's own reader takes numbers of thousands of digits, `NaN`, fields that are given twice and halves of surrogate
pairs, and 30 MiB of brackets become a gigabyte. None of that can be kept, and values that are kept elsewhere have none.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter

from carnac.core.texts import NESTING_MAX, WHOLE_MAX, short
from carnac.errors import Invalid

LENGTH_MAX = 8 << 20
"""Characters of a text that is read as a whole."""
VALUES_MAX = 500_000
"""Values in a text from a stranger: each takes about a hundred bytes once it is read."""
_NOT_BRACKETS = re.compile(r"[^][{}]+")
_HALF = re.compile(r"[\ud800-\udfff]|\\[uU](?:0000)?[dD][89a-fA-F]")


class TooManyValues(Invalid):
    """The text would take too much memory: send less."""


def parse_json(text: str | bytes, what: str, *, limit: int = LENGTH_MAX) -> object:
    """Return the value of a JSON text, a byte order mark before it aside; `what` is its name in messages.

    Args:
        limit: Characters or bytes at most.

    Raises:
        Invalid: It is none; names a field twice; is too long, too deep, or holds a number or a text that nothing keeps.
    """
    _check_length(text, what, limit)
    try:
        plain = (text if isinstance(text, str) else text.decode()).removeprefix("\ufeff")
        _check_depth(_outside_of_texts(plain), what)
        value = json.loads(
            plain,
            object_pairs_hook=_once_each,
            parse_int=_whole,
            parse_float=_finite,
            parse_constant=_no_number,
        )
    except UnicodeDecodeError as error:
        raise Invalid(f"the {what} is not UTF-8: byte {error.start} cannot be decoded") from None
    except json.JSONDecodeError as error:
        raise Invalid(
            f"the {what} is not valid JSON: line {error.lineno}, column {error.colno}: "
            f"{error.msg[0].lower()}{error.msg[1:]}"
        ) from None
    check_letters(plain, value, what)
    return value


def check_count(data: bytes, what: str) -> None:
    """Check how many values a JSON text holds, before anything is made of them.

    Raises:
        TooManyValues: More than `VALUES_MAX`.
    """
    if _values(data) <= VALUES_MAX:
        return
    plain = data.replace(rb"\\", b"").replace(rb"\"", b"")
    texts = plain.count(b'"') // 2
    if texts > VALUES_MAX or _values(b"".join(plain.split(b'"')[::2])) > VALUES_MAX:
        raise TooManyValues(f"the {what} holds more than {VALUES_MAX} values")


def check_letters(text: str, value: object, what: str) -> None:
    """Refuse halves of surrogate pairs in what was read from a text: nothing can be written with them.

    Raises:
        Invalid: There is one.
    """
    if _HALF.search(text) is not None:
        try:
            json.dumps(value, ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError:
            raise Invalid(f"the {what} holds half of a surrogate pair; take it out") from None


def check_shape(text: str, what: str) -> None:
    """Check a text before it is parsed: how long it is, and how deep its brackets are, in texts of it too.

    Raises:
        Invalid: It is longer than `LENGTH_MAX`, or deeper than `NESTING_MAX`.
    """
    _check_length(text, what, LENGTH_MAX)
    _check_depth(text, what)


def check_names(names: list[str]) -> None:
    """Refuse an object that names a field twice.

    Raises:
        Invalid: It does.
    """
    if len(set(names)) < len(names):
        repeated = sorted(name for name, count in Counter(names).items() if count > 1)
        shown = ", ".join(name if name.isprintable() else short(name) for name in repeated)
        raise Invalid(f"{shown:.200} is given more than once; keep one of them")


def _check_length(text: str | bytes, what: str, limit: int) -> None:
    if len(text) > limit:
        raise Invalid(f"the {what} has {len(text):,} characters; at most {limit:,} are read")


def _check_depth(text: str, what: str) -> None:
    if text.count("[") + text.count("{") <= NESTING_MAX:
        return
    depth = 0
    for bracket in _NOT_BRACKETS.sub("", text):
        depth += (bracket in "[{") - (bracket in "]}")
        if depth > NESTING_MAX:
            raise Invalid(f"the {what} is nested deeper than {NESTING_MAX} levels; make it flatter")


def _outside_of_texts(text: str) -> str:
    """Return the parts between the texts of JSON, in time that is linear in the length."""
    plain = text.replace("\\\\", "").replace('\\"', "")  # each quote left begins or ends a text
    return "".join(plain.split('"')[::2])


def _values(data: bytes) -> int:
    return data.count(b"[") + data.count(b"{") + data.count(b",") + 1


def _once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        check_names([name for name, _ in pairs])
    return found


def _whole(digits: str) -> int:
    if len(digits) > len(str(WHOLE_MAX)) + 1:
        raise Invalid(f"a number of {len(digits)} digits needs more than 64 bits; write it as text")
    value = int(digits)
    if not -WHOLE_MAX - 1 <= value <= WHOLE_MAX:
        raise Invalid(f"the number {digits} needs more than 64 bits; write it as text")
    return value


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise Invalid(f"the number {digits:.40} is out of range; write it as text")
    return value


def _no_number(text: str) -> float:
    raise Invalid(f"{text} is no number in JSON; leave it out")
