"""Names and texts as SQL takes them, whatever characters they have."""

from __future__ import annotations

_WILD = str.maketrans({char: f"[{char}]" for char in "*?["})


def quote(name: str) -> str:
    """Return a name as an identifier of standard SQL, such as DuckDB's."""
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """Return a text as a literal of standard SQL."""
    return "'" + text.replace("'", "''") + "'"


def escape_glob(path: str) -> str:
    """Return a path in which nothing is a wild card."""
    return path.translate(_WILD)


def quote_path(path: object) -> str:
    """Return a path as a literal of DuckDB's, which takes the path of a file for a pattern."""
    return quote_text(escape_glob(str(path)))


def quote_for_spark(name: str) -> str:
    """Return a name as an identifier of Spark SQL."""
    return "`" + name.replace("`", "``") + "`"
