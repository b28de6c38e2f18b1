"""Which columns of a datasource a statement may need."""

from __future__ import annotations

from collections.abc import Mapping

from carnac.core.segments.segment import TIME_COLUMN, ColumnType
from carnac.query.syntax import Node, walk


def used_columns(statement: Node, columns: Mapping[str, ColumnType]) -> list[str]:
    """Return the columns of a datasource that a statement may need, `__time` among them, in order; one at least.

    A column that is named anywhere counts, whatever table is meant there.
    """
    names, aliases = set[str](), set[str]()
    for node in walk(statement["node"]):
        if _takes_all(node):
            return [TIME_COLUMN, *columns]
        if node.get("class") == "COLUMN_REF":
            names.update(str(name).lower() for name in node["column_names"])
        elif node.get("type") == "BASE_TABLE":
            aliases.add(str(node["alias"] or node["table_name"]).lower())
        elif node.get("type") == "JOIN":
            names.update(str(name).lower() for name in node["using_columns"])
    if names & aliases and any(
        len(node["column_names"]) == 1 and str(node["column_names"][0]).lower() in aliases
        for node in walk(statement["node"])
        if node.get("class") == "COLUMN_REF"
    ):
        return [TIME_COLUMN, *columns]  # a whole row may be meant
    found = [name for name in (TIME_COLUMN, *columns) if name.lower() in names]
    return found or [TIME_COLUMN]


def used_types(statement: Node, columns: Mapping[str, ColumnType]) -> dict[str, ColumnType]:
    """Return the columns that a statement may need, without `__time`: text about others is read for nothing."""
    found = used_columns(statement, columns)
    return {name: columns[name] for name in found if name in columns}


def _takes_all(node: Node) -> bool:
    """Whether a node may mean columns that it does not name."""
    kind = node.get("type")
    if kind == "BASE_TABLE":
        return bool(node["column_name_alias"])
    if kind == "JOIN":
        return bool(node["ref_type"] == "NATURAL")
    is_many = node.get("class") in {"STAR", "POSITIONAL_REFERENCE"}
    return is_many or kind == "PIVOT" or kind == "SHOW_REF"  # noqa: PLR1714 - a sample's is a tree
