"""How the statements are stated, and what becomes of them: texts for each database."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Dialect,
    Table,
    Text,
    bindparam,
    or_,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import BindParameter, ClauseElement
from sqlalchemy.sql.visitors import InternalTraversal

from carnac.metadata.session import POSTGRESQL, SQLITE, SqlText, Statement

Build = Callable[[Dialect], Executable]


class IsIn(ColumnElement[bool]):
    """`column` is one of the values of an array parameter: one text however many values."""

    inherit_cache = True
    _traverse_internals = [  # noqa: RUF012 - SQLAlchemy's own form
        ("column", InternalTraversal.dp_clauseelement),
        ("values", InternalTraversal.dp_clauseelement),
    ]

    def __init__(self, column: ColumnElement[Any], name: str) -> None:
        self.column = column
        kind = BigInteger() if isinstance(column.type, BigInteger) else Text()
        is_text = isinstance(column.type, Text)
        self.values: BindParameter[Any] = bindparam(name, type_=ARRAY(Text() if is_text else kind))


@compiles(IsIn, POSTGRESQL)
def _is_in_array(element: IsIn, compiler: SQLCompiler, **options: Any) -> str:
    column = compiler.process(element.column, **options)
    return f"{column} = ANY({compiler.process(element.values, **options)})"


@compiles(IsIn, SQLITE)
def _is_in_json(element: IsIn, compiler: SQLCompiler, **options: Any) -> str:
    column = compiler.process(element.column, **options)
    values = compiler.process(element.values, **options)
    return f"{column} IN (SELECT value FROM json_each({values}))"


class IsPairIn(ColumnElement[bool]):
    """Two columns of text are one of the pairs of a parameter, a JSON array of arrays."""

    inherit_cache = True
    _traverse_internals = [  # noqa: RUF012 - SQLAlchemy's own form
        ("first", InternalTraversal.dp_clauseelement),
        ("second", InternalTraversal.dp_clauseelement),
        ("pairs", InternalTraversal.dp_clauseelement),
    ]

    def __init__(self, first: ColumnElement[str], second: ColumnElement[str], name: str) -> None:
        self.first = first
        self.second = second
        self.pairs: BindParameter[Any] = bindparam(name, type_=Text())


@compiles(IsPairIn, POSTGRESQL)
def _is_pair_in_jsonb(element: IsPairIn, compiler: SQLCompiler, **options: Any) -> str:
    return _is_pair_in(element, compiler, "jsonb_array_elements({}::JSONB)", **options)


@compiles(IsPairIn, SQLITE)
def _is_pair_in_json(element: IsPairIn, compiler: SQLCompiler, **options: Any) -> str:
    return _is_pair_in(element, compiler, "json_each({})", **options)


def _is_pair_in(element: IsPairIn, compiler: SQLCompiler, form: str, **options: Any) -> str:
    first, second = (compiler.process(one, **options) for one in (element.first, element.second))
    pairs = form.format(compiler.process(element.pairs, **options))
    return f"({first}, {second}) IN (SELECT value ->> 0, value ->> 1 FROM {pairs})"


def is_over(
    heartbeat_at_ms: ColumnElement[int], lease_ms: ColumnElement[int], at_ms: ColumnElement[int]
) -> ColumnElement[bool]:
    """State what `core.time.leases.is_over` says."""
    return or_(heartbeat_at_ms + lease_ms <= at_ms, heartbeat_at_ms - lease_ms >= at_ms)


def upsert(table: Table, dialect: Dialect, change: Mapping[str, str]) -> Executable:
    """Return an insert that changes the row if its key is there.

    Args:
        change: Column → `new` (overwrite) or `add` (old plus new).
    """
    stated: Any = (postgresql if dialect.name == POSTGRESQL else sqlite).insert(table)
    values: dict[str, ColumnElement[Any]] = {
        name: table.c[name] + stated.excluded[name] if how == "add" else stated.excluded[name]
        for name, how in change.items()
    }
    upserted: Executable = stated.on_conflict_do_update(
        index_elements=list(table.primary_key), set_=values
    )
    return upserted


def statement(build: Callable[[], Executable]) -> Statement:
    """Return the statement that `build` makes, the same for all databases."""
    return dialect_statement(lambda _dialect: build())


def dialect_statement(build: Build) -> Statement:
    """Return the statement that `build` makes for each database."""
    return Statement(
        sqlite=_compile(build, _dialects()[SQLITE]),
        postgresql=_compile(build, _dialects()[POSTGRESQL]),
    )


@cache
def _dialects() -> Mapping[str, Dialect]:
    postgresql_dialect: Callable[[], Dialect] = PGDialect_psycopg  # it has no types
    return {SQLITE: SQLiteDialect_pysqlite(), POSTGRESQL: postgresql_dialect()}


def _compile(build: Build, dialect: Dialect) -> SqlText:
    element = build(dialect)
    if not isinstance(element, ClauseElement):
        raise TypeError("a statement is a clause element")
    compiled = element.compile(dialect=dialect)
    if not isinstance(compiled, SQLCompiler):
        raise TypeError("a statement compiles to SQL")
    constants = {name: value for name, value in compiled.params.items() if value is not None}
    text = re.sub(r"\s*\n\s*", " ", str(compiled))
    return SqlText(text, tuple(compiled.positiontup or ()), constants)
