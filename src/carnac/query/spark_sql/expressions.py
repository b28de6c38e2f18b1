"""Expressions in Spark's SQL, each with the type that DuckDB says it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from carnac.core.quoting import quote_for_spark
from carnac.query.distributed.aggregates import function_name, is_aggregate
from carnac.query.spark_sql.aggregates import aggregate, window
from carnac.query.spark_sql.calls import call_of
from carnac.query.spark_sql.kinds import (
    BOOLEAN,
    NULL,
    TEXT,
    TIMES,
    Kind,
    converted,
    is_number,
    literal,
    refuse,
    sortable,
    spark_type,
)
from carnac.query.spark_sql.typing import Oracle, is_constant
from carnac.query.syntax import Node

_COMPARISONS = {
    "COMPARE_EQUAL": "{0} = {1}",
    "COMPARE_NOTEQUAL": "{0} <> {1}",
    "COMPARE_LESSTHAN": "{0} < {1}",
    "COMPARE_GREATERTHAN": "{0} > {1}",
    "COMPARE_LESSTHANOREQUALTO": "{0} <= {1}",
    "COMPARE_GREATERTHANOREQUALTO": "{0} >= {1}",
    "COMPARE_NOT_DISTINCT_FROM": "{0} <=> {1}",
    "COMPARE_DISTINCT_FROM": "NOT ({0} <=> {1})",
}
_WORDS = {
    "COLLATE": "a collation",
    "LAMBDA": "a lambda",
    "POSITIONAL_REFERENCE": "a column by its position",
    "PARAMETER": "a parameter",
    "STAR": "a star inside of an expression",
}


Subqueries = Callable[[Node], tuple[str, Sequence[Kind]]]
"""Prints a query inside of an expression; returns it and the types of its columns."""


@dataclass(frozen=True, slots=True)
class Expressions:
    """Prints the expressions of one SELECT.

    Attributes:
        kinds: Types by the `id` of nodes.
        query: Prints a subquery.
    """

    oracle: Oracle
    kinds: Mapping[int, Kind]
    query: Subqueries

    def kind(self, node: Node) -> Kind:
        """Return the type that DuckDB gives an expression."""
        return self.kinds[id(node)]

    def made(self, node: Node, wanted: Kind) -> str:
        """Return an expression as a value of a type.

        Raises:
            NotInSpark: It cannot be one, or cannot be said.
        """
        if is_constant(node) and not wanted.endswith("[]"):
            return self.oracle.constant(node, wanted)
        return converted(self.sql(node), self.kind(node), wanted)

    def truth(self, node: Node) -> str:
        """Return a condition."""
        return f"({self.made(node, BOOLEAN)})"

    def sql(self, node: Node) -> str:
        """Return an expression of the type that DuckDB gives it.

        Raises:
            NotInSpark: It cannot be said.
        """
        kind = self.kind(node)
        if is_constant(node) and not kind.endswith("[]"):
            return literal(None, NULL) if kind == NULL else self.oracle.constant(node, kind)
        makers: Mapping[str, Callable[[Node], str]] = {
            "COLUMN_REF": self._column,
            "COMPARISON": self._comparison,
            "CONJUNCTION": self._conjunction,
            "BETWEEN": self._between,
            "CASE": self._case,
            "CAST": self._cast,
            "OPERATOR": self._operator,
            "FUNCTION": self._function,
            "WINDOW": lambda one: window(self, one),
            "SUBQUERY": self._subquery,
        }
        make = makers.get(node["class"])
        if make is None:
            raise refuse(_WORDS.get(node["class"], str(node["class"]).lower()))
        return make(node)

    def _column(self, node: Node) -> str:
        spark_type(self.kind(node))
        path = node["column_names"]
        if len(path) > 2:
            raise refuse("a name of more than two parts")
        return ".".join(quote_for_spark(str(one)) for one in path)

    def _function(self, node: Node) -> str:
        if is_aggregate(node):
            return aggregate(self, node)
        if node["distinct"] or node["filter"] is not None:
            raise refuse(f"{function_name(node)} with FILTER or DISTINCT")
        return call_of(self, node)

    def common(self, nodes: Sequence[Node]) -> Kind:
        """Return the type as which DuckDB compares expressions.

        Raises:
            NotInSpark: They are of types that Spark compares otherwise.
        """
        free = [one for one in nodes if not (is_constant(one) and self.kind(one) in {TEXT, NULL})]
        kinds = [self.kind(one) for one in free] or [self.kind(one) for one in nodes]
        if len(set(kinds)) == 1:
            return kinds[0]
        if all(is_number(one) for one in kinds):
            return self.oracle.common(kinds)
        if all(one in TIMES for one in kinds):
            return max(kinds, key=TIMES.index)
        raise refuse(f"a comparison of {' and '.join(sorted(set(kinds)))}")

    def _comparison(self, node: Node) -> str:
        kind = self.common([node["left"], node["right"]])
        left, right = (self._compared(node[side], kind) for side in ("left", "right"))
        return f"({_COMPARISONS[node['type']].format(left, right)})"

    def _compared(self, node: Node, kind: Kind) -> str:
        return sortable(self.made(node, kind), kind)

    def _conjunction(self, node: Node) -> str:
        word = " AND " if node["type"] == "CONJUNCTION_AND" else " OR "
        return f"({word.join(self.truth(one) for one in node['children'])})"

    def _between(self, node: Node) -> str:
        parts = [node["input"], node["lower"], node["upper"]]
        kind = self.common(parts)
        value, low, high = (self._compared(one, kind) for one in parts)
        found = f"({value} BETWEEN {low} AND {high})"
        return found if node["type"] == "COMPARE_BETWEEN" else f"(NOT {found})"

    def _case(self, node: Node) -> str:
        kind = self.kind(node)
        cases = " ".join(
            f"WHEN {self.truth(one['when_expr'])} THEN {self.made(one['then_expr'], kind)}"
            for one in node["case_checks"]
        )
        return f"CASE {cases} ELSE {self.made(node['else_expr'], kind)} END"

    def _cast(self, node: Node) -> str:
        if node["try_cast"]:
            raise refuse("TRY_CAST")
        return self.made(node["child"], self.kind(node))

    def _operator(self, node: Node) -> str:
        name, parts = node["type"], node["children"]
        if name == "OPERATOR_NOT":
            return f"(NOT {self.truth(parts[0])})"
        if name in {"OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"}:
            word = "IS NULL" if name == "OPERATOR_IS_NULL" else "IS NOT NULL"
            return f"({self.sql(parts[0])} {word})"
        if name == "OPERATOR_COALESCE":
            kind = self.kind(node)
            return f"coalesce({', '.join(self.made(one, kind) for one in parts)})"
        if name in {"COMPARE_IN", "COMPARE_NOT_IN"}:
            kind = self.common(parts)
            first, *rest = (self.made(one, kind) for one in parts)
            return f"({first} {'NOT ' if 'NOT' in name else ''}IN ({', '.join(rest)}))"
        if name in {"ARRAY_SLICE", "ARRAY_EXTRACT"}:
            return self._part_of(node)
        raise refuse(f"the operator {name.lower().removeprefix('operator_')}")

    def _part_of(self, node: Node) -> str:
        """Return a part of a text or a list by places that are constants from 1 on."""
        whole, *places = node["children"]
        kind = self.kind(whole)
        numbers = [self.whole_number(one, least=1) for one in places]
        if node["type"] == "ARRAY_EXTRACT":
            if kind.endswith("[]"):
                return f"try_element_at({self.sql(whole)}, {numbers[0]})"
            numbers = [numbers[0], numbers[0]]
        if kind != TEXT or len(numbers) != 2:
            raise refuse(f"a slice of {kind}")
        start, end = numbers
        return f"substring({self.sql(whole)}, {start}, {max(0, end - start + 1)})"

    def whole_number(self, node: Node, *, least: int = 0) -> int:
        """Return the number that a constant is.

        Raises:
            NotInSpark: It is none, or smaller.
        """
        found = self.oracle.value(node, TEXT) if is_constant(node) else None
        try:
            number = int(str(found))
        except ValueError:
            number = -1
        if number < least or number >= 1 << 31:
            raise refuse(f"a place or length that is not a plain number of at least {least}")
        return number

    def _subquery(self, node: Node) -> str:
        sql, kinds = self.query(node["subquery"]["node"])
        manner = node["subquery_type"]
        if manner == "EXISTS":
            return f"EXISTS ({sql})"
        if manner == "SCALAR":
            return f"({sql})"
        if manner == "NOT_EXISTS":
            return f"NOT EXISTS ({sql})"
        child = node["child"]
        if manner != "ANY" or node["comparison_type"] != "COMPARE_EQUAL":
            raise refuse("a comparison with ANY or ALL of a subquery")
        if len(kinds) != 1 or spark_type(kinds[0]) != spark_type(self.kind(child)):
            raise refuse("IN with a subquery of another type")
        return f"({self.sql(child)} IN ({sql}))"
