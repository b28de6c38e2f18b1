"""One statement on its way through: asked, turned into bytes as its rows come, or stopped because nobody waits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, cast

from carnac.api.sql.facts import ARROW_TYPE
from carnac.api.sql.formats import render, render_arrow
from carnac.api.sql.kinds import native_type
from carnac.errors import Cancelled
from carnac.query.results import DATASOURCES, GIVES
from carnac.query.schema.outline import Outline, outline
from carnac.query.syntax import asks_plan_for

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.api.sql.requests import SqlRequest
    from carnac.broker import Broker
    from carnac.broker.answer import BrokerAnswer
    from carnac.ports.answers import AnswerFacts, Statement


ATTRIBUTES = {"statementType": "SELECT"}


def gives(schema: pa.Schema) -> pa.Schema | None:
    """Return the schema of the rows that an explained statement gives; None: the answer does not say it."""
    import pyarrow as pa

    found = (schema.metadata or {}).get(GIVES)
    return None if found is None else pa.ipc.read_schema(pa.py_buffer(found))


def plan_for(
    rows: pa.Schema, names: Sequence[str], batches: Iterable[pa.RecordBatch]
) -> pa.RecordBatch:
    """Return the one row.

    Args:
        rows: The schema of the statement's rows (`gives`).
        names: Of its columns.
        batches: Lines of EXPLAIN.
    """
    import pyarrow as pa

    lines = [line for batch in batches for line in batch.column(0).to_pylist()]
    plan = {
        "query": {"queryType": "carnac", "plan": lines},
        "signature": [
            {"name": name, "type": native_type(kind)}
            for name, kind in zip(names, rows.types, strict=True)
        ],
        "columnMappings": [{"queryColumn": name, "outputColumn": name} for name in names],
    }
    datasources = json.loads((rows.metadata or {}).get(DATASOURCES, b"[]"))
    resources = [{"name": name, "type": "DATASOURCE"} for name in datasources]
    row = {"PLAN": [plan], "RESOURCES": resources, "ATTRIBUTES": ATTRIBUTES}
    return pa.RecordBatch.from_pydict({key: [_compact(value)] for key, value in row.items()})


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_PLAIN = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of a statement that runs, which come once.

    Attributes:
        names: Of the columns.
        schema: Their types; it may have other names.
        facts: Facts of the answer, for its headers.
    """

    names: Sequence[str]
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    facts: AnswerFacts


class Run:
    """A statement that was asked over HTTP. `leave` may be called by any thread, the rest by one at a time."""

    def __init__(self, service: Broker, request: SqlRequest, *, media_type: str) -> None:
        self._service = service
        self._request = request
        self._media_type = media_type
        self._lock = Lock()
        self._is_left = False
        self._is_asking = True
        self._is_over = False
        self._answer: BrokerAnswer | None = None
        self._pieces: Iterator[bytes] = iter(())

    def open(self, if_none_match: str | None) -> AnswerFacts | None:
        """Have it run; return what it says of itself, or None if the client has the answer already.

        Raises:
            CarnacError: As `Broker.run`.
        """
        rows = self.rows(if_none_match)
        if rows is None:
            return None
        if self._media_type == ARROW_TYPE:
            self._pieces = render_arrow(rows.names, rows.schema, rows.batches)
        else:
            self._pieces = render(self._request.shape, rows.names, rows.schema, rows.batches)
        return rows.facts

    def rows(self, if_none_match: str | None = None) -> Rows | None:
        """Have it run; return its rows, in place of the bytes of `take`; None: the client has the answer already.

        Raises:
            CarnacError: As `Broker.run`.
        """
        statement, shown = self._request.statement, None
        if statement.parameters:
            shown = outline(statement.sql)
            statement = _without_extra(statement, shown)
        answer = self._ask(statement, if_none_match)
        if answer is None:
            return None
        schema = cast("pa.Schema", answer.schema)
        batches = at_most(answer, self._request.rows_max)
        if asks_plan_for(statement.sql) and (rows := gives(schema)) is not None:
            batch = plan_for(rows, names_of(rows.names, statement.sql, shown), batches)
            schema, batches = batch.schema, iter([batch])
        names = names_of(schema.names, statement.sql, shown)
        return Rows(names=names, schema=schema, batches=batches, facts=answer.facts)

    def _ask(self, statement: Statement, if_none_match: str | None = None) -> BrokerAnswer | None:
        """Have a statement run; None: the client has the answer already."""
        answer = None
        try:
            answer = self._service.run(statement, if_none_match=if_none_match)
        finally:
            self._is_asking = False
            self._is_over = answer is None
        if answer is None:
            return None
        with self._lock:
            self._answer, is_left = answer, self._is_left
        if is_left:
            answer.close()
            raise Cancelled("no client waits for the answer any more")
        return answer

    def take(self, size_bytes: int) -> tuple[bytes, bool]:
        """Return the next bytes, at least so many, and whether there are more; fewer only at the end.

        Raises:
            CarnacError: As `Broker.run`.
        """
        taken, size = [], 0
        for piece in self._pieces:
            taken.append(piece)
            size += len(piece)
            if size >= size_bytes:
                return b"".join(taken), True
        self._is_over = True
        return b"".join(taken), False

    @property
    def is_over(self) -> bool:
        """Whether all of its answer was taken, or there is none."""
        return self._is_over

    def leave(self) -> None:
        """Stop what still runs, and let go of it. Idempotent."""
        with self._lock:
            is_first, self._is_left = not self._is_left, True
            answer = self._answer
        if not is_first:
            return
        if answer is not None:
            answer.close()
        elif self._is_asking:  # a refused one has no right to the id, which may be another's
            self._service.cancel(self._request.statement.query_id, is_left=True)


def at_most(answer: BrokerAnswer, rows_max: int | None) -> Iterator[pa.RecordBatch]:
    """Yield so many rows of an answer, and close it."""
    left = rows_max
    try:
        for batch in cast("Iterable[pa.RecordBatch]", answer.batches()):
            if left is None:
                yield batch
                continue
            yield batch.slice(0, left)
            left -= min(left, batch.num_rows)
            if not left:
                return
    finally:
        with suppress(ValueError):  # a generator that is running in another thread
            answer.close()


def _without_extra(statement: Statement, shown: Outline | None) -> Statement:
    """Return the statement without values that nothing in it asks for: Druid passes over them."""
    if shown is None or len(statement.parameters) <= shown.parameters:
        return statement
    return replace(statement, parameters=statement.parameters[: shown.parameters])


def names_of(names: Sequence[str], sql: str, shown: Outline | None) -> list[str]:
    """Return the names of the columns: `EXPR$2` for the third if it is an expression without one."""
    if all(_PLAIN.fullmatch(name) and not name[0].isdigit() for name in names):
        return list(names)
    shown = shown or outline(sql)
    unnamed = shown.unnamed(len(names)) if shown is not None else set()
    return [f"EXPR${index}" if index in unnamed else name for index, name in enumerate(names)]
