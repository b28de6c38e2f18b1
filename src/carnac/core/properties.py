"""Java's properties files, in which settings reach Spark: a command line can be read by everybody on a machine."""

from __future__ import annotations

import re
from collections.abc import Mapping

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
