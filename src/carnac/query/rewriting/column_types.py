"""Types of the columns that a statement names, each where it stands.

Those of datasources are known. A column of a subquery or of a common table expression has the type of the column that
it passes on, and a sketch if one is made there. All others have none: nobody needs to know the type of a sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from carnac.core.segments.segment import ColumnType
from carnac.query.syntax import Node, arguments, walk_here

Columns = list[tuple[str, ColumnType | None]]
"""Names in lower case and types, in order."""
Scope = list[tuple[str, Columns]]
"""What stands in a FROM clause: aliases in lower case, and columns."""
Scopes = Sequence[Scope]
"""From the inside to the outside."""
_PASSING = frozenset(
    {"OPERATOR_COALESCE", "OPERATOR_TRY", "ARRAY_CONSTRUCTOR", "ARRAY_EXTRACT", "ARRAY_SLICE"}
)
"""Operators that give a value that they are given, or a list of such."""
_SPENDING = frozenset(
    [
        *(
            "approx_count_distinct",
            "base64",
            "bit_length",
            "count",
            "count_if",
            "countif",
            "hash",
            "hex",
        ),
        *(
            "len",
            "length",
            "list_contains",
            "list_count",
            "md5",
            "octet_length",
            "row",
            "sha1",
            "sha256",
        ),
        *(
            "array_apply",
            "array_reduce",
            "array_transform",
            "list_apply",
            "list_reduce",
            "list_transform",
        ),
        *("strlen", "struct_extract", "struct_pack", "to_base64", "to_hex", "typeof"),
    ]
)
"""Functions that make something else of what they are given. Any other gives a sketch if it is given one: where that is
wrong, an error says so, and a sketch that counts as a value would be counted in silence."""


@dataclass(slots=True)
class ColumnTypes:
    """Finds types.

    Args:
        tables: Columns of datasources, by the identity of the node that names one.
        made: Types that functions give, by name in lower case; None: of no column.
    """

    tables: Mapping[int, Mapping[str, ColumnType]]
    made: Mapping[str, ColumnType | None]
    _found: dict[int, ColumnType | None] = field(default_factory=dict)

    def is_known(self, node: Node) -> bool:
        """Whether a column of that name is there."""
        return id(node) in self._found

    def of(self, node: Node) -> ColumnType | None:
        """Return the type of an expression; None: it has none here."""
        if id(node) in self._found:
            return self._found[id(node)]
        kind = node.get("class")
        if kind in {"FUNCTION", "WINDOW"}:
            name = str(node["function_name"]).lower()
            spends = name in _SPENDING or name in self.made
            return self.made.get(name) if spends else self._first(arguments(node))
        if kind == "CASE":
            return self._first(
                [*(one["then_expr"] for one in node["case_checks"]), node["else_expr"]]
            )
        if kind == "CAST":
            is_blob = str(node["type_expr"].get("type_name")).lower() in {"blob", "bytea"}
            return self._first([node["child"]]) if is_blob else None
        return self._first(node["children"]) if node.get("type") in _PASSING else None

    def _first(self, nodes: Sequence[Node | None]) -> ColumnType | None:
        """Return the type of the first sketch; other values that stand together may have one type for all of them."""
        types = (self.of(one) for one in nodes if one is not None)
        return next((one for one in types if one is not None and one.is_sketch), None)

    def visit(
        self, node: Node, named: Mapping[str, Columns] | None = None, outer: Scopes = ()
    ) -> Columns:
        """Find the types in a query node; return its columns.

        Args:
            named: Common table expressions that it may name, by name in lower case.
            outer: FROM clauses around it.
        """
        seen = dict(named or {})
        for entry in node["cte_map"]["map"]:
            columns = self.visit(entry["value"]["query_node"], seen, outer)
            seen[str(entry["key"]).lower()] = _renamed(columns, entry["value"]["aliases"])
        if node["type"] == "SELECT_NODE":
            return self._select(node, seen, outer)
        parts: list[Columns] = []
        for name in ("query", "left", "right", "child"):
            if node.get(name):
                parts.append(self.visit(node[name], seen, outer))
                if len(parts) == 1 and node.get("cte_name"):
                    seen[str(node["cte_name"]).lower()] = parts[0]
        parts += [self.visit(child, seen, outer) for child in node.get("children") or ()]
        if node["type"] == "CTE_NODE":
            return parts[-1]
        is_by_name = str(node.get("setop_type")) == "UNION_BY_NAME"
        return _by_name(parts) if is_by_name else _by_place(parts)

    def _select(self, node: Node, named: Mapping[str, Columns], outer: Scopes) -> Columns:
        scope: Scope = []
        self._from(node["from_table"], named, scope, outer)
        scopes = [scope, *outer]
        for key, part in node.items():
            if key not in {"from_table", "cte_map"}:
                self._look(part, named, scopes)
        return [column for item in node["select_list"] for column in self._shown(item, scope)]

    def _shown(self, item: Node, scope: Scope) -> Iterator[tuple[str, ColumnType | None]]:
        if item.get("class") != "STAR":
            names = item.get("column_names") or [""]
            yield str(item["alias"] or names[-1]).lower(), self.of(item)
            return
        owner = str(item.get("relation_name") or "").lower()
        replaced = {str(one["key"]).lower(): one["value"] for one in item.get("replace_list") or ()}
        left_out = {str(one).lower() for one in item.get("exclude_list") or ()}
        renamed = {
            str(one["key"]["column"]).lower(): str(one["value"]).lower()
            for one in item.get("rename_list") or ()
        }
        for alias, columns in scope:
            for name, kind in columns if owner in {"", alias} else ():
                if name not in left_out:
                    shown = self.of(replaced[name]) if name in replaced else kind
                    yield renamed.get(name, name), shown

    def _from(self, node: Node, named: Mapping[str, Columns], scope: Scope, outer: Scopes) -> None:
        kind, columns = node["type"], Columns()
        if kind == "JOIN":
            self._from(node["left"], named, scope, outer)
            self._from(node["right"], named, scope, outer)
            self._look(node["condition"], named, [scope, *outer])
            return
        if kind == "BASE_TABLE":
            table = str(node["table_name"]).lower()
            if not node["schema_name"] and not node["catalog_name"] and table in named:
                columns = named[table]
            else:
                known = self.tables.get(id(node), {})
                columns = [(name.lower(), one) for name, one in known.items()]
        elif kind == "SUBQUERY":
            columns = self.visit(node["subquery"]["node"], named, [scope, *outer])
        else:
            inner: Scope = []
            if kind == "PIVOT":
                self._from(node["source"], named, inner, outer)
            rest = [part for key, part in node.items() if key not in {"source", "query"}]
            self._look(rest, named, [inner, scope, *outer])
            if kind == "TABLE_FUNCTION":
                columns = [("unnest", self.of(node["function"]))]
        alias = str(node.get("alias") or node.get("table_name") or "").lower()
        scope.append((alias, _renamed(columns, node.get("column_name_alias") or ())))

    def _look(self, part: Any, named: Mapping[str, Columns], scopes: Scopes) -> None:
        """Find the columns that expressions name."""
        for node in walk_here(part):
            if node.get("class") == "COLUMN_REF":
                names = [str(one).lower() for one in node["column_names"]]
                known = next((one for scope in scopes for one in _named(names, scope)), None)
                if known is not None:
                    self._found[id(node)] = known[1]
            elif node.get("class") == "SUBQUERY":
                columns = self.visit(node["subquery"]["node"], named, scopes)
                self._found[id(node)] = columns[0][1] if columns else None
                self._look(node.get("child"), named, scopes)


def _named(names: Sequence[str], scope: Scope) -> Columns:
    """Return the columns of a FROM clause that a name may mean."""
    owner = names[-2] if len(names) > 1 else None
    return [
        column
        for alias, columns in scope
        for column in columns
        if column[0] == names[-1] and owner in {None, alias}
    ]


def _renamed(columns: Columns, aliases: Sequence[object]) -> Columns:
    given = [(str(alias).lower(), kind) for alias, (_, kind) in zip(aliases, columns, strict=False)]
    return [*given, *columns[len(given) :]]


def _by_place(parts: Sequence[Columns]) -> Columns:
    """Return the columns of a set operation, which have the names of its first part."""
    found = list(parts[0]) if parts else []
    for part in parts[1:]:
        pairs = zip_longest(found, part[: len(found)], fillvalue=("", None))
        found = [(name, _common(kind, other)) for (name, kind), (_, other) in pairs]
    return found


def _common(one: ColumnType | None, other: ColumnType | None) -> ColumnType | None:
    """Return the type of values of two; a sketch may stand beside nulls."""
    sketch = next((kind for kind in (one, other) if kind is not None and kind.is_sketch), None)
    return sketch or (one if one == other else None)


def _by_name(parts: Sequence[Columns]) -> Columns:
    found: dict[str, ColumnType | None] = {}
    for name, kind in (column for part in parts for column in part):
        found[name] = _common(found[name], kind) if name in found else kind
    return list(found.items())
