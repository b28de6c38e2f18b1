"""Subqueries that give all columns of one table, as dashboards wrap datasets: the table stands there itself.

    SELECT page, count(*) FROM (SELECT * FROM edits WHERE n > 1) AS virtual_table WHERE n < 9 GROUP BY page
    SELECT page, count(*) FROM edits AS virtual_table WHERE virtual_table.n > 1 AND n < 9 GROUP BY page

So servers answer such a statement each for itself, and what they have answered is kept.
"""

from __future__ import annotations

from typing import Any

from carnac.query.syntax import OF_THEIR_OWN, STAR_PARTS, Node, conjunction, walk

UNNAMED = "unnamed_subquery"
"""What DuckDB calls a subquery without a name."""
_EMPTY = ("group_expressions", "group_sets", "having", "qualify", "sample", "modifiers")


def unwrap(statement: Node) -> None:
    """Replace, in place, the FROM of each SELECT that is such a subquery, and nothing else."""
    for node in reversed(list(walk(statement["node"]))):  # what is within comes first
        if node.get("type") == "SELECT_NODE" and node["from_table"].get("type") == "SUBQUERY":
            _unwrap(node)


def _unwrap(outer: Node) -> None:
    wrap = outer["from_table"]
    inner = wrap["subquery"]["node"]
    if wrap["column_name_alias"] or not _is_plain(inner):
        return
    if wrap["sample"] is not None or outer["sample"] is not None:
        return  # of the rows that meet the inner condition
    table = inner["from_table"]
    if table["column_name_alias"] or table["sample"] is not None or table["at_clause"] is not None:
        return
    alias = str(wrap["alias"] or UNNAMED)
    condition = inner["where_clause"]
    if condition is not None:
        if any(one.get("class") in OF_THEIR_OWN for one in walk(condition)):
            return
        condition = _under(condition, str(table["alias"] or table["table_name"]), alias)
    both = [one for one in (condition, outer["where_clause"]) if one is not None]
    outer["from_table"] = table | {"alias": alias}
    outer["where_clause"] = conjunction(both)


def _is_plain(inner: Node) -> bool:
    """Whether a query gives all columns of some rows of one table."""
    if inner["type"] != "SELECT_NODE" or inner["from_table"]["type"] != "BASE_TABLE":
        return False
    if inner["cte_map"]["map"] or any(inner[part] for part in _EMPTY):
        return False
    item = inner["select_list"][0]
    is_all = item["class"] == "STAR" and not any(item.get(part) for part in STAR_PARTS)
    return is_all and len(inner["select_list"]) == 1


def _under(part: Any, old: str, new: str) -> Any:
    """Return a condition in which the columns of a table have its new name before their own."""
    if isinstance(part, list):
        return [_under(one, old, new) for one in part]
    if not isinstance(part, dict):
        return part
    if part.get("class") == "COLUMN_REF" and str(part["column_names"][0]).lower() == old.lower():
        names = part["column_names"]
        return part | {"column_names": [new, *names[1:]]} if len(names) > 1 else part
    return {key: _under(one, old, new) for key, one in part.items()}
