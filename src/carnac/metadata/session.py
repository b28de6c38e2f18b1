"""Running statements on a connection with little between the store and the driver.

SQLAlchemy builds a statement and compiles it once for each dialect; after that the text goes to the driver's cursor as
it is. On the publish path that is the difference between 25 and 5 microseconds for each statement.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import ARRAY, BigInteger, ColumnElement, Dialect, Text, bindparam
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import BindParameter, ClauseElement
from sqlalchemy.sql.visitors import InternalTraversal

Row: TypeAlias = tuple[Any, ...]
Params: TypeAlias = Mapping[str, object]


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


@compiles(IsIn, "postgresql")
def _is_in_array(element: IsIn, compiler: SQLCompiler, **options: Any) -> str:
    column = compiler.process(element.column, **options)
    return f"{column} = ANY({compiler.process(element.values, **options)})"


@compiles(IsIn, "sqlite")
def _is_in_json(element: IsIn, compiler: SQLCompiler, **options: Any) -> str:
    column = compiler.process(element.column, **options)
    values = compiler.process(element.values, **options)
    return f"{column} IN (SELECT value FROM json_each({values}))"


class Compiled(NamedTuple):
    """A statement as a driver takes it.

    Attributes:
        names: Of the parameters, in order; empty where they go by name.
        constants: Parameters that SQLAlchemy made of constants.
    """

    text: str
    names: tuple[str, ...]
    constants: Mapping[str, object]


class Statement:
    """A statement by its builder, compiled when first run on a dialect."""

    def __init__(self, build: Callable[[Dialect], Executable]) -> None:
        self._build = build
        self._texts: dict[str, Compiled] = {}

    def text(self, dialect: Dialect) -> Compiled:
        """Return the SQL for a dialect."""
        known = self._texts.get(dialect.name)
        if known is None:
            element = self._build(dialect)
            if not isinstance(element, ClauseElement):
                raise TypeError("a statement is a clause element")
            compiled = element.compile(dialect=dialect)
            if not isinstance(compiled, SQLCompiler):
                raise TypeError("a statement compiles to SQL")
            constants = {
                name: value for name, value in compiled.params.items() if value is not None
            }
            known = Compiled(str(compiled), tuple(compiled.positiontup or ()), constants)
            self._texts[dialect.name] = known
        return known


def statement(build: Callable[[], Executable]) -> Statement:
    """Return the statement that `build` makes, the same for all dialects."""
    return Statement(lambda _dialect: build())


class Session:
    """A connection inside a transaction.

    Attributes:
        writes: How many writing calls there were; a job that failed without one has left nothing behind.
        memo: What this transaction has read and may keep until its end.
    """

    def __init__(
        self,
        connection: Any,
        dialect: Dialect,
        on_statement: Callable[[str], None] | None = None,
    ) -> None:
        self._connection = connection
        self._dialect = dialect
        self._by_name = dialect.paramstyle not in {"qmark", "numeric"}
        self._on_statement = on_statement
        self.writes = 0
        self.memo: dict[object, Any] = {}

    def rows(self, stated: Statement, /, **params: object) -> list[Row]:
        """Return all rows of a query."""
        rows: list[Row] = self._execute(stated, params).fetchall()
        return rows

    def row(self, stated: Statement, /, **params: object) -> Row | None:
        """Return the first row of a query; None if it has none."""
        row: Row | None = self._execute(stated, params).fetchone()
        return row

    def stream(self, stated: Statement, /, **params: object) -> Iterator[Row]:
        """Yield the rows of a query without holding all of them."""
        cursor = self._execute(stated, params)
        while batch := cursor.fetchmany(4096):
            yield from batch

    def run(self, stated: Statement, /, **params: object) -> None:
        """Write."""
        self.writes += 1
        self._execute(stated, params)

    def fetch(self, stated: Statement, /, **params: object) -> list[Row]:
        """Write, and return what the statement returns."""
        self.writes += 1
        rows: list[Row] = self._execute(stated, params).fetchall()
        return rows

    def run_many(self, stated: Statement, rows: Sequence[Params]) -> None:
        """Write many rows; none is fine."""
        if not rows:
            return
        if len(rows) == 1:
            self.run(stated, **rows[0])
            return
        self.writes += 1
        text, names, _ = stated.text(self._dialect)
        self._notify(text)
        cursor = self._connection.cursor()
        if self._by_name:
            cursor.executemany(text, rows)
        else:
            cursor.executemany(text, [tuple([row[name] for name in names]) for row in rows])

    def array(self, values: Iterable[object]) -> object:
        """Return values as the parameter of an `IsIn`."""
        return list(values) if self._by_name else json.dumps(list(values))

    def control(self, text: str) -> None:
        """Run a statement that is no query and has no parameters (BEGIN, COMMIT, a lock)."""
        self._notify(text)
        self._connection.execute(text)

    def pipelined(self) -> AbstractContextManager[object]:
        """Let statements travel together where the driver can; a fetch waits for those before it."""
        pipeline = getattr(self._connection, "pipeline", None)
        return nullcontext() if pipeline is None else pipeline()

    def _execute(self, stated: Statement, params: Params) -> Any:
        text, names, constants = stated.text(self._dialect)
        if self._on_statement is not None:
            self._on_statement(text)
        if constants:
            params = {**constants, **params}
        if self._by_name:
            return self._connection.execute(text, params)
        return self._connection.execute(text, [params[name] for name in names])

    def _notify(self, text: str) -> None:
        if self._on_statement is not None:
            self._on_statement(text)


@contextmanager
def closing_quietly(connection: Any) -> Iterator[Any]:
    """Close a connection at the end, whatever state it is in."""
    try:
        yield connection
    finally:
        connection.close()
