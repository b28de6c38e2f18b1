"""From SQL and a catalog to the requests to servers, and the broker's statement over their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from carnac.errors import Invalid
from carnac.ports import Catalog
from carnac.ports.distributed import (
    Along,
    Distribution,
    GatherLimit,
    Stand,
    TooMuch,
    Way,
    said_of_slices,
)
from carnac.ports.queries import LeafRequest, QueryBasis
from carnac.query.binding import Bound, bind, cast_all, scan_types, show_empty, show_types
from carnac.query.distributed.aggregates import is_aggregate
from carnac.query.distributed.gathering import condition_of, leaf_of, stand_select
from carnac.query.distributed.groups import split_groups
from carnac.query.distributed.merging import stand_sql
from carnac.query.distributed.naming import NotOneRound, column
from carnac.query.distributed.nesting import (
    called,
    joined_queries_of,
    name_columns,
    reading,
    replaced,
    subqueries_of,
)
from carnac.query.distributed.ranking import first_ranks
from carnac.query.distributed.rows import split_rows
from carnac.query.distributed.settling import settle
from carnac.query.distributed.sorting import (
    ALONG,
    SMALL_ROWS_MAX,
    Select,
    reading_selects,
    select_of_one_round,
    sources_of,
)
from carnac.query.messages import first_sentence
from carnac.query.parameters import Parameters
from carnac.query.planning import Plan, Planner, Scan
from carnac.query.relations import Relation, Scope
from carnac.query.results import arrow_tables
from carnac.query.scans import rows_in, with_views
from carnac.query.schema.used import used_columns, used_types
from carnac.query.streams.basis import basis_of
from carnac.query.syntax import Node, base_table, cast_to, select_of, unparse, walk

if TYPE_CHECKING:
    import duckdb

PART = "__carnac_part_"


@dataclass(frozen=True, slots=True)
class Asked:
    """The common part of all leaf requests of a statement.

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
    _used: set[str] = field(default_factory=set)
    _may_be_many: bool = False

    def distribute(self, sql: str, columns: set[str]) -> Distribution:
        """Return how the statement is run.

        Args:
            columns: Names that a user may have meant by one that is unknown; filled here.

        Raises:
            Invalid: It cannot be run, or not over many servers.
            NotFound: It names what is not in the revision.
            duckdb.Error: It names a column that is not there, or puts together what does not fit.
        """
        planner = Planner(self.cursor, self.catalog, self.parameters, is_spread=True)
        plan = planner.plan(sql)
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
            if found.along and self._may_be_many:
                with suppress(TooMuch):
                    why = f"a subquery gave more than {SMALL_ROWS_MAX:,} rows"
                    other = self._gathered(plan, basis, result, why)
                    found = replace(found, otherwise=other)
        found = replace(found, gives=list(zip(result.names, result.types, strict=True)))
        return _explained(found, plan) if plan.is_explain else found

    def one_round(
        self, plan: Plan, basis: QueryBasis, result: Bound, statement: Node | None = None
    ) -> Distribution:
        """Return how a settled statement whose scans are shown empty is run in one round.

        Args:
            statement: One in it that needs nothing of what is around it; None: all of it.

        Raises:
            NotOneRound: Servers cannot answer it alone.
        """
        statement = statement or plan.statement
        views = frozenset(scan.view for scan in plan.scans)
        within = {id(one) for one in walk(statement["node"])}
        inside = [one for one in plan.selects if id(one[0]) in within]
        parts: list[_Part] = []
        finals: dict[int, Node] = {}
        along: list[Along] = []
        for node, scope in reading_selects(statement, inside, views):
            if id(node) not in within:
                continue
            for subquery in [*subqueries_of(node), *joined_queries_of(node["from_table"])]:
                within -= {id(one) for one in walk(subquery)}
            is_whole = node is statement["node"]
            found = result if is_whole else self._bound(select_of([]) | {"node": node}, [])
            part = self._part(plan, self._select(plan, basis, node, scope, along), found, parts)
            if not is_whole:
                if part.select.gives_all_rows and statement["node"]["type"] != "SET_OPERATION_NODE":
                    raise NotOneRound("it has a subquery that gives rows as they are")
                name_columns(part.final["select_list"], found.names)
            parts.append(part)
            finals[id(node)] = part.final
        final = statement | {"node": replaced(statement["node"], finals)}
        stands = [part.stand for part in parts]
        if self._bound(final, stands).types != result.types:
            raise NotOneRound("its parts would give other types")
        whole = parts[0].select if id(statement["node"]) in finals else None
        is_union = whole is not None and whole.gives_all_rows
        whole_sql = None
        if whole is not None and result.can_send and not is_union and not along:
            whole_sql = self._printed(reading(statement, whole.view, parts[0].request.view))
        return Distribution(
            way=Way.ONE_ROUND,
            reason=_reason(whole),
            leaves=[part.request for part in parts if part.request.slices],
            final_sql=self._printed(final),
            query_id=self.asked.query_id,
            is_union=is_union,
            stands=stands,
            tables=arrow_tables(plan.tables) if whole is None else {},
            names=result.names,
            limit=None if is_union else self.limit,
            whole_sql=whole_sql,
            is_edge=whole_sql is not None and plan.edge is not None,
            basis=basis,
            revision=self.catalog.revision,
            along=along,
        )

    def _select(
        self, plan: Plan, basis: QueryBasis, node: Node, scope: Scope, along: list[Along]
    ) -> Select:
        """Return a SELECT that servers can answer, given what goes along with it, which is added to `along`.

        Raises:
            NotOneRound: They cannot.
        """
        views = frozenset(scan.view for scan in plan.scans)
        new: dict[int, Node] = {}
        for subquery in subqueries_of(node):
            inner = subquery["subquery"]["node"]
            new[id(inner)] = self._answered(plan, basis, inner, along)
        relations = list(scope.relations)
        known_tables = dict(plan.tables)
        for joined in joined_queries_of(node["from_table"]):
            new[id(joined)], known = self._answered_table(plan, basis, joined, along)
            known_tables[along[-1].table] = {}
            relations = [known if one.alias == known.alias else one for one in relations]
        scope = replace(scope, relations=relations)
        sources = sources_of(node["from_table"], views)
        scans = {scan.view: scan for scan in plan.scans}
        rows = {id(one): rows_in(scans[one["table_name"]].slices) for one in sources}
        why = NotOneRound(f"it joins datasources of more than {SMALL_ROWS_MAX:,} rows")
        for large in sorted(sources, key=lambda one: -rows[id(one)]):
            small = [one for one in sources if one is not large]
            if sum(rows[id(one)] for one in small) > SMALL_ROWS_MAX:
                continue
            found = list(along)
            named = dict(new)
            tables = dict(known_tables)
            for one in small:
                sent = self._gathered_along(plan, basis, one, scans[one["table_name"]], found)
                named[id(one)] = called(one, found[-1].table)
                tables[found[-1].table] = dict.fromkeys(sent, ())
            lean = replaced(node, named)
            try:
                select = select_of_one_round(lean, scope, views, tables, self._whole_number)
            except NotOneRound as error:
                why = error
                continue
            along[:] = found
            return select
        raise why

    def _answered(self, plan: Plan, basis: QueryBasis, inner: Node, along: list[Along]) -> Node:
        """Return a subquery that reads the answer of one, which goes along."""
        statement = select_of([]) | {"node": inner}
        result = self._bound(statement, [])
        if not result.can_send:
            raise NotOneRound("a subquery has values of a type that is not sent")
        found = self.one_round(plan, basis, result, statement)
        if self._rows_at_most(inner, found) > SMALL_ROWS_MAX:
            if inner["type"] != "SELECT_NODE" or not inner["group_expressions"]:
                raise NotOneRound(
                    f"it has a subquery that may give more than {SMALL_ROWS_MAX:,} rows"
                )
            found = replace(found, limit=replace(self.limit, rows=SMALL_ROWS_MAX))
            self._may_be_many = True
        names = [f"p_{place}" for place in range(len(result.names))]
        table = f"{ALONG}{len(self._used)}"
        self._used.add(table)
        along.append(Along(table=table, plan=replace(found, names=names)))
        types = dict(zip(names, result.types, strict=True))
        show_types(self.cursor, table, types)
        told = [
            cast_to(self.cursor, column(name), types[name]) | {"alias": said}
            for name, said in zip(names, result.names, strict=True)
        ]
        node: Node = select_of(told)["node"]
        return node | {"from_table": base_table(table, "")}

    def _answered_table(
        self, plan: Plan, basis: QueryBasis, joined: Node, along: list[Along]
    ) -> tuple[Node, Relation]:
        """Return a subquery in FROM that reads the answer of one, which goes along, and what it is in FROM."""
        alias = str(joined["alias"])
        if not alias:
            raise NotOneRound("a joined subquery has no name")
        node = self._answered(plan, basis, joined["subquery"]["node"], along)
        names = [str(item["alias"]) for item in node["select_list"]]
        names[: len(joined["column_name_alias"])] = map(str, joined["column_name_alias"])
        columns = {name.lower(): name for name in names}
        if len(columns) < len(names):
            raise NotOneRound("a joined subquery has two columns of one name")
        said = joined | {"subquery": {"node": node, "named_param_map": []}}
        return said, Relation(alias=alias.lower(), columns=columns)

    def _rows_at_most(self, node: Node, found: Distribution) -> int:
        """Return how many rows a subquery may give, as far as records tell; lookups may make more of them."""
        limits = [one for one in node["modifiers"] if one.get("limit_type") == "ROW_COUNT"]
        count = self._whole_number(limits[0]["limit"]) if limits and limits[0]["limit"] else None
        if count is not None:
            return count
        is_grouped = node["type"] != "SELECT_NODE" or node["group_expressions"]
        if not is_grouped and any(map(is_aggregate, walk(node["select_list"]))):
            return 1
        if any(one.get("type") == "TABLE_FUNCTION" for one in walk(node)):
            raise NotOneRound("a subquery makes rows")
        return sum(rows_in(leaf.slices) for leaf in found.leaves)

    def _gathered_along(
        self, plan: Plan, basis: QueryBasis, node: Node, scan: Scan, along: list[Along]
    ) -> Sequence[str]:
        """Add the rows of a datasource that is joined to `along`; return their columns."""
        sent, types = used_columns(plan.statement, scan.columns), scan_types(scan)
        own = replace(scan, view=self._own(scan))
        condition = condition_of([one for one in plan.relations if one.node is node])
        request = self._request(
            own, leaf_of(own.view, sent, condition, rows_max=self.limit.rows + 1), {}
        )
        kept = {name: types[name] for name in sent}
        stand = Stand(
            leaf=own.view,
            view=own.view,
            types=tuple(kept.values()),
            select=stand_select(kept, sent),
        )
        first = Distribution(
            way=Way.ONE_ROUND,
            reason="it goes along",
            leaves=[request] if request.slices else [],
            final_sql=f"SELECT * FROM {own.view}",
            query_id=self.asked.query_id,
            stands=[stand],
            tables={},
            names=sent,
            limit=self.limit,
            basis=basis,
            revision=self.catalog.revision,
        )
        table = f"{ALONG}{len(self._used)}"
        self._used.add(table)
        show_types(self.cursor, table, kept)
        along.append(Along(table=table, plan=first))
        return sent

    def _own(self, scan: Scan) -> str:
        """Return a name for a request over a scan that no other one has."""
        found = scan.view if scan.view not in self._used else f"{scan.view}_part{len(self._used)}"
        self._used.add(found)
        return found

    def _part(self, plan: Plan, select: Select, result: Bound, others: Sequence[_Part]) -> _Part:
        """Return the request to leaves for one SELECT, and the broker's statement over their rows.

        Args:
            others: Parts that are made already.
        """
        view = f"{PART}{len(others)}"
        if select.is_aggregated:
            leaf, final = split_groups(select, view)
        else:
            leaf, final = split_rows(select, view, len(result.names))
        [scan] = [one for one in plan.scans if one.view == select.view]
        own = replace(scan, view=self._own(scan))
        leaf = reading(leaf, scan.view, own.view)
        small = {name: plan.tables[name] for name in select.small & plan.tables.keys()}
        request = self._request(own, leaf, small)
        if own.view != scan.view:  # else it is shown already
            show_empty(self.cursor, [own], {})
        sent = self._bound(leaf, [])
        if not sent.can_send:
            raise NotOneRound("it has values of a type that is not sent")
        stand = Stand(leaf=own.view, view=view, types=sent.types, select=cast_all(sent.types))
        if self._bound(final, [stand]).types != result.types:
            raise NotOneRound("its parts would give other types")
        return _Part(select, request, stand, final["node"])

    def _bound(self, statement: Node, stands: Sequence[Stand]) -> Bound:
        """Return the columns that a part of the statement gives.

        Args:
            stands: Stands that it names.

        Raises:
            NotOneRound: The part names something outside of it, or servers give other columns than it needs.
        """
        import duckdb

        views = {stand.view: stand_sql(stand, []) for stand in stands}
        try:
            return bind(self.cursor, with_views(self._printed(statement), views))
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
            tables=arrow_tables(plan.tables),
            names=result.names,
            limit=self.limit,
            basis=basis,
            revision=self.catalog.revision,
        )

    def _gather(self, plan: Plan, scan: Scan, sent: Sequence[str]) -> LeafRequest:
        relations = [
            one for one in plan.relations if one.node and one.node["table_name"] == scan.view
        ]
        ranked = first_ranks(plan, relations[0]) if len(relations) == 1 else None
        condition, ranks = ranked or (condition_of(relations), None)
        if condition is None and ranks is None:  # so many rows will come, at least
            self.limit.check(rows_in(one for one in scan.slices if one.clip is None), size_bytes=0)
        leaf = leaf_of(scan.view, sent, condition, rows_max=self.limit.rows + 1, ranks=ranks)
        return self._request(scan, leaf, {})

    def _at_broker(self, plan: Plan, basis: QueryBasis, result: Bound) -> Distribution:
        return Distribution(
            way=Way.AT_BROKER,
            reason="it names no datasource, so the broker answers it alone",
            leaves=[],
            final_sql=self._printed(plan.statement),
            query_id=self.asked.query_id,
            stands=[],
            tables=arrow_tables(plan.tables),
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
            columns=used_types(statement, scan.columns),
            slices=tuple(scan.slices),
            tables=arrow_tables(tables),
            timeout_ms=self.asked.timeout_ms,
        )

    def _printed(self, statement: Node) -> str:
        return unparse(self.cursor, statement)

    def _whole_number(self, node: Node) -> int | None:
        if any(one.get("class") not in {None, "CONSTANT", "CAST", "TYPE"} for one in walk(node)):
            return None
        [(found,)] = self.cursor.execute(self._printed(select_of([node]))).fetchall()
        return found if isinstance(found, int) else None


def _reason(select: Select | None) -> str:
    if select is None:
        return "each server answers its parts, and the broker merges them and does the rest"
    if select.is_aggregated:
        return "each server groups its rows, and the broker merges the groups"
    if select.modifiers:
        return "each server gives the rows that may matter, and the broker chooses among them"
    return "each server gives its rows, and the broker unites them"


def _only_describes(statement: Node) -> bool:
    """Whether a statement asks for columns, not for rows."""
    source = statement["node"].get("from_table") or {}
    return source.get("type") == "SHOW_REF" and source["show_type"] == "DESCRIBE"


def _explained(plan: Distribution, planned: Plan) -> Distribution:
    """Return what says how a statement would be run; the leaves are there for callers that know the servers."""
    told = [
        f"{plan.way.value}: {plan.reason}",
        *planned.said_of_segments(),
        *(f"first, as {one.table}: {leaf.sql}" for one in plan.along for leaf in one.plan.leaves),
        *(
            f"each server, over its part of {said_of_slices(leaf.slices)}: {leaf.sql}"
            for leaf in plan.leaves
        ),
        f"the broker: {plan.final_sql}",
        *([f"a server that reads all of them: {plan.whole_sql}"] if plan.whole_sql else ()),
    ]
    return replace(plan, told=told)
