"""Where tables stand in a statement, which of its conditions speak of each one, and which columns it may need.

A condition counts for a table only where leaving out rows that do not satisfy it cannot change the answer: WHERE of
the same SELECT, ON of inner joins, ON of outer joins for the side that may be null. For a side that may be null, a
condition of WHERE counts only if null does not satisfy it. Tables under a sample, an ASOF or a positional join, where
every row has a say, get no conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from carnac.core.pruning.predicates import ANYTHING, Predicate, all_of
from carnac.core.segments.segment import TIME_COLUMN, ColumnType
from carnac.query.syntax import NOWHERE, Node, constant, walk, walk_here

Columns = Mapping[str, str]
"""Column names by their lower-case form."""
Translate = Callable[[Node, "Relation", "Scope"], Predicate]


@dataclass(eq=False, slots=True, kw_only=True)
class Relation:
    """Something that stands in FROM.

    Attributes:
        alias: Lower case.
        columns: None if they are not known (subqueries, functions, renamed columns).
        node: The BASE_TABLE node of a datasource; None for everything else.
        conditions: Those that rows of it must meet to matter, with the scope that their names are looked up in.
    """

    alias: str
    columns: Columns | None
    node: Node | None = None
    datasource: str = ""
    predicates: list[Predicate] = field(default_factory=list)
    conditions: list[tuple[Node, Scope]] = field(default_factory=list)
    is_nullable: bool = False
    is_blocked: bool = False

    @property
    def predicate(self) -> Predicate:
        """All conditions on its rows together."""
        return ANYTHING if self.is_blocked else all_of(self.predicates)


@dataclass(eq=False, slots=True)
class Scope:
    """The relations of one FROM clause, and the columns that joins merge into one."""

    relations: list[Relation] = field(default_factory=list)
    merged: set[str] = field(default_factory=set)
    merges_unknown: bool = False

    def resolve(self, names: list[str], relation: Relation) -> str | None:
        """Return the column of `relation` that a reference means; None if it means another, or that is not certain."""
        if relation.columns is None or not names:
            return None
        column = relation.columns.get(names[-1].lower())
        if column is None:
            return None
        if len(names) == 1:
            owners = [
                one
                for one in self.relations
                if one.columns is not None and names[0].lower() in one.columns
            ]
            is_merged = self.merges_unknown or names[0].lower() in self.merged
            return None if is_merged or owners != [relation] else column
        if len(names) == 2:
            owners = [one for one in self.relations if one.alias == names[0].lower()]
            return column if owners == [relation] else None
        return None


class Tables:
    """Finds the tables of a statement.

    Args:
        open_table: Given a BASE_TABLE node that means no common table expression: its columns and its datasource's
            name (empty for tables of our own); raises if there is no such table.
        translate: Makes a predicate on a relation of a condition.
    """

    def __init__(
        self, open_table: Callable[[Node], tuple[Columns | None, str]], translate: Translate
    ) -> None:
        self._open_table = open_table
        self._translate = translate
        self.found: list[Relation] = []
        self.selects: list[tuple[Node, Scope]] = []

    def visit_query(self, node: Node, visible: frozenset[str] = frozenset()) -> None:
        """Find the tables of a query node in which the common table expressions `visible` can be named."""
        for entry in node["cte_map"]["map"]:
            self.visit_query(entry["value"]["query_node"], visible)
            visible |= {entry["key"].lower()}
        kind = node["type"]
        if kind == "SELECT_NODE":
            self._visit_select(node, visible)
            return
        if kind in {"RECURSIVE_CTE_NODE", "CTE_NODE"}:
            visible |= {str(node["cte_name"]).lower()}
        for part in ("left", "right", "query", "child"):
            if node.get(part):
                self.visit_query(node[part], visible)
        for child in node.get("children") or ():
            self.visit_query(child, visible)
        self._visit_subqueries(node["modifiers"], visible)

    def _visit_select(self, node: Node, visible: frozenset[str]) -> None:
        scope = Scope()
        self.selects.append((node, scope))
        scope.relations = self._visit_from(node["from_table"], visible, scope)
        if node["sample"] is not None:
            _block(scope.relations)
        if node["where_clause"] is not None:
            self._apply(node["where_clause"], scope.relations, scope)
        for key, part in node.items():
            if key not in {"from_table", "cte_map"}:
                self._visit_subqueries(part, visible)

    def _visit_subqueries(self, part: Any, visible: frozenset[str]) -> None:
        for node in walk_here(part):
            if node.get("class") == "SUBQUERY":
                self.visit_query(node["subquery"]["node"], visible)
                self._visit_subqueries(node.get("child"), visible)

    def _visit_from(self, node: Node, visible: frozenset[str], scope: Scope) -> list[Relation]:
        kind = node["type"]
        if kind == "EMPTY":
            return []
        if kind == "JOIN":
            relations = self._visit_join(node, visible, scope)
        elif kind == "BASE_TABLE":
            relations = [self._visit_table(node, visible)]
        else:
            relations = [Relation(alias=str(node["alias"]).lower(), columns=None)]
            self._visit_inner(node, visible)
        if node["sample"] is not None:
            _block(relations)
        return relations

    def _visit_inner(self, node: Node, visible: frozenset[str]) -> None:
        """Find the tables inside a reference that hides them from the FROM clause it stands in."""
        kind = node["type"]
        if kind == "SUBQUERY":
            self.visit_query(node["subquery"]["node"], visible)
        elif kind == "SHOW_REF" and node["query"] is not None:
            self.visit_query(node["query"], visible)
        elif kind == "PIVOT":
            self._visit_from(node["source"], visible, Scope())
        self._visit_subqueries(
            [part for key, part in node.items() if key not in {"subquery", "query", "source"}],
            visible,
        )

    def _visit_table(self, node: Node, visible: frozenset[str]) -> Relation:
        name = str(node["table_name"])
        alias = str(node["alias"] or name).lower()
        if not node["schema_name"] and not node["catalog_name"] and name.lower() in visible:
            return Relation(alias=alias, columns=None)
        columns, datasource = self._open_table(node)
        if node["column_name_alias"]:
            columns = None
        relation = Relation(alias=alias, columns=columns, node=node, datasource=datasource)
        self.found.append(relation)
        return relation

    def _visit_join(self, node: Node, visible: frozenset[str], scope: Scope) -> list[Relation]:
        left = self._visit_from(node["left"], visible, scope)
        right = self._visit_from(node["right"], visible, scope)
        self._visit_subqueries(node["condition"], visible)
        kind, manner = node["join_type"], node["ref_type"]
        scope.merged.update(str(name).lower() for name in node["using_columns"])
        scope.merges_unknown |= manner == "NATURAL"
        if manner not in {"REGULAR", "NATURAL", "CROSS", "DEPENDENT"}:
            _block(right if manner == "ASOF" and kind in {"INNER", "LEFT"} else left + right)
        elif kind not in {"INNER", "LEFT", "RIGHT", "OUTER", "SEMI", "ANTI"}:
            _block(left + right)
        elif node["condition"] is not None:
            inside = Scope(left + right, scope.merged, scope.merges_unknown)
            on_left = left if kind in {"INNER", "RIGHT", "SEMI"} else []
            on_right = right if kind in {"INNER", "LEFT", "SEMI", "ANTI"} else []
            self._apply(node["condition"], on_left + on_right, inside)
        for relation in (left if kind in {"RIGHT", "OUTER"} else []) + (
            right if kind in {"LEFT", "OUTER"} else []
        ):
            relation.is_nullable = True
        return left if kind in {"SEMI", "ANTI"} else left + right

    def _apply(self, condition: Node, relations: list[Relation], scope: Scope) -> None:
        for relation in relations:
            if relation.node is None or not relation.datasource:
                continue
            for part in conjuncts(condition):
                if not relation.is_nullable:
                    relation.conditions.append((part, scope))
                predicate = self._translate(part, relation, scope)
                if not (relation.is_nullable and is_satisfied_by_null(predicate)):
                    relation.predicates.append(predicate)


def conjuncts(condition: Node) -> list[Node]:
    """Return the conditions that AND joins."""
    if condition.get("type") != "CONJUNCTION_AND":
        return [condition]
    return [part for child in condition["children"] for part in conjuncts(child)]


def let_scans_match(condition: Node) -> None:
    """Rewrite, in place, each LIKE that AND joins, so that scans match it, in the order that proves best.

    DuckDB leaves LIKE with a constant beginning to a filter after the scan, for every row that all other conditions let
    pass; compared with true, it is one of the scan's conditions, and columns are read for the rows that are left.
    """
    for part in conjuncts(condition):
        if part.get("function_name") == "~~":
            like, true = dict(part), constant("BOOLEAN", "true")
            part.clear()
            part.update({"class": "COMPARISON", "type": "COMPARE_EQUAL", **NOWHERE})
            part.update({"left": like, "right": true})


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


def _block(relations: list[Relation]) -> None:
    for relation in relations:
        relation.is_blocked = True


def is_satisfied_by_null(predicate: Predicate) -> bool:
    """Whether a row of nulls only may satisfy the predicate."""
    from carnac.core.pruning.predicates import All, AnyOf, IsNull, OneOf

    match predicate:
        case All(parts):
            return all(is_satisfied_by_null(part) for part in parts)
        case AnyOf(parts):
            return any(is_satisfied_by_null(part) for part in parts)
        case IsNull(_, wanted):
            return wanted
        case OneOf(_, values):
            return None in values
        case _:
            return False
