"""Texts that come from outside: characters that names, free texts and nested values may not hold, and one message.

Such a text is kept in a database, written to JSON, put on a command line and shown on terminals and pages. A NUL
ends it there, half a surrogate pair has no bytes, an escape moves a cursor. So such a text is refused where it comes
in, and the code inside need not look again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Mapping
from typing import AnyStr

from carnac.errors import Invalid

NAME_MAX = 255
"""Characters of a name: an id, a datasource, a column, a tag, a writer, a batch, a holder."""
MESSAGE_MAX = 10_000
"""Characters of what people say of something: the message of a commit, the reason of a cancellation."""
LINE_MAX = 2_000
"""Characters of a sentence that repeats what somebody sent."""
KEY_MAX = 1_000
"""Characters of what is made of names or holds one: a key of an object, of a batch, of a sequence of places."""
NESTING_MAX = 100
"""Lists and objects inside one another, in a context or a body: all that handles them goes as deep."""
FILE_MAX = 64 << 20
"""Characters of a file that a person names, or bytes: of a device there is no end."""
WHOLE_MAX = 2**63 - 1
"""The largest whole number that a database keeps."""

_SHOWN = 60
_NOT_IN_NAMES = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Controls, line ends, and surrogates: half a pair stands for no character."""
_NOT_IN_TEXTS = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]|\r(?!\n)")
"""The same without tabs and line ends. A carriage return alone would write over the line on a terminal."""
_NOT_ANYWHERE = re.compile("[\0\ud800-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def check_name(value: str, what: str, *, limit: int = NAME_MAX) -> str:
    """Return a name as it is; `what` says of what, for the sentence.

    Raises:
        Invalid: It is longer than `limit` characters, or holds a control character or half of a surrogate pair.
    """
    return _checked(value, what, _NOT_IN_NAMES, limit)


UNFIT = "must not hold '/' or outer spaces, nor be '.' or '..'"
"""What a name that `is_fit` refuses is told."""


def is_fit(name: str) -> bool:
    """Whether a name can be a part of a URL's path, where clients take `.` and `..` out."""
    return name == name.strip() and "/" not in name and name not in {".", ".."}


def check_text(value: str, what: str, *, limit: int | None = None) -> str:
    """Return a free text as it is; it may have tabs and line ends.

    Args:
        limit: Characters at most; None: as many as its reader takes.

    Raises:
        Invalid: It is longer, or holds another control character or half of a surrogate pair.
    """
    return _checked(value, what, _NOT_IN_TEXTS, limit)


def at_most(read: Callable[[int], AnyStr], what: str) -> AnyStr:
    """Return all that an open file holds.

    Args:
        read: Reads so much of it, less only at its end.

    Raises:
        Invalid: It holds more than `FILE_MAX`.
    """
    found = read(FILE_MAX + 1)
    if len(found) > FILE_MAX:
        raise Invalid(f"{what} is longer than {FILE_MAX >> 20} MiB; give a shorter file")
    return found


def check_keepable(value: str, what: str) -> str:
    """Return a text as it is that is only looked for, or is data: it may be all that a database can keep.

    Raises:
        Invalid: It holds a NUL or half of a surrogate pair.
    """
    return _checked(value, what, _NOT_ANYWHERE, None)


def check_nested(
    value: object,
    what: str,
    *,
    names: Container[str] = (),
    data: Container[str] = (),
    is_json: bool = True,
) -> None:
    """Check all texts, keys and numbers of a value that is made of objects and lists.

    Args:
        what: Name for messages; the place of the error follows, as in `the spec: a.b[0]`.
        names: Keys whose texts, alone or in a list, are names.
        data: Keys whose texts are data: they may be all that a file can hold as text.
        is_json: Whether it may hold nothing that JSON has not.

    Raises:
        Invalid: A key or name is not fit for one, or a text not for one; a number has no place in 64 bits, or is none;
            it is nested deeper than `NESTING_MAX`; or something in it is no JSON.
    """
    left: list[tuple[object, int, str, str]] = [(value, 0, "", "")]
    seen: set[int] = set()
    while left:
        one, depth, path, key = left.pop()
        place = f"{what}: {path}" if path else what
        if isinstance(one, str):
            _check_kept(one, place, key, names, data)
        elif isinstance(one, Mapping | list | tuple):
            if depth >= NESTING_MAX:
                raise Invalid(f"{what} is nested deeper than {NESTING_MAX} levels; make it flatter")
            if id(one) in seen:  # YAML may name a part again, or within itself
                continue
            seen.add(id(one))
            if isinstance(one, Mapping):
                for name, item in one.items():
                    _check_key(name, place)
                    left.append((item, depth + 1, f"{path}.{name}" if path else name, name))
            else:
                left += [(item, depth + 1, f"{path}[{at}]", key) for at, item in enumerate(one)]
        elif is_json or isinstance(one, int | float):
            _check_plain(one, place)


def _check_kept(
    text: str, place: str, key: str, names: Container[str], data: Container[str]
) -> None:
    if key in data:
        _checked(text, place, _SURROGATE, None)
    elif key in names:
        check_name(text, place)
    else:
        check_text(text, place)


def _check_key(key: object, place: str) -> None:
    if not isinstance(key, str):
        raise Invalid(f"a key in {place} is no text: {short(key)}")
    _checked(key, f"a key in {place}", _NOT_IN_NAMES, KEY_MAX)


def _check_plain(value: object, place: str) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, int):
        if not -WHOLE_MAX - 1 <= value <= WHOLE_MAX:
            raise Invalid(f"{place} is a number that needs more than 64 bits; write it as a text")
    elif not isinstance(value, float):
        raise Invalid(f"{place} is {short(value)}, which JSON has not")
    elif not math.isfinite(value):
        raise Invalid(f"{place} is {value}; it must be a finite number")


def _checked(value: str, what: str, unfit: re.Pattern[str], limit: int | None) -> str:
    if limit is not None and len(value) > limit:
        raise Invalid(
            f"{what} has {len(value):,} characters, at most {limit:,} are taken: {short(value)}"
        )
    if value.isprintable():  # most are, and it is soon known
        return value
    found = unfit.search(value)
    if found is None:
        return value
    at, letter = found.start(), value[found.start()]
    kind = "half of a surrogate pair" if "\ud800" <= letter <= "\udfff" else "a control character"
    raise Invalid(
        f"{what} holds {kind} (U+{ord(letter):04X}) as its character {at + 1}: {short(value)}; take it out"
    )


def short(value: object) -> str:
    """Return the beginning of a value as a message shows it: in one line, of characters that can be shown."""
    try:
        text = repr(value[: 2 * _SHOWN] if isinstance(value, str) else value)
    except ValueError:  # Python does not write whole numbers of more than 4,300 digits
        return "a number of thousands of digits"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def cut(text: str, most: int) -> str:
    """Return a text of at most so many characters, the last of them an ellipsis where some are missing."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def one_line(text: str) -> str:
    """Return a text as one printable line of at most `LINE_MAX` characters, for people."""
    line = cut(text, LINE_MAX)
    if line.isprintable():
        return line
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in line)[:LINE_MAX]


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or its type if it has none."""
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__


_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\f": r"\f"}
_IN_NAME = re.compile(r"[\\\s:=#!]")
_IN_VALUE = re.compile(r"\\|[\n\r\t\f]|^ ")


def properties_text(settings: Mapping[str, str]) -> str:
    """Return the text of a file (UTF-8) that holds the settings."""
    return "".join(
        f"{_IN_NAME.sub(_escape, name)}={_IN_VALUE.sub(_escape, value)}\n"
        for name, value in settings.items()
    )


def _escape(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[0], f"\\{found[0]}")


def line_of_key(name: str, text: str) -> int | None:
    """Return the line of a TOML text, from 1, that gives a key a value; None: it is not plain."""
    pattern = re.compile(rf"""\s*\[?\s*["']?{re.escape(name)}["']?\s*[=.\]]""")
    lines = enumerate(text.splitlines(), start=1)
    return next((number for number, line in lines if pattern.match(line)), None)
