"""Subqueries that are sides of a join, as tools write the tables that they join: the table is the side itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from carnac.query.rewriting.listing import (
    Beside,
    Context,
    Listed,
    Rows,
    Stays,
    changed,
    is_all,
    is_plain,
)
from carnac.query.syntax import Node, conjunction

_WHERE: Node = {}
"""Stands for the WHERE of a SELECT."""
_KEPT: Mapping[str, tuple[tuple[bool, bool], tuple[bool, bool]]] = {
    "INNER": ((True, True), (False, False)),
    "LEFT": ((True, False), (False, True)),
    "RIGHT": ((False, True), (True, False)),
    "FULL": ((False, False), (True, True)),
    "SEMI": ((True, False), (False, False)),
    "ANTI": ((True, False), (False, False)),
}
"""Whether a row of the left and of the right side that does not meet a condition is in no row of a join that meets it,
and whether a row of the join may have none of the left and of the right side."""


@dataclass(frozen=True, slots=True)
class _Side:
    """A table in a join.

    Attributes:
        goes_to: Where a condition on its rows may stand: `_WHERE`, or a join; None: nowhere.
        is_nullable: Whether all its columns are null in rows of the join that it has no row for.
    """

    table: Node
    goes_to: Node | None
    is_nullable: bool


def unwrap_sides(outer: Node, context: Context) -> None:
    """Replace, in place, the sides of a SELECT's join that are such subqueries of one table."""
    sides = list(_sides(outer["from_table"]))
    for side in sides:
        wrap = side.table
        if wrap["type"] != "SUBQUERY":
            continue
        with suppress(Stays):
            inner = wrap["subquery"]["node"]
            rows = _rows_of_side(wrap, context)
            condition = changed(inner["where_clause"], rows.put)
            goes_to = side.goes_to
            if condition is not None and (goes_to is None or goes_to.get("using_columns")):
                raise Stays
            if side.is_nullable and not all(map(_is_column, inner["select_list"])):
                raise Stays  # a row that finds no other has nulls, whatever a value is computed to
            others = [_beside(one.table, context) for one in sides if one is not side]
            if not is_all(inner):
                listed = Listed(inner, wrap["column_name_alias"], rows, others)
                outer.update(listed.put_into(outer))
            if condition is not None and goes_to is not None:
                part = "where_clause" if goes_to is _WHERE else "condition"
                goes = outer if goes_to is _WHERE else goes_to
                goes[part] = conjunction([one for one in (goes[part], condition) if one])
            wrap.clear()
            wrap.update(rows.shown)


def _sides(
    table: Node, goes_to: Node | None = _WHERE, *, is_nullable: bool = False
) -> Iterator[_Side]:
    """Yield the tables of a FROM clause.

    Raises:
        Stays: It joins in ways in which names or rows mean more.
    """
    if table["type"] != "JOIN":
        yield _Side(table, goes_to, is_nullable)
        return
    if table["ref_type"] not in {"REGULAR", "CROSS"} or table["sample"] is not None:
        raise Stays
    kept = _KEPT.get(table["join_type"])
    if kept is None:
        raise Stays
    for part, keeps, is_null in zip(("left", "right"), *kept, strict=True):
        side = table[part]
        to = goes_to if keeps else table if side["type"] != "JOIN" else None
        yield from _sides(side, to if any(kept[0]) else None, is_nullable=is_nullable or is_null)


def _rows_of_side(wrap: Node, context: Context) -> Rows:
    """Return what a subquery that is a side of a join reads.

    Raises:
        Stays: It is not plain, or may speak of other sides.
    """
    inner = wrap["subquery"]["node"]
    if wrap["sample"] is not None or not is_plain(inner) or not wrap["alias"]:
        raise Stays
    if inner["from_table"]["type"] != "BASE_TABLE" or (is_all(inner) and wrap["column_name_alias"]):
        raise Stays
    rows = Rows(inner["from_table"], str(wrap["alias"]), context)
    for item in [] if is_all(inner) else inner["select_list"]:
        changed(item, rows.put)
    return rows


def _beside(table: Node, context: Context) -> Beside:
    """Return what another side of the join is to a subquery."""
    name = str(table.get("alias") or table.get("table_name") or "").lower()
    if table["type"] == "BASE_TABLE":
        known = None if table["column_name_alias"] else context.columns_of(table)
        return Beside(table, name, None if known is None else frozenset(known), is_closed=True)
    columns, is_closed = None, False
    with suppress(Stays):
        if table["type"] != "SUBQUERY":
            raise Stays
        inner = table["subquery"]["node"]
        rows = _rows_of_side(table, context)
        changed(inner["where_clause"], rows.put)
        is_closed = True
        if not table["column_name_alias"]:
            columns = frozenset(Listed(inner, [], rows).shown)
    return Beside(table, name, columns, is_closed)


def _is_column(item: Node) -> bool:
    return item["class"] in {"COLUMN_REF", "STAR"}
