"""One native query on its way through: planned on a revision, asked as SQL, and its rows rendered as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from typing import TYPE_CHECKING

from carnac.api.native.grouping import plan_groupby, plan_timeseries, plan_topn
from carnac.api.native.queries import Plan, Query, Row, Rows
from carnac.api.native.scans import (
    plan_scan,
    plan_search,
    plan_source_metadata,
    plan_time_boundary,
)
from carnac.api.native.segments import plan_segment_metadata
from carnac.api.native.shapes import PIECE_ROWS
from carnac.api.native.sources import Sources
from carnac.api.sql.facts import JSON_TYPE
from carnac.api.sql.requests import as_unreadable
from carnac.api.sql.runs import Run, at_most
from carnac.api.sql.values import json_values
from carnac.errors import Invalid
from carnac.specs.druid.blocks import Block, refused

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.api.sql.requests import SqlRequest
    from carnac.broker import Broker
    from carnac.broker.answer import BrokerAnswer
    from carnac.ports.answers import AnswerFacts, Statement
    from carnac.ports.queries import Catalog
    from carnac.specs.druid.terms.values import Sql

KINDS: Mapping[str, Callable[[Query], Plan]] = {
    "timeseries": plan_timeseries,
    "topN": plan_topn,
    "groupBy": plan_groupby,
    "scan": plan_scan,
    "search": plan_search,
    "timeBoundary": plan_time_boundary,
    "dataSourceMetadata": plan_source_metadata,
    "segmentMetadata": plan_segment_metadata,
}
ABSENT = {
    "select": "use scan",
    "union": "ask each query by itself",
    "windowOperator": "write window functions in SQL",
}
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
            columns = batch.slice(start, PIECE_ROWS).columns
            yield list(zip(*map(_values, columns), strict=True))


def _values(column: pa.Array) -> Sequence[object]:
    if column.null_count == len(column):  # also of the type that has nothing else
        return [None] * len(column)
    return json_values(column.type, stringifies=False)(column)


def plan_query(block: Block, catalog: Catalog) -> Plan:
    """Return how a native query is run on a revision.

    Raises:
        Unreadable: It is wrong, or has a part that is not supported.
    """
    with as_unreadable():
        return _plan(block, Sources(catalog, _as_source))


def _plan(block: Block, sources: Sources, *, is_inner: bool = False) -> Plan:
    plan = KINDS.get(str(block.get("queryType")))
    if plan is None:
        raise refused(block.get("queryType"), "queryType", KINDS, ABSENT)
    query = Query(block, sources, is_inner=is_inner)
    if query.flag("bySegment"):
        raise Invalid("bySegment is not supported; sys.segments lists the segments in SQL")
    return plan(query)


def _as_source(block: Block, sources: Sources) -> tuple[str, Mapping[str, Sql]]:
    found = _plan(block, sources, is_inner=True)
    if not found.inner:
        raise Invalid(f"a query of type {block.get('queryType')} cannot be a data source")
    return found.inner, found.columns
