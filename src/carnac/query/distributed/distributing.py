"""From SQL and a catalog to what is asked of servers, and what the broker does with their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from carnac.errors import Invalid
from carnac.ports import Catalog
from carnac.ports.distributed import Distribution, GatherLimit, Stand, Way
from carnac.ports.queries import LeafRequest, QueryBasis
from carnac.query.distributed.binding import Bound, bind, scan_types, show_empty
from carnac.query.distributed.gathering import condition_of, leaf_of, stand_select, used_columns
from carnac.query.distributed.groups import split_groups
from carnac.query.distributed.merging import stand_sql
from carnac.query.distributed.naming import NotOneRound
from carnac.query.distributed.rows import split_rows
from carnac.query.distributed.settling import settle
from carnac.query.distributed.sorting import Select, reading_selects, select_of_one_round
from carnac.query.messages import first_sentence
from carnac.query.parameters import Parameters
from carnac.query.planning import Plan, Planner, Scan
from carnac.query.results import arrow_table
from carnac.query.scans import scan_sql
from carnac.query.streams.basis import basis_of
from carnac.query.syntax import Node, select_of, unparse, walk

if TYPE_CHECKING:
    import duckdb

PART = "__carnac_part_"


@dataclass(frozen=True, slots=True)
class Asked:
    """What all leaf requests of a statement have in common.

    Attributes:
        timeout_ms: None: the limit of each server's own engine; 0: none.
    """

    query_id: str
    timeout_ms: int | None


@dataclass(frozen=True, slots=True)
class _Part:
    """A SELECT that servers answer, and the tree of what the broker puts in its place."""

    select: Select
    request: LeafRequest
    stand: Stand
    final: Node


@dataclass(slots=True)
class Distributor:
    """Plans one statement for many servers.

    Args:
        cursor: One on which nothing is run besides.
        asked: Id and limit of time of the leaf requests.
        limit: Of what may be gathered.
    """

    cursor: duckdb.DuckDBPyConnection
    catalog: Catalog
    parameters: Parameters
    asked: Asked
    limit: GatherLimit

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
        show_empty(self.cursor, plan.scans, plan.tables)
        result = bind(self.cursor, self._printed(plan.statement), plan.parameters)
        settle(self.cursor, plan.statement, plan.selects, plan.parameters)
        basis = basis_of(self.cursor, sql, plan)
        if not plan.scans:
            found = self._at_broker(plan, basis, result)
        else:
            try:
                found = self.one_round(plan, basis, result)
            except NotOneRound as error:
                found = self._gathered(plan, basis, result, str(error))
        return _explained(found) if plan.is_explain else found

    def one_round(self, plan: Plan, basis: QueryBasis, result: Bound) -> Distribution:
        """Return how a settled statement whose scans are shown empty is run in one round.

        Raises:
            NotOneRound: Servers cannot answer it alone.
        """
        views = frozenset(scan.view for scan in plan.scans)
        parts: list[_Part] = []
        selects = reading_selects(plan.statement, plan.selects, views)
        for node, scope in selects:
            select = select_of_one_round(node, scope, views, plan.tables, self._whole_number)
            is_whole = node is plan.statement["node"]
            if is_whole:
                parts.append(self._part(plan, select, result, parts))
                continue
            if select.gives_all_rows and plan.statement["node"]["type"] != "SET_OPERATION_NODE":
                raise NotOneRound("it has a subquery that gives rows as they are")
            found = self._bound(select_of([]) | {"node": node}, [])
            part = self._part(plan, select, found, parts)
            _name(part.final["select_list"], found.names)
            parts.append(part)
        finals = {id(node): part.final for (node, _), part in zip(selects, parts, strict=True)}
        final = plan.statement | {"node": _replaced(plan.statement["node"], finals)}
        stands = [part.stand for part in parts]
        if self._bound(final, stands).types != result.types:
            raise NotOneRound("its parts would give other types")
        first = parts[0]
        is_alone = selects[0][0] is plan.statement["node"]
        is_union = is_alone and first.select.gives_all_rows
        return Distribution(
            way=Way.ONE_ROUND,
            reason=_reason(first.select)
            if is_alone
            else "each server answers its parts, and the broker merges them and does the rest",
            leaves=[part.request for part in parts if part.request.slices],
            final_sql=self._printed(final),
            query_id=self.asked.query_id,
            is_union=is_union,
            stands=stands,
            tables={} if is_alone else _arrow(plan.tables),
            names=result.names,
            limit=None if is_union else self.limit,
            whole_sql=self._printed(plan.statement) if result.can_send and not is_union else None,
            basis=basis,
            revision=self.catalog.revision,
        )

    def _part(self, plan: Plan, select: Select, result: Bound, others: Sequence[_Part]) -> _Part:
        """Return what is asked for one SELECT, and what the broker makes of it.

        Args:
            others: What is asked already.
        """
        view = f"{PART}{len(others)}"
        if select.is_aggregated:
            leaf, final = split_groups(select, view)
        else:
            leaf, final = split_rows(select, view, len(result.names))
        [scan] = [one for one in plan.scans if one.view == select.view]
        if any(scan.view == one.request.view for one in others):
            own = f"{scan.view}_part{len(others)}"
            leaf = _renamed(leaf, scan.view, own)
            scan = replace(scan, view=own)
        request = self._request(scan, leaf, {name: plan.tables[name] for name in select.small})
        self.cursor.execute(
            f"CREATE OR REPLACE TEMP VIEW {scan.view} AS {scan_sql(scan.columns, [], {})}"
        )
        sent = self._bound(leaf, [])
        if not sent.can_send:
            raise NotOneRound("it has values of a type that is not sent")
        stand = Stand(leaf=scan.view, view=view, types=sent.types, select=_cast_all(sent.types))
        if self._bound(final, [stand]).types != result.types:
            raise NotOneRound("its parts would give other types")
        return _Part(select, request, stand, final["node"])

    def _bound(self, statement: Node, stands: Sequence[Stand]) -> Bound:
        """Return what columns a part of the statement gives.

        Args:
            stands: What it names.

        Raises:
            NotOneRound: It needs what is outside of it, or what servers give is not what is needed.
        """
        import duckdb

        try:
            for stand in stands:
                self.cursor.execute(stand_sql(stand, []))
            return bind(self.cursor, self._printed(statement))
        except (duckdb.ProgrammingError, duckdb.NotSupportedError) as error:
            raise NotOneRound(
                f"its parts do not fit together ({first_sentence(str(error))})"
            ) from error

    def _gathered(self, plan: Plan, basis: QueryBasis, result: Bound, why: str) -> Distribution:
        leaves, stands = [], []
        scans = plan.scans
        if _only_describes(plan.statement):
            scans = [replace(scan, slices=()) for scan in scans]
        for scan in scans:
            sent, types = used_columns(plan.statement, scan.columns), scan_types(scan)
            leaves.append(self._gather(plan, scan, sent))
            stands.append(
                Stand(
                    leaf=scan.view,
                    view=scan.view,
                    types=tuple(types[one] for one in sent),
                    select=stand_select(types, sent),
                )
            )
        return Distribution(
            way=Way.GATHERED,
            reason=f"{why}, so the servers send the rows and columns that matter to the broker",
            leaves=[one for one in leaves if one.slices],
            final_sql=self._printed(plan.statement),
            query_id=self.asked.query_id,
            stands=stands,
            tables=_arrow(plan.tables),
            names=result.names,
            limit=self.limit,
            basis=basis,
            revision=self.catalog.revision,
        )

    def _gather(self, plan: Plan, scan: Scan, sent: Sequence[str]) -> LeafRequest:
        relations = [
            one for one in plan.relations if one.node and one.node["table_name"] == scan.view
        ]
        condition = condition_of(relations)
        if condition is None:  # so many rows will come, at least
            self.limit.check(
                sum(one.segment.rows for one in scan.slices if one.clip is None), size_bytes=0
            )
        leaf = leaf_of(scan.view, sent, condition, rows_max=self.limit.rows + 1)
        return self._request(scan, leaf, {})

    def _at_broker(self, plan: Plan, basis: QueryBasis, result: Bound) -> Distribution:
        return Distribution(
            way=Way.AT_BROKER,
            reason="it names no datasource, so the broker answers it alone",
            leaves=[],
            final_sql=self._printed(plan.statement),
            query_id=self.asked.query_id,
            stands=[],
            tables=_arrow(plan.tables),
            names=result.names,
            limit=None,
            basis=basis,
            revision=self.catalog.revision,
        )

    def _request(
        self, scan: Scan, statement: Node, tables: Mapping[str, Mapping[str, Sequence[Any]]]
    ) -> LeafRequest:
        return LeafRequest(
            query_id=self.asked.query_id,
            revision=self.catalog.revision,
            sql=self._printed(statement),
            view=scan.view,
            columns=scan.columns,
            slices=tuple(scan.slices),
            tables=_arrow(tables),
            timeout_ms=self.asked.timeout_ms,
        )

    def _printed(self, statement: Node) -> str:
        return unparse(self.cursor, statement)

    def _whole_number(self, node: Node) -> int | None:
        if any(one.get("class") not in {None, "CONSTANT", "CAST", "TYPE"} for one in walk(node)):
            return None
        [(found,)] = self.cursor.execute(self._printed(select_of([node]))).fetchall()
        return found if isinstance(found, int) else None


def _reason(select: Select) -> str:
    if select.is_aggregated:
        return "each server groups its rows, and the broker merges the groups"
    if select.modifiers:
        return "each server gives the rows that may matter, and the broker chooses among them"
    return "each server gives its rows, and the broker unites them"


def _name(items: Sequence[Node], names: Sequence[str]) -> None:
    """Call columns that the broker makes of parts as the statement around them does.

    Raises:
        NotOneRound: One is called as parts are.
    """
    for item, name in zip(items, names, strict=True):
        if name.lower().startswith("p_"):
            raise NotOneRound(f"a subquery's column is called '{name}'")
        item["alias"] = name


def _replaced(tree: Any, new: Mapping[int, Node]) -> Any:
    """Return a tree with other nodes in place of those of these ids."""
    if isinstance(tree, list):
        return [_replaced(one, new) for one in tree]
    if not isinstance(tree, dict):
        return tree
    found = new.get(id(tree))
    return {key: _replaced(value, new) for key, value in tree.items()} if found is None else found


def _renamed(tree: Any, view: str, own: str) -> Any:
    """Return a statement that reads a view by another name."""
    if isinstance(tree, list):
        return [_renamed(one, view, own) for one in tree]
    if not isinstance(tree, dict):
        return tree
    found = {key: _renamed(value, view, own) for key, value in tree.items()}
    if tree.get("table_name") == view:
        found |= {"table_name": own, "qualified_name": {"path": [own]}}
    return found


def _arrow(tables: Mapping[str, Mapping[str, Sequence[Any]]]) -> dict[str, object]:
    return {name: arrow_table(columns) for name, columns in tables.items()}


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
        f"segments that may matter: {len({one for one, _ in plan.basis.slices})} of {plan.basis.segments_total}",
        *(
            f"each server, over its part of {len(leaf.slices)} segments: {leaf.sql}"
            for leaf in plan.leaves
        ),
        f"the broker: {plan.final_sql}",
        *([f"a server that reads all of them: {plan.whole_sql}"] if plan.whole_sql else ()),
    ]
    return replace(plan, leaves=(), told=told)
