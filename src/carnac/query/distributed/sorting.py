"""Whether servers can answer a SELECT alone: the conditions, and the reason if one of them is not met.

One round gives rows of one datasource, each on exactly one server, with values that are computed from that row; or
aggregates of the rows whose parts make the whole. Small tables may be joined to the rows, as each server gets them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from carnac.query.distributed.aggregates import (
    CLOCK_READERS,
    CLOCKS,
    SPREADING,
    VOLATILE,
    function_name,
    is_aggregate,
)
from carnac.query.distributed.naming import Names, NotOneRound, key_of, names_of
from carnac.query.relations import Scope
from carnac.query.syntax import ROW_EXPRESSIONS, Node, walk

_EXPRESSIONS = ROW_EXPRESSIONS | {"COLUMN_REF", "LAMBDA", "STAR"}
_WORDS = {
    "COLLATE": "a collation",
    "LAMBDA_REF": "a lambda",
    "POSITIONAL_REFERENCE": "a column by its position",
    "SUBQUERY": "a subquery",
    "WINDOW": "a window function",
}
_MODIFIERS = frozenset({"DISTINCT_MODIFIER", "LIMIT_MODIFIER", "ORDER_MODIFIER"})
SMALL_ROWS_MAX = 100_000
"""Maximum number of rows of the small tables that go along with a statement: lookups, and tables asked for first."""
ALONG = "__carnac_along_"
"""How the names of tables begin that are asked for first."""


@dataclass(frozen=True, slots=True)
class Select:
    """A SELECT that may be one round.

    Attributes:
        node: Its tree.
        view: The scan that it reads.
        small: The small tables that are joined to it, by name.
        names: Names that it knows.
        modifiers: DISTINCT, ORDER BY and LIMIT, by their types.
        count: Gives the whole number that a constant expression is; None: it is none.
    """

    node: Node
    view: str
    small: frozenset[str]
    names: Names
    modifiers: Mapping[str, Node]
    count: Callable[[Node], int | None]

    @property
    def is_aggregated(self) -> bool:
        """Whether it gives groups, not rows."""
        return _is_aggregated(self.node, self.modifiers)

    @property
    def gives_all_rows(self) -> bool:
        """Whether it gives each row that meets its conditions."""
        return not self.is_aggregated and not self.modifiers

    def place_of(self, expression: Node, items: list[Node]) -> int | None:
        """Return the place in the select list that an expression of ORDER BY means; None: it means none.

        Args:
            items: The select list in one form.

        Raises:
            NotOneRound: It may mean several.
        """
        if expression["type"] == "VALUE_CONSTANT":
            literal = expression["literal"]
            return int(literal["text"]) - 1 if literal.get("kind") == "INTEGER" else None
        if expression["class"] == "COLUMN_REF" and len(expression["column_names"]) == 1:
            places = self.names.aliased(str(expression["column_names"][0]))
            if len(places) > 1:
                raise NotOneRound(
                    f"'{expression['column_names'][0]}' is an alias of several columns"
                )
            if places:
                return places[0]
        key = key_of(self.names.told_or_ambiguous(expression))
        return next((i for i, item in enumerate(items) if key_of(item) == key), None)

    @property
    def rows_max(self) -> int | None:
        """How many rows matter, those to skip among them; None: all.

        Raises:
            NotOneRound: It depends on rows.
        """
        limit = self.modifiers.get("LIMIT_MODIFIER")
        if limit is None:
            return None
        counts = [self._count(limit[key]) for key in ("limit", "offset")]
        if limit["limit_type"] != "ROW_COUNT" or counts[0] is None:
            return None
        return counts[0] + (counts[1] or 0)

    def _count(self, node: Node | None) -> int | None:
        if node is None:
            return None
        found = self.count(node)
        if found is None or found < 0:
            raise NotOneRound("its limit is not a plain number")
        return found


def reading_selects(
    statement: Node, selects: Sequence[tuple[Node, Scope]], views: frozenset[str]
) -> list[tuple[Node, Scope]]:
    """Return the SELECTs in a statement that read scans themselves; the rest of it needs only the rows that they give.

    Raises:
        NotOneRound: The columns of the statement depend on rows.
    """
    for one in walk(statement["node"]):
        kind = one.get("type")
        if kind in ("PIVOT", "SHOW_REF"):
            raise NotOneRound("it asks for columns that depend on rows")
    return [(node, scope) for node, scope in selects if sources_of(node["from_table"], views)]


def sources_of(source: Node, views: frozenset[str]) -> list[Node]:
    """Return the nodes of a FROM clause that name scans."""
    if source["type"] == "JOIN":
        return sources_of(source["left"], views) + sources_of(source["right"], views)
    is_scan = source["type"] == "BASE_TABLE" and source["table_name"] in views
    return [source] if is_scan else []


def select_of_one_round(
    node: Node,
    scope: Scope,
    views: frozenset[str],
    small: Mapping[str, Mapping[str, Any]],
    count: Callable[[Node], int | None],
) -> Select:
    """Return the SELECT that servers can answer, if they can.

    Args:
        scope: Relations of its FROM clause.
        views: Names of scans.
        small: Columns of small tables, by name.

    Raises:
        NotOneRound: They cannot.
    """
    if node["cte_map"]["map"]:
        raise NotOneRound("it has a common table expression")
    modifiers = {one["type"]: one for one in node["modifiers"]}
    is_grouped = _is_aggregated(node, modifiers)
    _check_expressions(node, is_grouped=is_grouped)
    used = _tables_of_rows(node["from_table"], views)
    if used - views - small.keys():
        raise NotOneRound("it joins a common table expression")
    [view] = used & views
    rows = [max(map(len, small[name].values()), default=0) for name in used - views]
    if sum(rows) > SMALL_ROWS_MAX:
        raise NotOneRound(f"it joins more than {SMALL_ROWS_MAX:,} rows of lookups")
    if node["sample"] is not None:
        raise NotOneRound("it takes a sample")
    if node["qualify"] is not None and not is_grouped:
        raise NotOneRound("QUALIFY needs window functions")
    names = names_of(scope, node["select_list"], small)
    distinct = modifiers.get("DISTINCT_MODIFIER")
    if distinct is not None and distinct["distinct_on_targets"]:
        raise NotOneRound("DISTINCT ON picks rows by their order")
    if modifiers.keys() - _MODIFIERS or len(modifiers) != len(node["modifiers"]):
        raise NotOneRound("its limit is a share of the rows")
    return Select(node, view, used - views, names, modifiers, count)


def is_sent_along(subquery: Node) -> bool:
    """Whether a subquery only names a table that is asked for first."""
    node = subquery["subquery"]["node"]
    source = node["from_table"] if node["type"] == "SELECT_NODE" else {}
    return str(source.get("table_name", "")).startswith(ALONG)


def _is_aggregated(node: Node, modifiers: Mapping[str, Node]) -> bool:
    parts = [node["select_list"], node["qualify"], modifiers.get("ORDER_MODIFIER")]
    return bool(
        node["group_expressions"]
        or node["having"] is not None
        or node["aggregate_handling"] != "STANDARD_HANDLING"
        or any(is_aggregate(one) for one in walk(parts))
    )


def _check_expressions(node: Node, *, is_grouped: bool) -> None:
    """Refuse what servers may not compute; windows over groups are the broker's."""
    for one in walk(node):
        kind = one.get("class")
        if kind is None or (kind == "SUBQUERY" and is_sent_along(one)):
            continue
        if kind == "WINDOW" and is_grouped:
            continue
        if kind not in _EXPRESSIONS:
            raise NotOneRound(f"it has {_WORDS.get(kind, kind.lower())}")
        if kind == "LAMBDA" and one["syntax_type"] != "LAMBDA_KEYWORD":
            raise NotOneRound("an arrow may be a lambda, or a part of a document")
        if one["type"] == "GROUPING_FUNCTION":
            raise NotOneRound("it asks which grouping set a row is of")
        name = function_name(one)
        if name in VOLATILE | CLOCKS | CLOCK_READERS:
            raise NotOneRound(f"{name} gives another value on each server")
        if name in SPREADING:
            raise NotOneRound(f"{name} makes several rows of one")
        if name in {"grouping", "grouping_id"}:
            raise NotOneRound("it asks which grouping set a row is of")


def _tables_of_rows(node: Node, views: frozenset[str]) -> frozenset[str]:
    """Return the tables of a FROM clause of which each row holds exactly one row of a scan.

    Raises:
        NotOneRound: It is another one.
    """
    kind = node["type"]
    if node["sample"] is not None:
        raise NotOneRound("it takes a sample")
    if kind == "BASE_TABLE":
        return frozenset({str(node["table_name"])})
    if kind == "SUBQUERY" and is_sent_along(node):
        return frozenset({str(node["subquery"]["node"]["from_table"]["table_name"])})
    if kind != "JOIN":
        raise NotOneRound("it reads from something else than datasources and lookups")
    left = _tables_of_rows(node["left"], views)
    right = _tables_of_rows(node["right"], views)
    manner, join = node["ref_type"], node["join_type"]
    if left & views and right & views:
        raise NotOneRound("it joins datasources")
    if not (left | right) & views or left & right:
        raise NotOneRound("it joins lookups with one another")
    is_left = bool(left & views)
    fitting = {"INNER", "LEFT", "SEMI", "ANTI"} if is_left else {"INNER", "RIGHT"}
    if manner not in {"REGULAR", "CROSS"} or join not in fitting:
        raise NotOneRound(f"it has a {str(join if manner == 'REGULAR' else manner).lower()} join")
    return left | right
