"""Druid's expressions and filters about rows that are loaded or rewritten: what they read, and DuckDB's SQL of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from carnac.core.json_text import parse_json
from carnac.core.quoting import quote
from carnac.specs.base import TIME_COLUMN
from carnac.specs.druid.terms.expressions import compile_expression
from carnac.specs.druid.terms.filters import FilterCompiler
from carnac.specs.druid.terms.scopes import Scope
from carnac.specs.druid.terms.values import TIME, Kind, Sql, array_of, to_value

QUERY_ONLY = frozenset({"lookup", "bloom_filter_test", "mv_filter_only", "mv_filter_none"})
_WIDER: Mapping[str, tuple[str, Kind]] = {
    "VARCHAR": ("{}", "string"),
    "BOOLEAN": ("{}", "bool"),
    "BIGINT": ("{}", "long"),
    **dict.fromkeys(
        ("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER"),
        ("CAST({} AS BIGINT)", "long"),
    ),
    **dict.fromkeys(("UBIGINT", "HUGEINT", "UHUGEINT"), ("TRY_CAST({} AS BIGINT)", "long")),
    "DOUBLE": ("{}", "double"),
    **dict.fromkeys(("FLOAT", "DECIMAL"), ("CAST({} AS DOUBLE)", "double")),
    "TIMESTAMP WITH TIME ZONE": ("epoch_ms({})", "long"),
    **dict.fromkeys(
        ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "DATE"),
        ("epoch_ms(CAST({} AS TIMESTAMP))", "long"),
    ),
    "JSON": ("{}", "json"),
    **dict.fromkeys(("STRUCT", "MAP"), ("CAST(to_json({}) AS VARCHAR)", "json")),
    "BLOB": ("TRY(decode({}))", "string"),
}
"""By DuckDB's type, the value that Druid would have, and its type."""


@dataclass(frozen=True, slots=True)
class Piece:
    """An expression of a spec.

    Attributes:
        text: DuckDB's SQL; Spark's where `kind` is None.
        kind: Druid's type; None: it is Spark SQL, of which only an engine knows.
        inputs: Columns that it reads; of Spark SQL, every word that could be one.
    """

    text: str
    kind: Kind | None
    inputs: frozenset[str]


class _Rows(Scope):
    """Columns of rows, and which of them were read."""

    absent = QUERY_ONLY

    def __init__(self, columns: Mapping[str, Sql] | None) -> None:
        super().__init__(columns or {})
        self._is_known = columns is not None
        self.inputs: set[str] = set()

    def find(self, name: str) -> Sql:
        self.inputs.add(name)
        return super().find(name) if self._is_known else Sql(quote(name), "long")


def compile_value(text: str, columns: Mapping[str, Sql] | None) -> Piece:
    """Return one of Druid's expressions.

    Args:
        columns: Columns of the rows, of which others are null; None: they are not known, and each counts as a long,
            which every function takes.

    Raises:
        Invalid: It is none, or calls what is not supported.
    """
    rows = _Rows(columns)
    found = to_value(compile_expression(text, rows.find, absent=rows.absent))
    return Piece(found.text, found.kind, frozenset(rows.inputs))


def compile_filter(block: Mapping[str, Any], columns: Mapping[str, Sql] | None = None) -> Piece:
    """Return one of Druid's filters; `columns` as of `compile_value`.

    Raises:
        Invalid: It is none, or one that is not supported.
    """
    rows = _Rows(columns)
    sql = FilterCompiler(rows, is_strict=True).compile(block)
    return Piece(sql, "bool", frozenset(rows.inputs))


def column_of(name: str, duck_type: str) -> Sql:
    """Return a column of a type of DuckDB's as expressions see it; the time of the row is a number of milliseconds."""
    if name == TIME_COLUMN:
        return TIME
    text, outer = quote(name), re.split(r"[(\[]", duck_type, maxsplit=1)[0]
    form, kind = _WIDER.get(outer, ("CAST({} AS VARCHAR)", "string"))
    if not duck_type.endswith("]"):
        return Sql(form.format(text), kind)
    if form != "{}" or kind == "bool":
        each = form if form != "{}" else "CAST({} AS BIGINT)"
        text = f"list_transform({text}, lambda __e: {each.format('__e')})"
    return Sql(text, array_of(kind))


def write_filter(block: Mapping[str, Any]) -> str:
    """Return a filter of Druid as text, the same for the same filter; `parse_condition` takes it.

    The meaning of a filter depends on the types of the columns: it is compiled where they are known.
    """
    return json.dumps(block, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def parse_condition(text: str) -> str | dict[str, Any]:
    """Return a condition of Spark SQL as it is, or the filter that a text of `write_filter` is of.

    Raises:
        Invalid: It is written as a filter, and is not JSON.
    """
    return cast("dict[str, Any]", parse_json(text, "filter")) if text.startswith("{") else text
