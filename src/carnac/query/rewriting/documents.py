"""JSON in SQL: Druid's functions that DuckDB has no expression for, and columns of JSON in functions that make JSON.

    JSON_MERGE(a, b)         the union of documents, by a function of ours
    JSON_PATHS(a)            the paths of its values, by a function of ours
    to_json(doc)             to_json(CAST(doc AS JSON)), where `doc` is a column of JSON: its type here is a text's

The functions are registered when a query first names one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from carnac.core.segments.segment import ColumnType
from carnac.errors import Invalid
from carnac.query.rewriting.sketching import PREFIX, TypesOf, keep_names, of_rows
from carnac.query.syntax import ASKED, NOWHERE, Node, arguments, call, cast, constant, walk

if TYPE_CHECKING:
    import duckdb

    from carnac.query.relations import Relation

DOCUMENT_FUNCTIONS = frozenset({"json_merge", "json_paths"})
"""Functions that a query may call besides DuckDB's own, in lower case."""
_MAKERS = frozenset(
    {"json_array", "json_group_array", "json_group_object", "json_object", "to_json"}
)
"""Functions of DuckDB that write a text among their arguments as one; a document is to stay one."""
_NAMED = re.compile(rf"\b(?:{PREFIX})?json_(?:merge|paths)\"?\s*\(", re.IGNORECASE)


def names_documents(sql: str) -> bool:
    """Whether the text may call one of our functions, by the names that users know or by those that they are given."""
    return _NAMED.search(sql) is not None


def rewrite_documents(
    cursor: duckdb.DuckDBPyConnection,
    node: Node,
    sql: str,
    relations: Sequence[Relation],
    columns: TypesOf,
) -> None:
    """Rewrite, in place, the calls of our functions to those that `register_documents` provides.

    Args:
        sql: The text that the tree was made of: columns that have no name get their own text as a name.
        relations: The tables of the statement, whose columns' types say what is a document.
        columns: Gives these types by the name of a datasource.

    Raises:
        Invalid: A call has too few or too many arguments, or is one of a window.
    """
    calls = [one for one in walk(node) if _name(one) in _MAKERS | DOCUMENT_FUNCTIONS]
    if not calls:
        return
    keep_names(cursor, node, sql, DOCUMENT_FUNCTIONS)
    documents = {
        name.lower()
        for relation in relations
        if relation.datasource
        for name, kind in columns(relation.datasource).items()
        if kind is ColumnType.JSON
    }
    for one in reversed(calls):  # inner calls first
        name, args = _name(one), arguments(one)
        if name in DOCUMENT_FUNCTIONS:
            if one["class"] == "WINDOW":
                raise Invalid(f"{name.upper()} cannot be used as a window function", function=name)
            made = _merged(args) if name == "json_merge" else _paths(args)
            kept = {key: one[key] for key in NOWHERE}
            one.clear()
            one.update(made | kept)
        else:
            made = call(
                name, [cast(arg, "JSON") if _is_in(arg, documents) else arg for arg in args]
            )
            one["arguments"] = made["arguments"]


def _name(node: Node) -> str:
    is_call = node.get("class") in {"FUNCTION", "WINDOW"}
    return str(node["function_name"]).lower() if is_call else ""


def _is_in(node: Node, documents: set[str]) -> bool:
    return node.get("class") == "COLUMN_REF" and str(node["column_names"][-1]).lower() in documents


def _merged(args: list[Node]) -> Node:
    if len(args) < 2:
        raise Invalid("JSON_MERGE needs two documents at least", function="json_merge")
    texts = [cast(cast(one, "JSON"), "VARCHAR") for one in args]
    merged = call(f"{PREFIX}json_merge", [call("list_value", texts)])
    return cast(merged | {ASKED: "JSON_MERGE"}, "JSON")


def _paths(args: list[Node]) -> Node:
    if len(args) != 1:
        raise Invalid("JSON_PATHS needs one document", function="json_paths")
    document = cast(args[0], "JSON") | {"try_cast": True}
    found = call(f"{PREFIX}json_paths", [cast(document, "VARCHAR")])
    found[ASKED] = "JSON_PATHS"
    root = call("list_value", [constant("STRING", "$")])
    return {"class": "OPERATOR", "type": "OPERATOR_COALESCE", **NOWHERE, "children": [found, root]}


def register_documents(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the functions that rewritten queries call."""
    import pyarrow as pa
    from duckdb.func import FunctionNullHandling, PythonUDFType

    from carnac.specs.druid.documents import merge_documents, paths_of

    text = pa.string()
    for name, function, parameter, result, kind in (
        ("json_merge", merge_documents, "VARCHAR[]", "VARCHAR", text),
        ("json_paths", paths_of, "VARCHAR", "VARCHAR[]", pa.list_(text)),
    ):
        connection.create_function(
            f"{PREFIX}{name}",
            of_rows(function, kind),
            [parameter],
            result,
            type=PythonUDFType.ARROW,
            null_handling=FunctionNullHandling.SPECIAL,
        )
