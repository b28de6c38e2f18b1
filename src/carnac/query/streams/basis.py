"""What the answer of a statement rests on: its text as the parser prints it, segments, columns, small tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from carnac.ports.queries import QueryBasis
from carnac.query.bucketing import without_floor_to
from carnac.query.streams.sums import find_sums
from carnac.query.syntax import Node, parse, unparse, walk

if TYPE_CHECKING:
    import duckdb

    from carnac.core.segments.segment import ColumnType
    from carnac.query.planning import Plan

VOLATILE = frozenset(
    (
        "age", "ago", "current_date", "current_localtime", "current_localtimestamp", "current_time",
        "current_timestamp", "gen_random_uuid", "get_current_time", "get_current_timestamp", "localtime",
        "localtimestamp", "now", "random", "reservoir_quantile", "today", "transaction_timestamp", "uuid", "uuidv4",
        "uuidv7",
    )
)  # fmt: skip
"""Functions of the time and of chance; some can be written without parentheses, like a column."""


def basis_of(cursor: duckdb.DuckDBPyConnection, sql: str, plan: Plan) -> QueryBasis:
    """Return what the answer of a planned statement rests on."""
    prefix, statement = parse(cursor, without_floor_to(sql))
    seen = _names_seen(statement)
    columns: dict[str, dict[str, ColumnType]] = {}
    for scan in plan.scans:
        columns.setdefault(scan.datasource, {}).update(
            {
                name: kind
                for name, kind in scan.columns.items()
                if seen is None or name.lower() in seen
            }
        )
    slices = {(one.segment.segment_id, one.clip) for scan in plan.scans for one in scan.slices}
    return QueryBasis(
        statement=prefix + unparse(cursor, statement),
        slices=sorted(slices, key=lambda item: (item[0], str(item[1]))),
        columns=columns,
        tables=tuple(plan.tables.values()),
        is_volatile=bool(prefix) or any(map(is_volatile, walk(statement["node"]))),
        segments_total=plan.segments_total,
        sums=None if prefix else find_sums(statement),
    )


def is_volatile(node: Node) -> bool:
    """Whether a node depends on the time or on chance."""
    if node.get("sample") is not None:
        return True
    kind = node.get("class")
    if kind in {"FUNCTION", "WINDOW"}:
        return str(node["function_name"]).lower() in VOLATILE
    return (
        kind == "COLUMN_REF"
        and len(node["column_names"]) == 1
        and str(node["column_names"][0]).lower() in VOLATILE
    )


def _names_seen(statement: Node) -> set[str] | None:
    """Return the names, in lower case, among which are those of all columns that matter; None: all columns do."""
    names: set[str] = set()
    tables: set[str] = set()
    alone: set[str] = set()
    for node in walk(statement["node"]):
        marks = [node.get("class"), node.get("type"), node.get("ref_type")]
        if any(mark in marks for mark in ("STAR", "PIVOT", "SHOW_REF", "NATURAL", "POSITIONAL")):
            return None
        names.update(str(name).lower() for name in node.get("using_columns") or ())
        if node.get("class") == "COLUMN_REF":
            path = [str(name).lower() for name in node["column_names"]]
            names.update(path)
            alone.update(path if len(path) == 1 else ())
        tables.update(_table_names(node))
    return None if alone & tables else names  # a table's name alone is its whole row


def _table_names(node: Node) -> Iterator[str]:
    if "class" in node or "type" not in node:
        return
    for key in ("alias", "table_name"):
        if isinstance(node.get(key), str) and node[key]:
            yield node[key].lower()
