"""Subqueries that give rows of a table or a join, as tools wrap datasets and models: the table stands there itself.

    SELECT page, count(*) FROM (SELECT * FROM edits WHERE n > 1) AS virtual_table WHERE n < 9 GROUP BY page
    SELECT page, count(*) FROM edits AS virtual_table WHERE virtual_table.n > 1 AND n < 9 GROUP BY page

    SELECT s.p, count(*) FROM (SELECT lower(page) AS p, n FROM edits) AS s GROUP BY s.p
    SELECT lower(s.page) AS p, count(*) FROM edits AS s GROUP BY lower(s.page)

    SELECT s.v FROM edits LEFT JOIN (SELECT k, v FROM lookup.pages WHERE v <> '') AS s ON page = s.k
    SELECT s.v FROM edits LEFT JOIN lookup.pages AS s ON page = s.k AND s.v <> ''

So servers answer such a statement each for itself, and what they have answered is kept.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from carnac.query.relations import Columns
from carnac.query.rewriting.listing import Context, Listed, Rows, Stays, is_all, is_plain
from carnac.query.rewriting.sides import unwrap_sides
from carnac.query.syntax import Node, conjunction, walk

UNNAMED = "unnamed_subquery"
"""What DuckDB calls a subquery without a name."""


def unwrap(statement: Node, context: Context) -> None:
    """Replace, in place, the FROM of each SELECT that is such a subquery, and nothing else."""
    defined = {
        str(entry["key"]).lower()
        for node in walk(statement["node"])
        for entry in (node.get("cte_map") or {}).get("map") or ()
    }

    def columns(table: Node) -> Columns | None:
        return None if str(table["table_name"]).lower() in defined else context.columns_of(table)

    known = replace(context, columns_of=columns)
    for node in reversed(list(walk(statement["node"]))):  # what is within comes first
        if node.get("type") != "SELECT_NODE":
            continue
        kind = node["from_table"].get("type")
        with suppress(Stays):
            if kind == "SUBQUERY":
                node.update(_unwrapped(node, known))
            elif kind == "JOIN":
                unwrap_sides(node, known)


def _unwrapped(outer: Node, context: Context) -> Node:
    """Return what becomes another in a SELECT around a subquery."""
    wrap = outer["from_table"]
    inner = wrap["subquery"]["node"]
    if wrap["sample"] is not None or outer["sample"] is not None:
        raise Stays  # of the rows that meet the inner condition
    if not is_plain(inner):
        raise Stays
    rows = Rows(inner["from_table"], str(wrap["alias"] or UNNAMED), context)
    found: Node = {}
    if rows.is_join or not is_all(inner):
        found = Listed(inner, wrap["column_name_alias"], rows).put_into(outer)
    elif wrap["column_name_alias"]:
        raise Stays
    condition = rows.moved(inner["where_clause"])
    both = [one for one in (condition, found.get("where_clause", outer["where_clause"])) if one]
    return found | {"from_table": rows.shown, "where_clause": conjunction(both)}
