"""Where tables stand in a statement, and which of its conditions speak of each one.

A condition counts for a table only where leaving out rows that do not satisfy it cannot change the answer: WHERE of
the same SELECT, ON of inner joins, ON of outer joins for the side that may be null. For a side that may be null, a
condition of WHERE counts only if null does not satisfy it. Tables under a sample, an ASOF or a positional join, where
every row has a say, get no conditions.

A condition on what a subquery or a common table gives counts inside of it, too: not under a LIMIT, a window or several
grouping sets, where other rows would change, and not for a common table that stands in FROM twice. Of UNION and its
kind, conditions on times count alone: other columns may have another type there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from carnac.core.pruning.predicates import ANYTHING, Predicate, all_of
from carnac.core.segments.segment import TIME_COLUMN
from carnac.query.folding import CLOCK_WORDS
from carnac.query.syntax import (
    NOWHERE,
    OF_THEIR_OWN,
    STAR_PARTS,
    Node,
    arguments,
    constant,
    walk,
    walk_here,
)

Visible = Mapping[str, "Source | None"]
"""Common tables that can be named, by their lower-case names; None: nothing is known of what one gives."""
Columns = Mapping[str, str]
"""Column names by their lower-case form."""
Translate = Callable[[Node, "Relation", "Scope"], Predicate]
_TRUNCATIONS = frozenset(("date_trunc", "datetrunc"))
_ELSEWHERE: Node = {"class": "COLUMN_REF", "type": "COLUMN_REF", "column_names": ["__carnac_other"]}
"""A column of something else."""


@dataclass(eq=False, slots=True, kw_only=True)
class Relation:
    """Something that stands in FROM.

    Attributes:
        alias: Lower case.
        columns: None if they are not known (subqueries, functions, renamed columns).
        node: The BASE_TABLE node of a datasource; None for everything else.
        conditions: Those that rows of it must meet to matter, with the scope that their names are looked up in.
        source: What a subquery or a common table gives; None: nothing is known of that.
        asked: The conditions on what `source` gives: each with its scope, and whether all may be null there.
    """

    alias: str
    columns: Columns | None
    source: Source | None = None
    asked: list[tuple[Node, Scope, bool]] = field(default_factory=list)
    node: Node | None = None
    datasource: str = ""
    predicates: list[Predicate] = field(default_factory=list)
    conditions: list[tuple[Node, Scope]] = field(default_factory=list)
    is_nullable: bool = False
    is_blocked: bool = False

    @property
    def names(self) -> Columns:
        """The columns that are known, of a subquery too."""
        if self.columns is None and self.source is not None:
            return {name: name for name in self.source.outputs}
        return self.columns or {}

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
        column = relation.names.get(names[-1].lower()) if names else None
        if column is None:
            return None
        if len(names) == 1:
            owners = [one for one in self.relations if names[0].lower() in one.names]
            is_merged = self.merges_unknown or names[0].lower() in self.merged
            return None if is_merged or owners != [relation] else column
        if len(names) == 2:
            owners = [one for one in self.relations if one.alias == names[0].lower()]
            return column if owners == [relation] else None
        return None


class Output(NamedTuple):
    """A column of a SELECT.

    Attributes:
        name: Lower case; empty: DuckDB makes one.
        node: What it is: a column, or a time that is rounded; None: anything else.
        is_time: Whether it is the time of a datasource's rows, which may be rounded, in its own type.
    """

    name: str
    node: Node | None = None
    is_time: bool = False


class Source:
    """What a subquery or a common table gives.

    Attributes:
        listed: Its columns, in order.
        outputs: Those with a name of their own, by name.
        branches: The SELECTs whose rows these are: the scope of each, and what its columns are, by their names here.
        references: Where it stands in FROM.
    """

    def __init__(
        self, listed: Sequence[Output], branches: Sequence[tuple[Scope, Mapping[str, Node]]]
    ) -> None:
        count = Counter(one.name for one in listed)
        self.listed = listed
        self.outputs = {one.name: one for one in listed if one.name and count[one.name] == 1}
        self.branches = branches
        self.references: list[Relation] = []

    def under(self, listed: Sequence[Output], names: Mapping[str, str]) -> Source:
        """Return what its rows are as (a part of) rows with other columns.

        Args:
            names: New names of its columns, by the old ones.
        """
        branches = [
            (scope, {names[old]: node for old, node in shown.items() if old in names})
            for scope, shown in self.branches
        ]
        return Source(listed, branches)

    def renamed(self, names: Sequence[str]) -> Source:
        """Return the same with other names for its first columns."""
        lower = [name.lower() for name in names]
        listed = [one._replace(name=name) for one, name in zip(self.listed, lower, strict=False)]
        listed += self.listed[len(lower) :]
        pairs = zip(self.listed, listed, strict=True)
        return self.under(listed, {old.name: new.name for old, new in pairs if new.name})


def _united(sources: Sequence[Source], *, by_name: bool) -> Source:
    """Return what the rows of several are together; of its columns, times alone are known."""
    if by_name:
        names = dict.fromkeys(name for one in sources for name in one.outputs)
        rows = [[one.outputs.get(name) for one in sources] for name in names]
    else:
        rows = [[*row] for row in zip(*(one.listed for one in sources), strict=False)]
    listed, known = [], list[dict[str, str]]([{} for _ in sources])
    for row in rows:
        there = [one for one in row if one is not None]
        is_time = all(one.is_time for one in there)
        listed.append(there[0] if is_time else Output(there[0].name))
        for names_of, one in zip(known, row, strict=True):
            if one is not None and is_time:
                names_of[one.name] = there[0].name
    parts = [one.under(listed, names_of) for one, names_of in zip(sources, known, strict=True)]
    return Source(listed, [branch for part in parts for branch in part.branches])


def _parts(node: Node) -> list[Node]:
    """Return the queries that a query node is made of."""
    parts = [node[part] for part in ("left", "right", "query", "child") if node.get(part)]
    return parts + (node.get("children") or [])


def _combined(node: Node, sources: Sequence[Source | None]) -> Source | None:
    """Return what a query node gives whose parts give this."""
    known = [one for one in sources if one is not None]
    if node["type"] != "SET_OPERATION_NODE" or len(known) < len(sources):
        return None
    return _united(known, by_name=str(node["setop_type"]).endswith("BY_NAME"))


def _select_source(node: Node, scope: Scope) -> Source | None:
    """Return what a SELECT gives; None if its rows depend on one another, or nothing is known."""
    if node["sample"] is not None or node["qualify"] is not None or len(node["group_sets"]) > 1:
        return None
    if any(one.get("class") == "WINDOW" for one in walk_here(node["select_list"])):
        return None
    listed: list[Output] = []
    for item in node["select_list"]:
        if item["class"] != "STAR":
            names = item.get("column_names") or [""]
            name = str(item["alias"] or names[-1]).lower()
            listed.append(Output(name, *_meant(item, scope)))
            continue
        alias = str(item["relation_name"]).lower()
        relations = [one for one in scope.relations if alias in {"", one.alias}]
        is_merged = scope.merged or scope.merges_unknown
        if len(relations) != 1 or is_merged or any(item.get(part) for part in STAR_PARTS):
            return None
        [relation] = relations
        every: Iterable[str] = relation.columns or ()
        if relation.source is not None:
            every = [one.name for one in relation.source.listed]
        elif relation.columns is None:
            return None
        for name in every:
            column = _ELSEWHERE | {"column_names": [relation.alias, name]}
            listed.append(Output(name, *_meant(column, scope)))
    shown = Source(listed, ())
    known = {name: one.node for name, one in shown.outputs.items() if one.node is not None}
    return Source(listed, [(scope, known)])


def _meant(node: Node, scope: Scope) -> tuple[Node | None, bool]:
    """Return an expression that is a column, or one rounded, else None; and whether it is a time in its own type."""
    inner, is_cast = node, False
    while inner["class"] != "COLUMN_REF":
        if inner["class"] == "CAST":
            inner, is_cast = inner["child"], True
        elif inner.get("function_name") in _TRUNCATIONS and len(arguments(inner)) == 2:
            inner = arguments(inner)[1]
        else:
            return None, False
    for relation in scope.relations:
        name = scope.resolve(inner["column_names"], relation)
        if name is not None and relation.source is not None:
            return node | {"alias": ""}, relation.source.outputs[name].is_time and not is_cast
        if name is not None and relation.datasource:
            return node | {"alias": ""}, name == TIME_COLUMN and not is_cast
    return None, False


def _within(part: Any, outer: Scope, relation: Relation, shown: Mapping[str, Node]) -> Any:
    """Return a condition with what the columns of a subquery are in their place.

    What names no column stays the same object: values take the places of parameters later.
    """
    if isinstance(part, list):
        items = [_within(one, outer, relation, shown) for one in part]
        is_same = all(one is old for one, old in zip(items, part, strict=True))
        return part if is_same else items
    if not isinstance(part, dict):
        return part
    if part.get("class") == "COLUMN_REF":
        names = part["column_names"]
        if str(names[0]).lower() in CLOCK_WORDS and len(names) == 1:
            return part
        name = outer.resolve(names, relation)
        return _ELSEWHERE if name is None else shown.get(name, _ELSEWHERE)
    found = {key: _within(one, outer, relation, shown) for key, one in part.items()}
    return part if all(found[key] is one for key, one in part.items()) else found


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
        self._sources: list[Source] = []  # each after those that stand in it

    def visit(self, statement: Node) -> None:
        """Find the tables of a statement."""
        self._visit_query(statement["node"], {})
        for source in reversed(self._sources):
            self._pass_on(source)

    def _pass_on(self, source: Source) -> None:
        """Let the conditions on what a subquery gives count inside of it."""
        if len(source.references) != 1 or source.references[0].is_blocked:
            return
        [relation] = source.references
        for part, outer, is_nullable in relation.asked:
            if any(one.get("class") in OF_THEIR_OWN for one in walk(part)):
                continue
            for scope, shown in source.branches:
                with suppress(RecursionError):  # too deep to be copied: it counts outside alone
                    inside = _within(part, outer, relation, shown)
                    for one in scope.relations:
                        self._ask(one, inside, scope, is_nullable=is_nullable or one.is_nullable)

    def _visit_query(self, node: Node, visible: Visible) -> Source | None:
        """Find the tables of a query node in which common tables can be named; return what it gives."""
        for entry in node["cte_map"]["map"]:
            source = self._visit_query(entry["value"]["query_node"], visible)
            names = entry["value"]["aliases"]
            visible = {**visible, entry["key"].lower(): self._named(source, names)}
        if node["type"] == "SELECT_NODE":
            source = self._visit_select(node, visible)
        else:
            if node["type"] in {"RECURSIVE_CTE_NODE", "CTE_NODE"}:
                visible = {**visible, str(node["cte_name"]).lower(): None}
            sources = []
            for part in _parts(node):
                sources.append(self._visit_query(part, visible))  # noqa: PERF401 - a frame less for each of many
            self._visit_subqueries(node["modifiers"], visible)
            source = _combined(node, sources)
        is_whole = all(
            one["type"] == "ORDER_MODIFIER"
            or (one["type"] == "DISTINCT_MODIFIER" and not one["distinct_on_targets"])
            for one in node["modifiers"]
        )
        return source if is_whole else None

    def _named(self, source: Source | None, names: Sequence[str]) -> Source | None:
        """Return what stands in FROM under names of its own for columns, if there are some."""
        if source is None:
            return None
        made = source.renamed(names) if names else source
        self._sources.append(made)
        return made

    def _visit_select(self, node: Node, visible: Visible) -> Source | None:
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
        return _select_source(node, scope)

    def _visit_subqueries(self, part: Any, visible: Visible) -> None:
        for node in walk_here(part):
            if node.get("class") == "SUBQUERY":
                self._visit_query(node["subquery"]["node"], visible)
                self._visit_subqueries(node.get("child"), visible)

    def _visit_from(self, node: Node, visible: Visible, scope: Scope) -> list[Relation]:
        kind = node["type"]
        if kind == "EMPTY":
            return []
        if kind == "JOIN":
            relations = self._visit_join(node, visible, scope)
        elif kind == "BASE_TABLE":
            relations = [self._visit_table(node, visible)]
        else:
            relations = [self._visit_inner(node, visible)]
        if node["sample"] is not None:
            _block(relations)
        return relations

    def _visit_inner(self, node: Node, visible: Visible) -> Relation:
        """Find the tables inside a reference that hides them from the FROM clause it stands in."""
        kind, source = node["type"], None
        if kind == "SUBQUERY":
            source = self._visit_query(node["subquery"]["node"], visible)
            source = self._named(source, node["column_name_alias"])
        elif kind == "SHOW_REF" and node["query"] is not None:
            self._visit_query(node["query"], visible)
        elif kind == "PIVOT":
            self._visit_from(node["source"], visible, Scope())
        self._visit_subqueries(
            [part for key, part in node.items() if key not in {"subquery", "query", "source"}],
            visible,
        )
        return _reference(str(node["alias"]).lower(), source)

    def _visit_table(self, node: Node, visible: Visible) -> Relation:
        name = str(node["table_name"])
        alias = str(node["alias"] or name).lower()
        if not node["schema_name"] and not node["catalog_name"] and name.lower() in visible:
            relation = _reference(alias, visible[name.lower()])
            if node["column_name_alias"]:
                relation.source = None  # its columns have other names
            return relation
        columns, datasource = self._open_table(node)
        if node["column_name_alias"]:
            columns = None
        relation = Relation(alias=alias, columns=columns, node=node, datasource=datasource)
        self.found.append(relation)
        return relation

    def _visit_join(self, node: Node, visible: Visible, scope: Scope) -> list[Relation]:
        left = self._visit_from(node["left"], visible, scope)
        right = self._visit_from(node["right"], visible, scope)
        self._visit_subqueries(node["condition"], visible)
        kind, manner = node["join_type"], node["ref_type"]
        scope.merged.update(str(name).lower() for name in node["using_columns"])
        scope.merges_unknown |= manner == "NATURAL"
        if manner not in {"REGULAR", "NATURAL", "CROSS", "DEPENDENT"}:
            _block(right if manner == "ASOF" and kind in {"INNER", "LEFT"} else left + right)
        elif kind not in {"INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"}:
            _block(left + right)
        elif node["condition"] is not None:
            inside = Scope(left + right, scope.merged, scope.merges_unknown)
            on_left = left if kind in {"INNER", "RIGHT", "SEMI"} else []
            on_right = right if kind in {"INNER", "LEFT", "SEMI", "ANTI"} else []
            self._apply(node["condition"], on_left + on_right, inside)
        for relation in (left if kind in {"RIGHT", "FULL"} else []) + (
            right if kind in {"LEFT", "FULL"} else []
        ):
            relation.is_nullable = True
        return left if kind in {"SEMI", "ANTI"} else left + right

    def _apply(self, condition: Node, relations: list[Relation], scope: Scope) -> None:
        for relation in relations:
            for part in conjuncts(condition):
                self._ask(relation, part, scope, is_nullable=relation.is_nullable)

    def _ask(self, relation: Relation, part: Node, scope: Scope, *, is_nullable: bool) -> None:
        """Let a condition count for a relation."""
        if relation.source is not None:
            relation.asked.append((part, scope, is_nullable))
        elif relation.datasource:
            if not is_nullable:
                relation.conditions.append((part, scope))
            predicate = self._translate(part, relation, scope)
            if not (is_nullable and is_satisfied_by_null(predicate)):
                relation.predicates.append(predicate)


def _reference(alias: str, source: Source | None) -> Relation:
    """Return what stands in FROM for a subquery or a common table."""
    relation = Relation(alias=alias, columns=None, source=source)
    if source is not None:
        source.references.append(relation)
    return relation


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
