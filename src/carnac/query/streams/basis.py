"""The basis of a statement's answer: its text as the parser prints it, segments, columns, small tables."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from carnac.ports.memo import Memo, key_of_values
from carnac.ports.queries import SLICE_BYTES, QueryBasis, revision_key
from carnac.query.dialect.clauses import without_clauses
from carnac.query.syntax import Node, parse, unparse, walk

if TYPE_CHECKING:
    import duckdb

    from carnac.core.segments.segment import ColumnType
    from carnac.query.planning import Plan


_SUMS = frozenset({"count", "count_star", "count_if", "countif", "sum"})
_OF_ONE_ROW = frozenset(
    (
        "coalesce", "date_part", "date_trunc", "day", "dayofweek", "floor", "hour", "lower", "ltrim", "minute", "month",
        "monthname", "quarter", "rtrim", "strftime", "substr", "substring", "time_bucket", "trim", "upper", "week",
        "year",
    )
)  # fmt: skip
"""Functions that groups are made by; others may be aggregates, and are not looked into."""
_ALLOWED = frozenset({"ORDER_MODIFIER"})
_EXPRESSIONS = frozenset({"CAST", "COLUMN_REF", "CONSTANT", "FUNCTION", "TYPE"})


def find_sums(statement: Node) -> Sequence[int] | None:
    """Return the places of the columns that are counts and sums, where all others are groups.

    Returns:
        None: The statement is of another kind.
    """
    node = statement["node"]
    if node["type"] != "SELECT_NODE" or node["from_table"]["type"] != "BASE_TABLE":
        return None
    if node["having"] or node["qualify"] or node["sample"] or node["cte_map"]["map"]:
        return None
    if len(node["group_sets"]) > 1 or any(one["type"] not in _ALLOWED for one in node["modifiers"]):
        return None
    if any(one.get("class") in {"SUBQUERY", "WINDOW", "STAR"} for one in walk(node)):
        return None
    sums = []
    for place, item in enumerate(node["select_list"]):
        if _is_sum(item):
            sums.append(place)
        elif not _is_group(item):
            return None
    return sums or None


def _is_sum(item: Node) -> bool:
    return (
        item.get("class") == "FUNCTION"
        and str(item["function_name"]).lower() in _SUMS
        and not item["distinct"]
    )


def _is_group(item: Node) -> bool:
    for node in walk(item):
        kind = node.get("class")
        if kind is not None and kind not in _EXPRESSIONS:
            return False
        if kind == "FUNCTION" and str(node["function_name"]).lower() not in _OF_ONE_ROW:
            return False
    return True


TEXTS_MAX = 1_000
TEXT_CHARS = 4 << 20
BASES_BYTES = 100 << 20
"""Maximum memory of all bases that are kept."""


@dataclass(frozen=True, slots=True)
class _Text:
    """The facts that a statement's text tells alone.

    Attributes:
        printed: As the parser prints it.
        seen: See `_names_seen`.
        sums: See `QueryBasis`.
    """

    printed: str
    seen: Set[str] | None
    sums: Sequence[int] | None


_TEXTS: Memo[str, _Text] = Memo(
    values_max=TEXTS_MAX,
    weight_max=TEXT_CHARS,
    weigh=lambda sql, text: len(sql) + len(text.printed),
)

_BASES: Memo[Hashable, QueryBasis] = Memo(
    values_max=TEXTS_MAX,
    weight_max=BASES_BYTES,
    weigh=lambda _, one: SLICE_BYTES * len(one.slices) + 3 * len(one.statement),
)


def _read(cursor: duckdb.DuckDBPyConnection, sql: str) -> _Text:
    prefix, statement = parse(cursor, without_clauses(sql))
    return _Text(
        printed=prefix + unparse(cursor, statement),
        seen=_names_seen(statement),
        sums=None if prefix else find_sums(statement),
    )


def basis_of(cursor: duckdb.DuckDBPyConnection, sql: str, plan: Plan) -> QueryBasis:
    """Return what the answer of a planned statement rests on."""
    text = _TEXTS.get(sql, lambda: _read(cursor, sql))
    values, catalog = key_of_values(plan.parameters), plan.catalog
    if values is None or not catalog.store_id or _is_volatile(plan):
        return _made(text, plan)
    key = (*revision_key(catalog), sql, values)
    return _BASES.get(key, lambda: _made(text, plan))


def _made(text: _Text, plan: Plan) -> QueryBasis:
    columns: dict[str, dict[str, ColumnType]] = {}
    for scan in plan.scans:
        columns.setdefault(scan.datasource, {}).update(
            {
                name: kind
                for name, kind in scan.columns.items()
                if text.seen is None or name.lower() in text.seen
            }
        )
    slices = {(one.segment.segment_id, one.clip) for one in plan.slices}
    return QueryBasis(
        statement=text.printed,
        slices=sorted(slices, key=lambda item: (item[0], str(item[1]))),
        columns=columns,
        tables=() if plan.is_live else tuple(plan.tables.values()),
        is_volatile=_is_volatile(plan),
        segments_total=plan.segments_total,
        sums=text.sums,
    )


def _is_volatile(plan: Plan) -> bool:
    """See `QueryBasis`; the plan knows what functions of Druid the statement calls."""
    return plan.is_volatile or plan.is_live or plan.is_explain


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
