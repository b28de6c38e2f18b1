"""The newest rows that match: files are read from the newest back until nothing older can matter.

`SELECT … WHERE … ORDER BY __time DESC LIMIT n` needs n rows, and a segment says how new its rows may be. So the times
of the matching rows at the end of the newest file are looked up, then those of the newest few files; where there are n
of them, rows older than the n-th time are none of those wanted, whatever else they are ordered by, and are not read,
nor are files of which every row is. The same goes for the oldest rows. After a quarter of the rows in vain everything
is read, so a condition that few rows meet costs little more than before.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from carnac.core.segments.segment import TIME_COLUMN
from carnac.core.time.intervals import MAX_MS, MIN_MS, Interval, IntervalSet
from carnac.ports.queries import LeafSlice
from carnac.query.functions import is_volatile
from carnac.query.relations import Scope
from carnac.query.rewriting.bucketing import ROW_FUNCTIONS
from carnac.query.syntax import ROW_EXPRESSIONS, Node, arguments, call, walk

MAX_ROWS = 10_000
"""Statements that want more rows are run as they are."""
NEAR_ROWS, NEAR_SHARE = 16_384, 16
"""About so many rows are looked at first, or so many for each that is wanted; files of fewer rows as a whole."""
MAX_SHARE = 4
"""At most one in so many rows is looked at before the statement runs."""
_EXPRESSIONS = ROW_EXPRESSIONS | {"COLUMN_REF", "STAR"}
"""Expressions that give one value for each row, always the same if their functions do."""
_ROW_OPERATORS = frozenset({"~~", "!~~", "~~*", "!~~*", "+", "-", "*", "/", "//", "%", "||"})
_PLAIN_FUNCTIONS = ROW_FUNCTIONS | _ROW_OPERATORS | {"lower", "upper", "starts_with", "contains"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeEdge:
    """The rows at one end of time that a statement wants.

    Attributes:
        sql: Gives the epoch microseconds of the rows that match, from that end on; a limit may be added.
        rows: How many are wanted, with those to skip among them.
    """

    sql: str
    rows: int
    is_newest: bool


def find_edge(
    statement: Node, selects: Sequence[tuple[Node, Scope]], printed: Callable[[Node], str]
) -> TimeEdge | None:
    """Return which end of time a statement wants the rows of; None if it wants anything else."""
    node = statement["node"]
    if len(selects) != 1 or selects[0][0] is not node or not _is_plain(node):
        return None
    [(_, scope)] = selects
    kinds = {one["type"]: one for one in node["modifiers"]}
    if kinds.keys() != {"ORDER_MODIFIER", "LIMIT_MODIFIER"} or len(scope.relations) != 1:
        return None
    order, limit = kinds["ORDER_MODIFIER"], kinds["LIMIT_MODIFIER"]
    first = order["orders"][0]
    rows, skipped = _count(limit["limit"]), _count(limit["offset"]) if limit["offset"] else 0
    if limit["limit_type"] != "ROW_COUNT" or not rows or skipped is None:
        return None
    if rows + skipped > MAX_ROWS or not _is_time(first["expression"], node, scope):
        return None
    wanted = copy.deepcopy(node)
    wanted["select_list"] = [call("epoch_us", [copy.deepcopy(first["expression"])])]
    # by `__time` itself, of which DuckDB finds the end in its own tables
    wanted["modifiers"] = [copy.deepcopy(order | {"orders": [first]})]
    is_newest = first["type"] == "DESCENDING"
    sql = printed(statement | {"node": wanted})
    return TimeEdge(sql=sql, rows=rows + skipped, is_newest=is_newest)


def narrowed(
    edge: TimeEdge,
    slices: Sequence[LeafSlice],
    times_of: Callable[[Sequence[LeafSlice]], list[int]],
    *,
    is_together: bool = False,
) -> Sequence[LeafSlice]:
    """Return the files, clipped, that may hold a row that is wanted.

    Args:
        times_of: Given files, the times of up to `edge.rows` of their matching rows, from the edge on.
        is_together: Whether one table in memory has all of them: DuckDB goes through that from its edge on by itself,
            a row group of 120,000 rows at a time, so that only the rows nearest to the edge are worth looking up.
    """

    def bound_us(piece: LeafSlice) -> int:
        """Return the newest (or oldest) time that a row of a file may have."""
        segment = piece.segment
        return segment.max_time_ms * 1000 + 999 if edge.is_newest else segment.min_time_ms * 1000

    ordered = sorted(slices, key=bound_us, reverse=edge.is_newest)
    left = sum(piece.segment.rows for piece in ordered) // MAX_SHARE
    if not ordered or ordered[0].segment.rows > left:
        return slices
    near_us = _near_us(edge, ordered[0])
    if near_us is not None:
        near = times_of([_clipped(edge, ordered[0], near_us)])
        if len(near) == edge.rows:
            return _within(edge, slices, bound_us, near[-1])
    if is_together:
        return slices
    found: list[int] = []
    start, count = 0, 1
    while True:
        probed = ordered[start : start + count]
        left -= sum(piece.segment.rows for piece in probed)
        if not probed or left < 0:
            return slices
        found = sorted([*found, *times_of(probed)], reverse=edge.is_newest)[: edge.rows]
        if len(found) == edge.rows:
            break
        start, count = start + count, 2 * count
    return _within(edge, slices, bound_us, found[-1])


def _near_us(edge: TimeEdge, piece: LeafSlice) -> int | None:
    """Return up to what time, from its edge on, a file has few rows if they are evenly spread; None: it has few."""
    segment, few = piece.segment, max(NEAR_ROWS, NEAR_SHARE * edge.rows)
    if segment.rows <= few:
        return None
    width_us = (segment.max_time_ms - segment.min_time_ms) * 1000 * few // segment.rows
    return (
        segment.max_time_ms * 1000 - width_us
        if edge.is_newest
        else segment.min_time_ms * 1000 + width_us
    )


def _within(
    edge: TimeEdge, slices: Sequence[LeafSlice], bound_us: Callable[[LeafSlice], int], last_us: int
) -> Sequence[LeafSlice]:
    """Return what may hold a row of that time, or nearer to the edge."""
    return [
        _clipped(edge, piece, last_us)
        for piece in slices
        if (bound_us(piece) >= last_us if edge.is_newest else bound_us(piece) <= last_us)
    ]


def _clipped(edge: TimeEdge, piece: LeafSlice, last_us: int) -> LeafSlice:
    """Return the rows of that time, and nearer to the edge, of a file."""
    last_ms = last_us // 1000
    kept = Interval(last_ms, MAX_MS) if edge.is_newest else Interval(MIN_MS, last_ms + 1)
    clip = IntervalSet((kept,))
    return replace(piece, clip=clip if piece.clip is None else piece.clip.intersect(clip))


def _is_plain(node: Node) -> bool:
    """Whether a statement gives one row for each row of one table that its conditions let pass."""
    if node["type"] != "SELECT_NODE" or node["from_table"]["type"] != "BASE_TABLE":
        return False
    if node["cte_map"]["map"] or node["group_expressions"] or node["group_sets"]:
        return False
    if node["aggregate_handling"] != "STANDARD_HANDLING" or node["from_table"]["sample"]:
        return False
    if any(node[key] is not None for key in ("having", "sample", "qualify")):
        return False
    parts = [node["select_list"], node["where_clause"], node["modifiers"]]
    return all(_is_by_row(one) for one in walk(parts) if "class" in one)


def _is_by_row(node: Node) -> bool:
    if is_volatile(node):
        return False
    if node["class"] == "FUNCTION":
        name = str(node["function_name"]).lower()
        return name in _PLAIN_FUNCTIONS and not node["schema"] and bool(arguments(node))
    if node["class"] == "STAR" and (node["replace_list"] or node["rename_list"]):
        return False
    return node["class"] in _EXPRESSIONS


def _is_time(node: Node, select: Node, scope: Scope) -> bool:
    """Whether an expression of ORDER BY is the table's `__time`, and not something that the select calls so."""
    if node["class"] != "COLUMN_REF" or not scope.relations[0].datasource:
        return False
    is_renamed = any(str(one["alias"]).lower() == TIME_COLUMN for one in select["select_list"])
    return not is_renamed and scope.resolve(node["column_names"], scope.relations[0]) == TIME_COLUMN


def _count(node: Node | None) -> int | None:
    literal = (node or {}).get("literal") or {}
    return int(literal["text"]) if literal.get("kind") == "INTEGER" else None
