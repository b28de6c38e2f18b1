"""Columns with the schema of their table before its name, as Calcite and JDBC tools write them.

    SELECT "druid"."edits"."page" FROM "druid"."edits"
    SELECT edits.page FROM druid.edits

Tables become views without a schema, so their columns are named without one, too.
"""

from __future__ import annotations

from carnac.query.syntax import Node, walk


def without_schemas(statement: Node) -> None:
    """Leave out, in place, the schema before the columns of a table that has it in FROM, and no alias."""
    tables = {
        (str(one["schema_name"]).lower(), str(one["table_name"]).lower())
        for one in walk(statement["node"])
        if one.get("type") == "BASE_TABLE" and one["schema_name"] and not one["alias"]
    }
    for node in walk(statement["node"]) if tables else ():
        names = list[str](node["column_names"] if node.get("class") == "COLUMN_REF" else ())
        if len(names) > 2 and (str(names[0]).lower(), str(names[1]).lower()) in tables:
            node["column_names"] = names[1:]
