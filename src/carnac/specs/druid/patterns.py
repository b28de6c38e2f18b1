"""Regular expressions of specs, which Spark has Java read later: those that no engine reads are refused before."""

from __future__ import annotations

import re
import warnings

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
