"""Types of the expressions of a SELECT as DuckDB binds them, and the values that it makes of constants."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from carnac.query.binding import Bound, bind
from carnac.query.distributed.aggregates import SPREADING, VOLATILE, function_name, is_aggregate
from carnac.query.messages import first_sentence
from carnac.query.spark_sql.kinds import PLAIN_TIME, TIME, Kind, NotInSpark, literal, refuse
from carnac.query.syntax import (
    ROW_EXPRESSIONS,
    Node,
    cast_to,
    null,
    select_of,
    text_of,
    unparse,
    walk,
    walk_here,
)

if TYPE_CHECKING:
    import duckdb

_UNTYPED = frozenset({"TYPE", "STAR", "LAMBDA", "LAMBDA_REF"})


@dataclass(slots=True)
class Oracle:
    """Asks DuckDB what it would do.

    Args:
        cursor: Has the tables of the statement, without rows.
    """

    cursor: duckdb.DuckDBPyConnection

    def printed(self, node: Node) -> str:
        """Return a query node as DuckDB's SQL."""
        return unparse(self.cursor, {"node": node, "named_param_map": []})

    def bound(self, node: Node, ctes: Sequence[Node]) -> Bound:
        """Return which columns a query node gives.

        Args:
            ctes: The common table expressions that it may name.

        Raises:
            NotInSpark: It cannot be told: it names columns of the statement around it.
        """
        import duckdb

        own = node["cte_map"]["map"]
        whole = node | {"cte_map": {"map": [*ctes, *own]}}
        try:
            return bind(self.cursor, self.printed(whole))
        except (duckdb.ProgrammingError, duckdb.NotSupportedError) as error:
            raise NotInSpark(
                "Spark is not given a part of the statement whose types are not certain without the rest: "
                f"{first_sentence(str(error))}"
            ) from error

    def common(self, kinds: Sequence[Kind]) -> Kind:
        """Return the type that values of several types have together."""
        if len(set(kinds)) == 1:
            return kinds[0]
        values = ", ".join(f"CAST(NULL AS {kind})" for kind in kinds)
        found = bind(self.cursor, f"SELECT [{values}] AS found").types[0]
        return str(found).removesuffix("[]")

    def constant(self, node: Node, kind: Kind) -> str:
        """Return a constant expression, cast to a type, as a literal of Spark."""
        value = self.value(cast_to(self.cursor, node, kind), kind)
        return literal(None if value is None else str(value), kind)

    def value(self, node: Node, kind: Kind) -> object:
        """Return what a constant expression is: a text, or the microseconds of a time; None: null."""
        text = text_of(self.cursor, node)
        way = f"epoch_us({text})" if kind in {TIME, PLAIN_TIME} else f"CAST({text} AS VARCHAR)"
        found: Any = self.cursor.execute(f"SELECT {way}").fetchall()[0][0]
        return found

    def interval(self, node: Node) -> tuple[int, int, int]:
        """Return the months, days and microseconds of a constant interval.

        Raises:
            NotInSpark: It is null.
        """
        text = text_of(self.cursor, node)
        asked = (
            f"SELECT year(i) * 12 + month(i), day(i), "
            f"hour(i) * 3600000000 + minute(i) * 60000000 + microsecond(i) FROM (SELECT {text} AS i)"
        )
        months, days, micros = self.cursor.execute(asked).fetchall()[0]
        if months is None:
            raise refuse("an interval that is null")
        return int(months), int(days), int(micros)


class Printer(Protocol):
    """Prints the expressions of one SELECT, as its functions and aggregates need it."""

    @property
    def oracle(self) -> Oracle:
        """The oracle that answers for DuckDB."""
        ...

    def kind(self, node: Node) -> Kind:
        """Return the type that DuckDB gives an expression."""
        ...

    def sql(self, node: Node) -> str:
        """Return an expression of that type."""
        ...

    def made(self, node: Node, wanted: Kind) -> str:
        """Return an expression as a value of a type."""
        ...

    def truth(self, node: Node) -> str:
        """Return a condition."""
        ...

    def common(self, nodes: Sequence[Node]) -> Kind:
        """Return the type as which DuckDB compares expressions."""
        ...

    def whole_number(self, node: Node, *, least: int = 0) -> int:
        """Return the number that a constant is."""
        ...


def is_constant(node: Node) -> bool:
    """Whether an expression has one value, whatever the row."""
    for one in walk(node):
        kind = one.get("class")
        if kind is not None and kind not in ROW_EXPRESSIONS:
            return False
        if is_aggregate(one) or function_name(one) in VOLATILE | SPREADING:
            return False
    return True


def kinds_of(
    oracle: Oracle, select: Node, expressions: Iterable[Node], ctes: Sequence[Node]
) -> Mapping[int, Kind]:
    """Return the types of expressions of a SELECT and of all that they are made of, by `id`.

    Aggregates are bound alone, and are nulls of their types where the rest is bound: so nothing needs its groups.
    """
    typed = [
        one
        for expression in expressions
        for one in _here(expression)
        if one.get("class") not in _UNTYPED
    ]
    aggregates = [one for one in typed if is_aggregate(one)]
    found: dict[int, Kind] = {}
    found.update(_bound(oracle, select, aggregates, [_plain(one) for one in aggregates], ctes))
    nulls = {one: cast_to(oracle.cursor, null(), found[one]) for one in found}
    rest = [one for one in typed if id(one) not in found]
    found.update(_bound(oracle, select, rest, [_without(one, nulls) for one in rest], ctes))
    return found


def _here(expression: Node) -> Iterable[Node]:
    for one in walk_here(expression):
        if "class" in one:
            yield one
            if one["class"] == "SUBQUERY" and one.get("child"):
                yield from _here(one["child"])


def _bound(
    oracle: Oracle, select: Node, keys: Sequence[Node], nodes: Sequence[Node], ctes: Sequence[Node]
) -> dict[int, Kind]:
    if not nodes:
        return {}
    probe = select_of(list(nodes))["node"] | {"from_table": select["from_table"]}
    types = oracle.bound(probe, ctes).types
    return {id(key): kind for key, kind in zip(keys, types, strict=True)}


def _plain(node: Node) -> Node:
    return copy.deepcopy(node) | {"alias": ""}


def _without(node: Node, nulls: Mapping[int, Node]) -> Node:
    """Return a copy in which aggregates are nulls of their types."""

    def copied(part: Any) -> Any:
        if isinstance(part, list):
            return [copied(one) for one in part]
        if not isinstance(part, dict):
            return part
        if id(part) in nulls:
            return nulls[id(part)] | {"alias": ""}
        return {key: copied(value) for key, value in part.items()}

    found: Node = copied(node)
    return found | {"alias": ""}
