"""DuckDB's own syntax tree of a statement, as JSON, and walks over it.

A node is a dictionary. Expressions have a `class` and a `type`; query nodes, table references and result modifiers
have a `type` only. Parser and printer are DuckDB's (`json_serialize_sql`, `json_deserialize_sql`), so the checked tree
is the one that runs: the text that runs is printed from it, and is never the user's.
"""

from __future__ import annotations

import atexit
import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.json import Encoder

from carnac.errors import Invalid
from carnac.ports.memo import Memo
from carnac.query.messages import syntax_error

if TYPE_CHECKING:
    import duckdb

Node: TypeAlias = dict[str, Any]

_EXPLAIN = re.compile(
    r"(?>\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)*+explain\b(?:(?P<plan>\s+plan\s+for\b)|(?P<analyze>\s+analyze\b))?",
    re.IGNORECASE | re.DOTALL,
)
"""Text before a statement is read once: a way back through it has as many turns as it has blanks, squared."""


TEXTS_MAX = 10_000
"""Statements, and parts of them, whose trees and texts are kept: a dashboard asks the same ones again and again."""
KEPT_CHARS = 16 << 20
"""Maximum number of their characters, in each direction."""


def _texts() -> Memo[str, str]:
    return Memo(values_max=TEXTS_MAX, weight_max=KEPT_CHARS, weigh=lambda a, b: len(a) + len(b))


TREE_BYTES = 130
"""Memory that the tree of a statement takes for each of its characters, measured over lists of short texts."""
PARSED_MAX = 1_000
PARSED_CHARS = 2 << 20
"""Maximum number of characters of the statements that are kept parsed, which takes four times the memory."""

_PARSED: Memo[str, duckdb.Statement] = Memo(
    values_max=PARSED_MAX, weight_max=PARSED_CHARS, weigh=lambda sql, _: len(sql)
)
atexit.register(_PARSED.clear)  # DuckDB complains of what outlives it
_ENCODER = Encoder()
_HOLDERS = frozenset({dict, list})
ROW_EXPRESSIONS = frozenset(
    ("BETWEEN", "CASE", "CAST", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "OPERATOR", "TYPE")
)  # fmt: skip
"""Classes of expressions that are computed from their parts alone, as far as the functions among them are."""

_TREES = _texts()
"""JSON of trees, by statement."""
_TEXTS = _texts()
"""Statements, by the JSON of their trees."""


def parsed(cursor: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    """Return a statement of ours as DuckDB's parser reads it."""
    return _PARSED.get(sql, lambda: cursor.extract_statements(sql)[0])


def parse(cursor: duckdb.DuckDBPyConnection, sql: str) -> tuple[str, Node]:
    """Return the prefix (`EXPLAIN ` or empty) and the tree of the one SELECT statement in `sql`.

    Raises:
        Invalid: It does not parse, is no SELECT, or is not one statement.
    """
    prefix, body = "", sql
    explained = _EXPLAIN.match(sql)
    if explained is not None:
        prefix = "EXPLAIN ANALYZE " if explained["analyze"] else "EXPLAIN "
        body = " " * explained.end() + sql[explained.end() :]
    if "\0" in body:
        raise Invalid("the statement contains a null character")

    def read() -> str:
        statement = parsed(cursor, "SELECT json_serialize_sql(?::VARCHAR)")
        [(found,)] = cursor.execute(statement, [body]).fetchall()
        return str(found)

    try:
        tree = json.loads(_TREES.get(body, read))
    except RecursionError:
        raise Invalid("the statement is nested too deeply") from None
    if tree["error"]:
        from carnac.specs.sql.statements import refusal_of  # specs take long to load

        refusal = refusal_of(body)
        raise Invalid(refusal) if refusal else syntax_error(tree, body)
    statements = tree["statements"]
    if len(statements) != 1:
        count = "is empty" if not statements else f"has {len(statements)} statements"
        raise Invalid(f"the query {count}; write one SELECT statement")
    return prefix, statements[0]


def is_explain(sql: str) -> bool:
    """Whether a statement asks how another one is run."""
    return _EXPLAIN.match(sql) is not None


def asks_plan_for(sql: str) -> bool:
    """Whether a statement begins with `EXPLAIN PLAN FOR`, as Druid's clients write it."""
    explained = _EXPLAIN.match(sql)
    return explained is not None and explained["plan"] is not None


def unparse(cursor: duckdb.DuckDBPyConnection, statement: Node) -> str:
    """Return the SQL text of a tree."""
    tree = _ENCODER.encode({"error": False, "statements": [statement]}).decode()

    def printed() -> str:
        print_tree = parsed(cursor, "SELECT json_deserialize_sql(?::JSON)")
        [(found,)] = cursor.execute(print_tree, [tree]).fetchall()
        return str(found)

    return _TEXTS.get(tree, printed)


def text_of(cursor: duckdb.DuckDBPyConnection, expression: Node) -> str:
    """Return the SQL text of an expression, without its name."""
    return unparse(cursor, select_of([expression | {"alias": ""}])).removeprefix("SELECT ")


def walk(node: Any) -> Iterator[Node]:
    """Yield all dictionaries of the tree, parents before children."""
    stack = [node]
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            yield one
            stack += [part for part in one.values() if type(part) in _HOLDERS]
        elif isinstance(one, list):
            stack += [part for part in one if type(part) in _HOLDERS]


def walk_here(node: Any) -> Iterator[Node]:
    """Yield the dictionaries of an expression without those of the subqueries in it."""
    stack = [node]
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            yield one
            if one.get("class") != "SUBQUERY":
                stack += [part for part in one.values() if type(part) in _HOLDERS]
        elif isinstance(one, list):
            stack += [part for part in one if type(part) in _HOLDERS]


def arguments(function: Node) -> list[Node]:
    """Return the argument expressions of a FUNCTION node."""
    return [argument.get("expression", argument) for argument in function["arguments"]]


def lambda_names(node: Node) -> list[str]:
    """Return the names that a LAMBDA node gives to its arguments."""
    return [
        str(one["column_names"][0])
        for one in walk(node.get("lhs"))
        if one.get("class") == "COLUMN_REF" and len(one["column_names"]) == 1
    ]


def base_table(name: str, alias: str) -> Node:
    """Return a reference to a table."""
    return {
        "type": "BASE_TABLE",
        "alias": alias,
        "sample": None,
        "query_location": NO_LOCATION,
        "query_location_length": 0,
        "schema_name": "",
        "table_name": name,
        "column_name_alias": [],
        "catalog_name": "",
        "at_clause": None,
        "qualified_name": {"path": [name]},
    }


def call(name: str, args: list[Node]) -> Node:
    """Return a call of a function."""
    return {
        "class": "FUNCTION",
        "type": "FUNCTION",
        "alias": "",
        "query_location": NO_LOCATION,
        "query_location_length": 0,
        "function_name": name,
        "schema": "",
        "filter": None,
        "order_bys": {"type": "ORDER_MODIFIER", "orders": []},
        "distinct": False,
        "is_operator": False,
        "export_state": False,
        "catalog": "",
        "arguments": [{"name": "", "expression": arg} for arg in args],
        "qualified_name": {"path": [name]},
    }


ASKED = "asked"
"""Key of the name, in a node that stands for a call, of the function that the statement calls there. DuckDB passes it
over."""


def name_asked(function: Node) -> str:
    """Return what a statement calls a function, which may be another one by now."""
    return str(function.get(ASKED) or function["function_name"])


NO_LOCATION = 18_446_744_073_709_551_615
"""DuckDB's word for a node that stands nowhere in the text."""


OF_THEIR_OWN = frozenset(("SUBQUERY", "LAMBDA", "WINDOW"))
"""Classes of expressions that name what a condition around them does not."""
STAR_PARTS = (
    "exclude_list",
    "replace_list",
    "qualified_exclude_list",
    "rename_list",
    "columns",
    "expr",
)
"""What a STAR node has if it is not simply all columns."""
NOWHERE: Node = {"alias": "", "query_location": NO_LOCATION, "query_location_length": 0}
"""Stands in our own expressions for a name and a place in the text."""


def constant(kind: str, text: str) -> Node:
    """Return a literal; its kind is DuckDB's, such as INTEGER or STRING."""
    literal = {"kind": kind, "text": text}
    return {"class": "CONSTANT", "type": "VALUE_CONSTANT", **NOWHERE, "literal": literal}


def null() -> Node:
    """Return NULL."""
    return constant("NULL_LITERAL", "") | {"literal": {"kind": "NULL_LITERAL"}}


def or_zero(node: Node) -> Node:
    """Return an expression, or 0 where it is null."""
    zero = constant("INTEGER", "0")
    return {"class": "OPERATOR", "type": "OPERATOR_COALESCE", **NOWHERE, "children": [node, zero]}


def conjunction(conditions: Sequence[Node], word: str = "AND") -> Node | None:
    """Return conditions joined by AND, or by OR; None: there is none."""
    if len(conditions) <= 1:
        return conditions[0] if conditions else None
    kind = f"CONJUNCTION_{word}"
    return {"class": "CONJUNCTION", "type": kind, **NOWHERE, "children": list(conditions)}


def cast_to(cursor: duckdb.DuckDBPyConnection, node: Node, type_text: str) -> Node:
    """Return a cast to a type, which may have parts."""
    _, found = parse(cursor, f"SELECT CAST('' AS {type_text})")
    item: Node = found["node"]["select_list"][0]
    return item | NOWHERE | {"child": node | {"alias": ""}}


def cast(node: Node, type_name: str) -> Node:
    """Return a cast to a type that has no parts."""
    named = {
        "class": "TYPE",
        "type": "TYPE",
        **NOWHERE,
        "catalog": "",
        "schema": "",
        "type_name": type_name,
        "children": [],
        "qualified_name": {"path": [type_name]},
    }
    return {
        "class": "CAST",
        "type": "OPERATOR_CAST",
        **NOWHERE,
        "child": node,
        "try_cast": False,
        "type_expr": named,
    }


def select_of(expressions: list[Node]) -> Node:
    """Return the statement `SELECT <expressions>`."""
    return {
        "node": {
            "type": "SELECT_NODE",
            "modifiers": [],
            "cte_map": {"map": []},
            "select_list": expressions,
            "from_table": {
                "type": "EMPTY",
                "alias": "",
                "sample": None,
                "query_location": NO_LOCATION,
                "query_location_length": 0,
            },
            "where_clause": None,
            "group_expressions": [],
            "group_sets": [],
            "aggregate_handling": "STANDARD_HANDLING",
            "having": None,
            "sample": None,
            "qualify": None,
        },
        "named_param_map": [],
    }
