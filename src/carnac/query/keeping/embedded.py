"""Statements of one process: run as a leaf and its broker where partial results are worth it, else as they are."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from carnac.core.segments.segment import ColumnType
from carnac.core.words import counted
from carnac.ports.distributed import GatherLimit
from carnac.ports.memo import Memo, key_of_values
from carnac.ports.queries import QueryBasis
from carnac.query.binding import bind, show_empty
from carnac.query.distributed.aggregates import (
    COUNTS,
    DISTINCT_VALUES,
    MEANS,
    SAME,
    SUMS,
    function_name,
    is_aggregate,
)
from carnac.query.distributed.distributing import Asked, Distributor
from carnac.query.distributed.leaves import checked_leaf
from carnac.query.distributed.merging import stand_sql
from carnac.query.distributed.naming import NotOneRound
from carnac.query.distributed.settling import settle
from carnac.query.hours import with_scans
from carnac.query.keeping.leaf import keys_of
from carnac.query.keeping.whole import key_of_whole, whole_answer
from carnac.query.planning import Plan, scan_of
from carnac.query.results import arrow_table, tidy
from carnac.query.scans import rows_in, scan_sql, with_views
from carnac.query.syntax import walk

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from carnac.ports.distributed import Stand
    from carnac.ports.queries import Keeping, LeafRequest
    from carnac.query.keeping.rows import LeafRunner
    from carnac.query.planning import Scan
    from carnac.query.running.query import RunningQuery
    from carnac.query.scans import KeptRows

_NO_BASIS = QueryBasis(
    statement="", slices=(), columns={}, tables=(), is_volatile=False, segments_total=0
)
"""The caller has the basis of the statement."""
_PLAIN = COUNTS | SUMS | MEANS | SAME | {"approx_count_distinct"}
SHARE = 5
"""Factor on a leaf's minimum of rows, for a statement that is split only to keep its results."""
_Split: TypeAlias = tuple[str, Hashable, tuple[tuple[str, ColumnType], ...]]
"""A statement, its values, and the columns of what it reads."""
SPLITS_MAX = 500
"""Statements whose splits are remembered."""
SPLIT_CHARS_MAX = 16 << 20
"""Maximum number of characters of these, and of their parts."""
ROUND_BYTES_MAX = 256 << 20
"""Maximum size of a partial result in memory; a statement that gives more is run as it is."""


def _memo() -> Memo[_Split, tuple[Round | None]]:
    return Memo(
        values_max=SPLITS_MAX,
        weight_max=SPLIT_CHARS_MAX,
        weigh=lambda key, _: 3 * len(key[0]),  # the statement, what a leaf is asked, and the rest
    )


@dataclass(frozen=True, slots=True)
class Round:
    """A statement in one round: the request to a leaf, and the final statement over its rows."""

    request: LeafRequest
    stand: Stand
    final_sql: str
    names: Sequence[str]


@dataclass(frozen=True, slots=True)
class Embedded:
    """Shows what planned statements read. Safe for threads.

    Attributes:
        leaves: Runs what is kept, and has the files.
    """

    leaves: LeafRunner
    _splits: Memo[_Split, tuple[Round | None]] = field(default_factory=_memo)

    @contextmanager
    def shown(self, query: RunningQuery, plan: Plan, keeping: Keeping) -> Iterator[Plan]:
        """Give the plan as it can be run: its views are there, and its files stay until the block ends."""
        if not plan.is_explain and self.leaves.may(keeping):
            plan = replace(plan, whole=whole_answer(self.leaves.kept, plan, keeping))
        if plan.whole is not None and plan.whole.table is not None:
            yield replace(plan, kept=len(plan.whole.slices))
            return
        round_plan = self._in_one_round(query, plan, keeping)
        if round_plan is not None:
            yield round_plan
            return
        if plan.is_explain:
            plan = replace(
                plan, told=[*plan.said_of_segments(), *self._said_of_kept(query, plan, keeping)]
            )
        files = self.leaves.files
        edge = None if plan.is_explain else plan.edge
        plan = replace(plan, scans=[files.narrowed(scan, edge, query, None) for scan in plan.scans])
        with files.held(plan.scans, query.stop) as paths:
            for name, table in plan.tables.items():
                query.cursor.register(name, arrow_table(table))
            slices = plan.slices
            with files.hot.held(slices, paths) as hot:
                selects = {scan.view: partial(_select, scan, paths, hot) for scan in plan.scans}
                yield replace(plan, sql=with_scans(query.cursor, plan.sql, selects))

    def _in_one_round(self, query: RunningQuery, plan: Plan, keeping: Keeping) -> Plan | None:
        """Run what a leaf would run; return the plan of what a broker makes of it, None: it is not worth it."""
        split = self._worth(query, plan, keeping)
        if split is None:
            return None
        [scan] = plan.scans
        request = replace(split.request, slices=tuple(scan.slices), keeping=keeping)
        rows, hits = self._rows(query, request)
        if rows is None:
            return None
        stand = split.stand
        places = [f"p_{place}" for place in range(len(stand.types))]
        query.cursor.register(f"{stand.leaf}_0", tidy(rows.rename_columns(places)))
        sql = with_views(split.final_sql, {stand.view: stand_sql(stand, [f"{stand.leaf}_0"])})
        return replace(plan, sql=sql, parameters=(), names=split.names, kept=hits)

    def _worth(self, query: RunningQuery, plan: Plan, keeping: Keeping) -> Round | None:
        """Return a statement in one round, without its slices; None: it cannot be, or is not worth it."""
        if len(plan.scans) != 1 or not self.leaves.may(keeping):
            return None
        rows = rows_in(plan.scans[0].slices)
        if rows < SHARE * self.leaves.kept.rows_min or not may_be_kept(plan):
            return None
        return self._split(query, plan)

    def _has_whole(self, plan: Plan, keeping: Keeping) -> bool:
        slices = plan.slices
        key, kept = key_of_whole(plan), self.leaves.kept
        if key is None or not (keeping.use and slices):
            return False
        return bool(kept.find(key, keys_of(slices)).results)

    def _said_of_kept(self, query: RunningQuery, plan: Plan, keeping: Keeping) -> Iterator[str]:
        """Yield how a statement that is explained would be run, and how much of its result is kept."""
        bare = replace(plan, is_explain=False, sql=plan.sql.removeprefix("EXPLAIN "))
        is_run = plan.sql.startswith("EXPLAIN ANALYZE ")  # as it is
        if not is_run and self._has_whole(bare, keeping):
            read = f"{bare.segments_read} of {counted(bare.segments_read, 'segment')}"
            yield f"embedded: this process has the whole answer; taken from kept ones: {read}"
            return
        split = None if is_run else self._worth(query, bare, keeping)
        if split is None:
            yield "embedded: this process reads the segments itself, as DuckDB plans it; nothing is kept"
            return
        request = replace(split.request, slices=tuple(plan.scans[0].slices), keeping=keeping)
        leaf = checked_leaf(query.cursor, request)
        scan = scan_of(request)
        hits = self.leaves.count_kept(self.leaves.task(query, request, leaf, scan))
        yield (
            f"embedded: this process answers as one server and its broker, so that partial results are kept; "
            f"taken from kept ones: {hits} of {counted(len(request.slices), 'segment')}"
        )
        yield f"over the others: {request.sql}"
        yield f"over all: {split.final_sql}"

    def _split(self, query: RunningQuery, plan: Plan) -> Round | None:
        """Return a statement in one round, without its slices; None: it cannot be. It is known from the last time."""
        key = _key_of(plan)
        if key is None:
            return split_alone(query, plan)
        return self._splits.get(key, lambda: (split_alone(query, plan),))[0]

    def _rows(self, query: RunningQuery, request: LeafRequest) -> tuple[pa.Table | None, int]:
        """Return the leaf's rows, None if they are too large, and how many slices were kept."""
        import pyarrow as pa

        leaf = checked_leaf(query.cursor, request)
        scan = scan_of(request)
        task = self.leaves.task(query, request, leaf, scan)
        if not task.pieces or any(self.leaves.kept.is_large(one.key) for one in task.pieces):
            return None, 0
        for name, table in request.tables.items():
            query.cursor.register(name, table)
        held, size_bytes = [], 0
        with self.leaves.rows(query, task, None) as rows:
            for batch in rows.batches:
                held.append(batch)
                size_bytes += batch.nbytes
                if size_bytes > ROUND_BYTES_MAX:
                    return None, 0
                query.require_wanted()
            return pa.Table.from_batches(held, rows.schema), rows.hits


def may_be_kept(plan: Plan) -> bool:
    """Whether a statement gives groups of one datasource, by aggregates that cost no more in parts than as a whole."""
    node = plan.statement["node"]
    if plan.is_explain or len(plan.scans) != 1 or len(plan.selects) != 1:
        return False
    inside = list(walk(node)) if node["type"] == "SELECT_NODE" else []
    aggregates = [one for one in inside if is_aggregate(one)]
    if any(
        function_name(one) not in (DISTINCT_VALUES if one["distinct"] else _PLAIN)
        for one in aggregates
    ):
        return False
    if not any(one.get("class") == "COLUMN_REF" for one in inside):
        return False  # how many rows there are is written in the files
    kinds = {one["type"] for one in node["modifiers"]}
    return bool(node["group_expressions"] or aggregates or "DISTINCT_MODIFIER" in kinds)


def split_alone(query: RunningQuery, plan: Plan) -> Round | None:
    """Return a statement in one round, without its slices; None: it cannot be."""
    cursor = query.cursor
    own = copy.deepcopy((plan.statement, plan.selects, plan.relations))  # they are settled
    plan = replace(plan, statement=own[0], selects=own[1], relations=own[2])
    show_empty(cursor, plan.scans, plan.tables)
    result = bind(cursor, plan.sql, plan.parameters)
    settle(cursor, plan.statement, plan.selects, plan.parameters)
    distributor = Distributor(cursor, plan.catalog, (), Asked("", None), GatherLimit())
    try:
        found = distributor.one_round(plan, _NO_BASIS, result)
    except NotOneRound:
        return None
    if len(found.stands) != 1 or len(found.leaves) != 1 or found.along:
        return None
    return Round(
        replace(found.leaves[0], slices=()), found.stands[0], found.final_sql, result.names
    )


def _key_of(plan: Plan) -> _Split | None:
    """Return what a split depends on; None if it is another one each time, or cannot be told."""
    values = key_of_values(plan.parameters)
    if plan.tables or plan.is_volatile or values is None:
        return None
    return (plan.sql, values, tuple(plan.scans[0].columns.items()))


def _select(
    scan: Scan, paths: Mapping[str, Path], hot: Mapping[str, KeptRows], with_hours: bool
) -> str:
    return scan_sql(scan.used, scan.slices, paths, None, hot, with_hours=with_hours)
