"""From SQL and a catalog to what is asked of servers, and what the broker does with their answers."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, TypeGuard

from carnac.errors import Invalid
from carnac.ports import Catalog, Distribution, LeafRequest, PlainValue, RowLimit, Stand, Way
from carnac.query.distributed.binding import Bound, bind, scan_types, show_empty
from carnac.query.distributed.clock import stop_clock
from carnac.query.distributed.gathering import condition_of, leaf_of, stand_select, used_columns
from carnac.query.distributed.groups import split_groups
from carnac.query.distributed.merging import stand_sql
from carnac.query.distributed.naming import NotOneRound
from carnac.query.distributed.rows import split_rows
from carnac.query.distributed.sorting import Select, select_of_one_round
from carnac.query.folding import Constants
from carnac.query.planning import Plan, Planner, Scan
from carnac.query.syntax import Node, unparse, walk

if TYPE_CHECKING:
    import duckdb

GATHER_ROWS_MAX = 20_000_000
GATHER_BYTES_MAX = 1 << 30
DEFAULT_LIMIT = RowLimit(rows=GATHER_ROWS_MAX, size_bytes=GATHER_BYTES_MAX)
"""Of what a broker gathers for one statement."""
PART = "__carnac_part_"
_PLAIN = (str, bytes, int, float, bool, Decimal, datetime, date, time, timedelta, type(None))


@dataclass(frozen=True, slots=True)
class _Printed:
    """A statement as text, and the parameters that it takes."""

    sql: str
    parameters: Sequence[object]

    def plain(self) -> tuple[PlainValue, ...]:
        """Return the parameters as values that can be sent.

        Raises:
            NotOneRound: One cannot be.
        """
        found = [one for one in self.parameters if _is_plain(one)]
        if len(found) != len(self.parameters):
            raise NotOneRound("one of its parameters is no plain value")
        return tuple(found)


@dataclass(slots=True)
class Distributor:
    """Plans one statement for many servers.

    Args:
        cursor: One on which nothing is run besides.
        limit: Of what may be gathered.
    """

    cursor: duckdb.DuckDBPyConnection
    catalog: Catalog
    parameters: Sequence[object]
    limit: RowLimit

    def distribute(self, sql: str, columns: set[str]) -> Distribution:
        """Return how the statement is run.

        Args:
            columns: Names that a user may have meant by one that is unknown; filled here.

        Raises:
            Invalid: It cannot be run, or not over many servers.
            NotFound: It names what is not in the revision.
            duckdb.Error: It names a column that is not there, or puts together what does not fit.
        """
        plan = Planner(self.cursor, self.catalog, self.parameters).plan(sql)
        columns.update(name for scan in plan.scans for name in scan.columns)
        if plan.sql.startswith("EXPLAIN ANALYZE "):
            raise Invalid(
                "EXPLAIN ANALYZE cannot be run over many servers; write EXPLAIN, or run it with carnac sql"
            )
        stop_clock(self.cursor, plan.statement, plan.selects)
        show_empty(self.cursor, plan.scans, plan.tables)
        whole = _Printed(unparse(self.cursor, plan.statement), self.parameters)
        if not plan.scans:
            found = self._at_broker(plan, whole)
        else:
            result = bind(self.cursor, whole.sql, whole.parameters)
            try:
                found = self._one_round(plan, result)
            except NotOneRound as error:
                found = self._gathered(plan, whole, result, str(error))
        return _explained(found) if plan.is_explain else found

    def _one_round(self, plan: Plan, result: Bound) -> Distribution:
        import duckdb

        view = f"{PART}0"
        select = select_of_one_round(
            plan.statement,
            plan.selects,
            frozenset(scan.view for scan in plan.scans),
            plan.tables,
            self._count,
        )
        if select.is_aggregated:
            leaf_node, final_node = split_groups(select, view)
            reason = "each server groups its rows, and the broker merges the groups"
        else:
            leaf_node, final_node = split_rows(select, view, len(result.names))
            reason = "each server gives its rows, and the broker unites them"
            if select.modifiers:
                reason = (
                    "each server gives the rows that may matter, and the broker chooses among them"
                )
        leaf, final = self._printed(leaf_node), self._printed(final_node)
        try:
            sent = bind(self.cursor, leaf.sql, leaf.parameters)
            stand = Stand(leaf=view, view=view, types=sent.types, select=_cast_all(sent.types))
            self.cursor.execute(stand_sql(stand, []))
            merged = bind(self.cursor, final.sql, final.parameters)
        except duckdb.BinderException as error:
            raise NotOneRound(f"its parts do not fit together ({error})") from error
        if not sent.can_send:
            raise NotOneRound("it has values of a type that is not sent")
        if merged.types != result.types:
            raise NotOneRound("its parts would give other types")
        return self._found(
            plan,
            Way.ONE_ROUND,
            reason,
            leaves=[self._leaf(select, plan, view, leaf)],
            final=final,
            stands=[stand],
            names=result.names,
        )

    def _leaf(self, select: Select, plan: Plan, name: str, leaf: _Printed) -> LeafRequest:
        [scan] = [one for one in plan.scans if one.view == select.view]
        return LeafRequest(
            name=name,
            sql=leaf.sql,
            view=scan.view,
            columns=scan.columns,
            slices=tuple(scan.slices),
            parameters=leaf.plain(),
            tables={one: plan.tables[one] for one in select.small},
            edge=plan.edge,
        )

    def _gathered(self, plan: Plan, whole: _Printed, result: Bound, why: str) -> Distribution:
        leaves, stands = [], []
        scans = plan.scans
        if _only_describes(plan.statement):
            scans = [replace(scan, slices=()) for scan in scans]
        for place, scan in enumerate(scans):
            name = f"{PART}{place}"
            leaf, sent = self._gather(plan, scan, name)
            types = scan_types(scan)
            leaves.append(leaf)
            stands.append(
                Stand(
                    leaf=name,
                    view=scan.view,
                    types=tuple(types[one] for one in sent),
                    select=stand_select(types, sent),
                )
            )
        return self._found(
            plan,
            Way.GATHERED,
            f"{why}, so the servers send the rows and columns that matter to the broker",
            leaves=leaves,
            final=whole,
            stands=stands,
            names=result.names,
            tables=plan.tables,
            limit=self.limit,
        )

    def _gather(self, plan: Plan, scan: Scan, name: str) -> tuple[LeafRequest, list[str]]:
        relations = [
            one for one in plan.relations if one.node and one.node["table_name"] == scan.view
        ]
        condition = condition_of(relations, self._can_send)
        if condition is None:  # so many rows will come, at least
            rows = sum(piece.segment.rows for piece in scan.slices if piece.clip is None)
            self.limit.check(rows, 0)
        sent = used_columns(plan.statement, scan.columns)
        leaf = self._printed(leaf_of(scan.view, sent, condition))
        request = LeafRequest(
            name=name,
            sql=leaf.sql,
            view=scan.view,
            columns=scan.columns,
            slices=tuple(scan.slices),
            parameters=leaf.plain(),
            limit=self.limit,
        )
        return request, sent

    def _at_broker(self, plan: Plan, whole: _Printed) -> Distribution:
        return self._found(
            plan,
            Way.AT_BROKER,
            "it names no datasource, so the broker answers it alone",
            leaves=[],
            final=whole,
            stands=[],
            names=None,
            tables=plan.tables,
        )

    def _found(
        self,
        plan: Plan,
        way: Way,
        reason: str,
        *,
        leaves: Sequence[LeafRequest],
        final: _Printed,
        stands: Sequence[Stand],
        names: Sequence[str] | None,
        tables: Mapping[str, Mapping[str, Sequence[str | int]]] | None = None,
        limit: RowLimit | None = None,
    ) -> Distribution:
        return Distribution(
            way=way,
            reason=reason,
            leaves=[leaf for leaf in leaves if leaf.slices],
            final_sql=final.sql,
            parameters=final.parameters,
            stands=stands,
            tables=tables or {},
            names=names,
            limit=limit,
            revision=self.catalog.revision,
            segments_total=plan.segments_total,
        )

    def _printed(self, statement: Node) -> _Printed:
        """Return a tree as text, its parameters numbered from one."""
        found = copy.deepcopy(statement)
        numbers: dict[int, int] = {}
        for node in walk(found["node"]):
            if node.get("class") == "PARAMETER" and str(node["identifier"]).isdigit():
                number = numbers.setdefault(int(node["identifier"]), len(numbers) + 1)
                node["identifier"] = str(number)
        found["named_param_map"] = [{"key": str(n), "value": n} for n in numbers.values()]
        values = [self.parameters[old - 1] for old in numbers if old <= len(self.parameters)]
        return _Printed(unparse(self.cursor, found), values)

    def _count(self, node: Node) -> int | None:
        found = Constants(self.cursor, self.parameters).value(node)
        return found if isinstance(found, int) else None

    def _can_send(self, node: Node) -> bool:
        place = str(node["identifier"])
        if not place.isdigit() or not 1 <= int(place) <= len(self.parameters):
            return False
        return _is_plain(self.parameters[int(place) - 1])


def _is_plain(value: object) -> TypeGuard[PlainValue]:
    return type(value) in _PLAIN


def _only_describes(statement: Node) -> bool:
    """Whether a statement asks for columns, not for rows."""
    source = statement["node"].get("from_table") or {}
    return source.get("type") == "SHOW_REF" and source["show_type"] == "DESCRIBE"


def _cast_all(types: Sequence[str]) -> str:
    return ", ".join(f"CAST(p_{place} AS {kind}) AS p_{place}" for place, kind in enumerate(types))


def _explained(plan: Distribution) -> Distribution:
    """Return what says how a statement would be run, and runs nothing."""
    told = [
        f"{plan.way.value}: {plan.reason}",
        *(
            f"each server, over its part of {len(leaf.slices)} segments: {leaf.sql}"
            for leaf in plan.leaves
        ),
        f"the broker: {plan.final_sql}",
    ]
    return replace(plan, leaves=(), told=told)
