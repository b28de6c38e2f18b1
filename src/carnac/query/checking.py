"""The gate: a statement passes only if everything in it is known to be harmless.

An allow-list at every level: kinds of query nodes, of table references, of expressions, of functions, of table
functions. Everything else is refused, also when a later version of DuckDB brings it.
"""

from __future__ import annotations

from carnac.errors import Invalid
from carnac.query.functions import NAMES, OPERATORS, TABLE_FUNCTIONS
from carnac.query.syntax import Node, arguments, walk

_EXPRESSIONS = {
    "BETWEEN",
    "CASE",
    "CAST",
    "COLLATE",
    "COLUMN_REF",
    "COMPARISON",
    "CONJUNCTION",
    "CONSTANT",
    "FUNCTION",
    "LAMBDA",
    "LAMBDA_REF",
    "OPERATOR",
    "PARAMETER",
    "POSITIONAL_REFERENCE",
    "STAR",
    "SUBQUERY",
    "TYPE",
    "WINDOW",
}
_NODES = {
    "BASE_TABLE",
    "CTE_NODE",
    "DISTINCT_MODIFIER",
    "EMPTY",
    "EXPRESSION_LIST",
    "JOIN",
    "LIMIT_MODIFIER",
    "LIMIT_PERCENT_MODIFIER",
    "ORDER_DEFAULT",
    "ORDER_ASCENDING",
    "ASCENDING",
    "DESCENDING",
    "ORDER_MODIFIER",
    "PIVOT",
    "RECURSIVE_CTE_NODE",
    "SELECT_NODE",
    "SET_OPERATION_NODE",
    "SHOW_REF",
    "SUBQUERY",
    "TABLE_FUNCTION",
}
_HIDDEN_PREFIX = "__carnac"
_FORMS = {
    "percentile_cont": "percentile_cont(0.5) WITHIN GROUP (ORDER BY added), or quantile_cont(added, 0.5)",
    "percentile_disc": "percentile_disc(0.5) WITHIN GROUP (ORDER BY added), or quantile_disc(added, 0.5)",
    "percentile": "quantile_cont(added, 0.5)",
    "approx_percentile": "approx_quantile(added, 0.5)",
    **dict.fromkeys(
        ("java_regexp_matches", "java_regexp_extract", "java_regexp_replace"),
        "a pattern that neither looks around nor refers back, and gives back what it took",
    ),
}
"""Forms of functions that other engines have, or write in another way."""
MAX_NODES = 200_000
"""Maximum number of nodes of a statement; no person writes a longer one."""


def check(statement: Node, extra_functions: frozenset[str]) -> None:
    """Let the statement pass, or refuse it.

    Args:
        extra_functions: Functions of our own that are named in the statement.

    Raises:
        Invalid: Something in it is not allowed; says what.
    """
    table_functions = set()
    for count, node in enumerate(walk(statement["node"])):
        if count > MAX_NODES:
            raise Invalid(f"the statement is too long: it has more than {MAX_NODES:,} parts")
        if node.get("type") == "TABLE_FUNCTION":
            table_functions.add(id(node["function"]))
        if "class" in node:
            _check_expression(node, extra_functions, is_table=id(node) in table_functions)
        elif isinstance(node.get("type"), str):
            _check_node(node)


def _check_expression(node: Node, extra_functions: frozenset[str], *, is_table: bool) -> None:
    kind = node["class"]
    if kind not in _EXPRESSIONS:
        raise Invalid(f"queries cannot use {_words(kind)} expressions")
    if kind in {"FUNCTION", "WINDOW"}:
        _check_function(node, extra_functions, is_table=is_table)
    elif kind == "COLUMN_REF" and any(
        str(name).lower().startswith(_HIDDEN_PREFIX) for name in node["column_names"]
    ):
        raise Invalid(f"names that start with {_HIDDEN_PREFIX} are reserved")
    elif kind == "TYPE" and len(node["qualified_name"]["path"]) != 1:
        raise Invalid("queries cannot name types in a schema")


def _check_function(node: Node, extra_functions: frozenset[str], *, is_table: bool) -> None:
    path = node["qualified_name"]["path"]
    name = str(node["function_name"])
    if len(path) != 1 or path[0] != name or node["schema"] or node["catalog"]:
        raise Invalid(f"function '{'.'.join(map(str, path))}' must be named without a schema")
    lower = name.lower()
    if is_table:
        if lower not in TABLE_FUNCTIONS:
            allowed = ", ".join(sorted(TABLE_FUNCTIONS))
            raise Invalid(
                f"queries cannot read from '{name}': only datasources, lookups and {allowed} can stand in FROM",
                function=name,
            )
    elif lower not in NAMES and name not in OPERATORS and lower not in extra_functions:
        from carnac.query.dialect.druid import argument_counts, is_here
        from carnac.specs.druid.sql_functions import find_form

        counts, given = argument_counts(name), len(arguments(node))
        if counts and given not in counts:
            takes = " or ".join(map(str, counts))
            raise Invalid(
                f"function {name.upper()} takes {takes} argument{'s' * (counts != [1])}, not {given}",
                function=name,
            )
        form = find_form(name)
        if form is not None:
            what = "not here with these arguments" if is_here(name) else "not here"
            raise Invalid(
                f"function {name.upper()} of Druid's SQL is {what}; write {form}", function=name
            )
        other = f"; write {_FORMS[lower]}" if lower in _FORMS else ""
        raise Invalid(
            f"function '{name}' does not exist or cannot be used in queries{other}", function=name
        )
    if node.get("export_state"):
        raise Invalid("queries cannot export the states of aggregates")


def _check_node(node: Node) -> None:
    kind = node["type"]
    if kind not in _NODES:
        raise Invalid(f"queries cannot use {_words(kind)}: only SELECT statements are run")
    if kind == "BASE_TABLE" and node["at_clause"] is not None:
        raise Invalid(
            "queries cannot say AT for one table: a query reads one revision; give it with at="
        )
    if kind == "PIVOT" and any(pivot.get("pivot_enum") for pivot in node["pivots"]):
        raise Invalid("queries cannot pivot over an ENUM type; list the values with IN")
    for entry in node.get("cte_map", {}).get("map", ()):
        if str(entry["key"]).lower().startswith(_HIDDEN_PREFIX):  # it would stand for a scan
            raise Invalid(f"names that start with {_HIDDEN_PREFIX} are reserved")
    if (
        kind == "SHOW_REF"
        and node["query"] is None
        and node["table_name"].strip('"').lower() != "tables"
    ):
        raise Invalid(
            "of SHOW statements only SHOW TABLES can be run; DESCRIBE <datasource> lists columns"
        )


def _words(kind: str) -> str:
    return kind.lower().replace("_", " ").removesuffix(" node")
