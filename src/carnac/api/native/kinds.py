"""The kinds of native queries, by `queryType`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from carnac.api.native.grouping import plan_groupby, plan_timeseries, plan_topn
from carnac.api.native.queries import Plan, Query
from carnac.api.native.scans import (
    plan_scan,
    plan_search,
    plan_source_metadata,
    plan_time_boundary,
)
from carnac.api.native.segments import plan_segment_metadata
from carnac.api.native.sources import Sources
from carnac.api.sql.requests import as_unreadable
from carnac.errors import Invalid
from carnac.specs.druid.blocks import Block, refused

if TYPE_CHECKING:
    from carnac.api.native.terms.values import Sql
    from carnac.ports.queries import Catalog

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
