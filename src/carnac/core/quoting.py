"""Names and texts as SQL takes them, whatever characters they have."""

from __future__ import annotations


def quote(name: str) -> str:
    """Return a name as an identifier of standard SQL, such as DuckDB's."""
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """Return a text as a literal of standard SQL."""
    return "'" + text.replace("'", "''") + "'"


def quote_for_spark(name: str) -> str:
    """Return a name as an identifier of Spark SQL."""
    return "`" + name.replace("`", "``") + "`"
