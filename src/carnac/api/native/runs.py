"""One native query on its way through: planned on a revision, asked as SQL, and its rows rendered as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from carnac.api.native.kinds import plan_query
from carnac.api.native.queries import Row, Rows
from carnac.api.native.shapes import PIECE_ROWS
from carnac.api.sql.facts import JSON_TYPE
from carnac.api.sql.runs import Run, at_most
from carnac.api.sql.values import json_values
from carnac.specs.druid.blocks import Block

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.api.sql.requests import SqlRequest
    from carnac.broker import Broker
    from carnac.broker.answer import BrokerAnswer
    from carnac.ports.answers import AnswerFacts, Statement
    from carnac.ports.queries import Catalog

OpenCatalog = Callable[["Statement"], AbstractContextManager["Catalog"]]
"""Opens the revision that a statement means, as its client may see it, and keeps it readable until the block ends."""


class NativeRun(Run):
    """A native query that was asked over HTTP.

    Args:
        request: Its context, and no statement yet.
        block: The query.
    """

    def __init__(
        self, service: Broker, request: SqlRequest, block: Block, open_catalog: OpenCatalog
    ) -> None:
        super().__init__(service, request, media_type=JSON_TYPE)
        self._block = block
        self._open_catalog = open_catalog
        self._statement = request.statement

    def open(self, if_none_match: str | None) -> AnswerFacts | None:
        """Have it run; return what it says of itself, or None if the client has the answer already.

        Raises:
            CarnacError: As `Broker.run`; or it is wrong, or not supported.
        """
        with self._open_catalog(self._statement) as catalog:
            plan = plan_query(self._block, catalog)
            self._statement = replace(self._statement, sql=plan.sql, at=catalog.revision)
            answer = self._ask(self._statement, if_none_match)
        if answer is None:
            return None
        self._pieces = _ended(plan.render(rows_of(answer), self._more), answer)
        return answer.facts

    def _more(self, sql: str) -> list[Row]:
        """Return the rows of one more statement."""
        answer = self._ask(replace(self._statement, sql=sql))
        return [] if answer is None else [row for piece in rows_of(answer) for row in piece]


def _ended(pieces: Iterator[bytes], answer: BrokerAnswer) -> Iterator[bytes]:
    """Yield pieces, and let go of an answer of which they may need no row."""
    with closing(answer):
        yield from pieces


def rows_of(answer: BrokerAnswer) -> Rows:
    """Yield the rows of an answer in pieces, and close it."""
    for batch in at_most(answer, None):
        for start in range(0, batch.num_rows, PIECE_ROWS):
            yield list(_rows(batch.slice(start, PIECE_ROWS)))


def _rows(batch: pa.RecordBatch) -> Iterator[Row]:
    return cast("Iterator[Row]", zip(*map(_values, batch.columns), strict=True))


def _values(column: pa.Array) -> Sequence[object]:
    if column.null_count == len(column):  # also of the type that has nothing else
        return [None] * len(column)
    return json_values(column.type, stringifies=False)(column)
