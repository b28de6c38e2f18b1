"""Conditions by which drivers list what INFORMATION_SCHEMA has: names, and patterns with % and _."""

from __future__ import annotations

from collections.abc import Sequence

Conditions = tuple[str, list[object]]
"""A WHERE clause, empty if there is none, and the values of its `?`."""


def of_schemas(catalog: str | None, schema_pattern: str | None) -> Conditions:
    """Return those of SCHEMATA; None: any."""
    return _where(("CATALOG_NAME = ?", catalog), ("SCHEMA_NAME LIKE ? ESCAPE '\\'", schema_pattern))


def of_tables(
    catalog: str | None,
    schema_pattern: str | None,
    table_pattern: str | None,
    column_pattern: str | None = None,
    *,
    kinds: Sequence[str] | None = None,
) -> Conditions:
    """Return those of TABLES and of COLUMNS; None: any.

    Args:
        kinds: The types of tables; an empty list: of none.
    """
    clause, values = _where(
        ("TABLE_CATALOG = ?", catalog),
        ("TABLE_SCHEMA LIKE ? ESCAPE '\\'", schema_pattern),
        ("TABLE_NAME LIKE ? ESCAPE '\\'", table_pattern),
        ("COLUMN_NAME LIKE ? ESCAPE '\\'", column_pattern),
    )
    if kinds is None:
        return clause, values
    places = ", ".join("?" for _ in kinds) or "NULL"
    joined = f"{clause} AND" if clause else " WHERE"
    return f"{joined} TABLE_TYPE IN ({places})", [*values, *kinds]


def _where(*conditions: tuple[str, str | None]) -> Conditions:
    said = [(text, value) for text, value in conditions if value is not None]
    clause = " AND ".join(text for text, _ in said)
    return f" WHERE {clause}" if clause else "", [value for _, value in said]
