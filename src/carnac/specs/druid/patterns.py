"""Regular expressions of Java's: which no engine reads, which DuckDB does not read, and what stands in their place."""

from __future__ import annotations

import re
import warnings
from functools import lru_cache

from carnac.core.texts import short
from carnac.errors import Invalid

_WRONG = (
    "unterminated character set",
    "missing ), unterminated subpattern",
    "unbalanced parenthesis",
    "nothing to repeat",
    "bad escape (end of pattern)",
    "min repeat greater than max repeat",
)
"""Complaints of Python about what is wrong in every dialect; of others, such as unknown letters, Java is the judge."""
_OTHERWISE_IN_JAVA = re.compile(r"\\Q|\[[^\]]*\[|\(\?[a-zA-Z]*x|[\^$bBAZzG)][*+?{]")
"""Quotes, sets in sets, comments, and places that are repeated: Python does not read them as Java does."""


JAVA = "java_"
"""Before the names of functions of ours that read the patterns that DuckDB does not."""
_OF_JAVA = re.compile(
    r"(?P<java>\\(?:[1-9]|k<)|\(\?(?:[=!>]|<[=!])|[*+?}]\+)|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]",
    re.DOTALL,
)
"""What looks around, refers back, or gives nothing back; over characters that are escaped, or in a set."""
_NAMED = re.compile(r"\(\?<(\w+)>|\\.", re.DOTALL)
_BACK = re.compile(r"\\k<(\w+)>|\\.", re.DOTALL)
_REPLACED = re.compile(r"\\(.)|\$(\d)|(\$)|(\\)", re.DOTALL)


def is_javas(pattern: str) -> bool:
    """Whether Java reads a pattern and RE2, which matches in time that grows with the text alone, does not."""
    return any(found["java"] for found in _OF_JAVA.finditer(pattern))


def read_pattern(pattern: str) -> str:
    """Return a regular expression of Java's, its named groups as DuckDB and Python have them: `(?P<n>a)` for `(?<n>a)`.

    Raises:
        Invalid: No engine reads it; says why, and where.
    """
    return _NAMED.sub(
        lambda found: f"(?P<{found[1]}>" if found[1] else found[0], check_pattern(pattern)
    )


@lru_cache(maxsize=1_000)
def compile_javas(pattern: str) -> re.Pattern[str]:
    """Return a pattern that DuckDB does not read, as Python reads it.

    Args:
        pattern: As `read_pattern` returns it.

    Raises:
        Invalid: Python does not read it either.
    """
    try:
        backward = _BACK.sub(lambda found: f"(?P={found[1]})" if found[1] else found[0], pattern)
        return re.compile(backward, re.ASCII)
    except re.error as error:
        raise Invalid(
            f"{short(pattern)} is not a regular expression that is read here: {error}"
        ) from None


def to_rewrite(replacement: str) -> str:
    r"""Return a replacement of Java's as RE2 has it: `\1` for `$1`.

    Raises:
        Invalid: It names a group, or ends within an escape.
    """

    def said(found: re.Match[str]) -> str:
        if found[3] or found[4]:
            raise Invalid(
                f"replacement {short(replacement)} has a {found[0]} that is followed by no number; write \\{found[0]}"
            )
        letter = found[1]
        return f"\\{found[2]}" if letter is None else letter.replace("\\", "\\\\")

    return _REPLACED.sub(said, replacement)


def check_pattern(pattern: str) -> str:
    """Return a regular expression.

    Raises:
        Invalid: No engine reads it; says why, and where.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except re.error as error:
        if error.msg.startswith(_WRONG) and _OTHERWISE_IN_JAVA.search(pattern) is None:
            raise Invalid(
                f"{short(pattern)} is not a regular expression: {error.msg}, at character {(error.pos or 0) + 1}"
            ) from None
    except (OverflowError, RecursionError):
        raise Invalid(
            f"{short(pattern)} is not a regular expression that can be read: it repeats or nests too much"
        ) from None
    return pattern
