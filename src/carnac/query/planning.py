"""From SQL and a catalog to what DuckDB is to run: a statement, and the files of the views that it names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from carnac.core.druid.forms import DOUBLE_TEXT
from carnac.core.pruning.predicates import EVERYTHING, Predicate, time_bounds
from carnac.core.pruning.pruning import Pruner
from carnac.core.segments.segment import ColumnType
from carnac.errors import NotFound
from carnac.ports import Catalog
from carnac.ports.distributed import said_of_slices
from carnac.ports.queries import LeafRequest, LeafSlice
from carnac.query.checking import check
from carnac.query.conditions import Conditions
from carnac.query.dialect.clauses import without_clauses
from carnac.query.dialect.constants import with_pi
from carnac.query.dialect.druid import without_druid_calls
from carnac.query.dialect.qualified import without_schemas
from carnac.query.folding import Constants
from carnac.query.functions import CHOPPED, is_volatile
from carnac.query.newest import TimeEdge, find_edge
from carnac.query.parameters import Parameters, take_parameters
from carnac.query.relations import Columns, Relation, Scope, Tables, let_scans_match
from carnac.query.rewriting.bucketing import rewrite_buckets
from carnac.query.rewriting.documents import rewrite_documents
from carnac.query.rewriting.listing import Context
from carnac.query.rewriting.membership import rewrite_memberships
from carnac.query.rewriting.own import OWN_FUNCTIONS
from carnac.query.rewriting.repeating import inline_repeated, inline_tables
from carnac.query.rewriting.sketching import rewrite_sketches
from carnac.query.rewriting.wrapping import unwrap
from carnac.query.scans import slices_of
from carnac.query.schema.information import INFORMATION_SCHEMA, LOOKUP_SCHEMA
from carnac.query.schema.names import Names, column_lookup, refuse_doubled
from carnac.query.schema.system import SYSTEM_SCHEMA, system_table
from carnac.query.schema.used import used_types
from carnac.query.syntax import Node, base_table, parse, text_of, unparse, walk

if TYPE_CHECKING:
    import duckdb

    from carnac.query.distributed.sizes import AnswerSize
    from carnac.query.keeping.store import WholeAnswer

VIEW_PREFIX = "__carnac_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The view that stands for a datasource at one or more places of a statement.

    Attributes:
        columns: Without `__time`.
        used: Those that the statement may need.
        slices: Slices that are left after pruning.
        datasource: Empty at a leaf, whose request has slices alone.
    """

    view: str
    columns: Mapping[str, ColumnType]
    used: Mapping[str, ColumnType]
    slices: Sequence[LeafSlice]
    datasource: str = ""


def scan_of(leaf: LeafRequest) -> Scan:
    """Return the view of a leaf request, whose columns are those that its statement may need."""
    return Scan(view=leaf.view, columns=leaf.columns, used=leaf.columns, slices=leaf.slices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of a statement.

    Attributes:
        statement: The tree that `sql` was printed from: checked, rewritten, and naming views.
        selects: Each SELECT in it, and the relations of its FROM clause.
        relations: The datasources that it names.
        tables: Small tables that the statement names, as columns.
        edge: Set if rows at one end of time are wanted.
        parameters: Values of `?` and `$1` in `sql`, in the order of their places.
        catalog: Of the revision that is read.
        names: Of the columns; None: as `sql` gives them.
        kept: Of how many segments partial results are taken.
        pruned: How many segments are left out, and by what; of EXPLAIN alone.
        is_live: It reads what is now, whatever the revision.
        is_volatile: It depends on the time or on chance.
        told: Lines that EXPLAIN says before DuckDB's own.
        size: Of the answer; None: nobody has looked.
        whole: The answer, as far as it is kept or may be; None: it is not.
    """

    sql: str
    is_explain: bool
    statement: Node
    selects: Sequence[tuple[Node, Scope]]
    relations: Sequence[Relation]
    scans: Sequence[Scan]
    tables: Mapping[str, Mapping[str, Sequence[Any]]]
    segments_total: int
    catalog: Catalog
    edge: TimeEdge | None = None
    parameters: Sequence[object] = ()
    names: Sequence[str] | None = None
    kept: int = 0
    pruned: Mapping[str, int] = field(default_factory=dict)
    is_live: bool = False
    is_volatile: bool = False
    told: Sequence[str] = ()
    size: AnswerSize | None = None
    whole: WholeAnswer | None = None

    @property
    def slices(self) -> list[LeafSlice]:
        """Slices of all scans that are left after pruning."""
        return [piece for scan in self.scans for piece in scan.slices]

    @property
    def is_small(self) -> bool:
        """Whether the answer is known to have few rows."""
        return self.size is not None and self.size.is_small(self.slices)

    @property
    def segments_read(self) -> int:
        """How many segments the scans read, each counted once."""
        return len({piece.segment.segment_id for piece in self.slices})

    def said_of_segments(self) -> Iterator[str]:
        """Yield EXPLAIN's lines on the segments that are read, and on those that are pruned, by reason."""
        slices = {piece.segment.segment_id: piece for piece in self.slices}
        yield f"segments that may matter: {len(slices)} of {self.segments_total}"
        if slices:
            yield f"to be read: {said_of_slices(list(slices.values()))}"
        if self.pruned:
            parts = [f"{number} by {reason}" for reason, number in self.pruned.items()]
            yield f"pruned: {', '.join(parts)}"


@dataclass(slots=True)
class Planner:
    """Plans one query.

    Args:
        cursor: The one that the query will run on.
        externals: Tables that stand in it as they are called here, with the names of their columns.
        is_spread: Whether servers may answer parts of it.
    """

    cursor: duckdb.DuckDBPyConnection
    catalog: Catalog
    parameters: Parameters
    externals: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_spread: bool = False
    _is_live: bool = False
    _tables: dict[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict)
    _views: dict[tuple[str, str], str] = field(default_factory=dict)
    _scans: dict[tuple[str, Predicate], Scan] = field(default_factory=dict)

    def plan(self, sql: str) -> Plan:
        """Return the plan.

        Raises:
            Invalid: The SQL is not one SELECT statement, or names what a query may not reach.
            NotFound: It names a datasource that is not in the revision.
        """
        sql = without_clauses(sql)
        prefix, statement = parse(self.cursor, sql)
        names = Names(self.catalog, self.cursor)
        without_schemas(statement)
        without_druid_calls(self.cursor, statement)
        is_time_or_chance = any(map(is_volatile, walk(statement["node"])))
        check(statement, OWN_FUNCTIONS | {CHOPPED, DOUBLE_TEXT})
        inline_tables(statement, apart=self.is_spread)
        inline_repeated(statement)
        unwrap(statement, self._context(names))
        self._replace_show_tables(statement, names)
        parameters = take_parameters(statement, self.parameters)
        constants = Constants(self.cursor, parameters)

        def translate(node: Node, relation: Relation, scope: Scope) -> Predicate:
            return Conditions(lambda path: scope.resolve(path, relation), constants).translate(node)

        tables = Tables(lambda node: self._open_table(node, names), translate)
        tables.visit(statement)
        with_pi(statement, self._columns(tables.found, names))
        for one in {relation.datasource for relation in tables.found if relation.datasource}:
            refuse_doubled(_asked(statement), one, names.columns(one))
        rewrite_sketches(self.cursor, statement["node"], sql, tables.found, names.columns)
        rewrite_documents(self.cursor, statement["node"], sql, tables.found, names.columns)
        rewrite_buckets(self.cursor, tables.selects, constants)
        rewrite_memberships(tables.selects, names.columns)
        for select, _ in tables.selects:
            let_scans_match(select["where_clause"] or {})
        relations = [relation for relation in tables.found if relation.datasource]
        for relation in relations:
            self._use_scan(relation, names)
        datasources = {relation.datasource for relation in relations}
        scans = [
            replace(one, used=used_types(statement, one.columns)) for one in self._scans.values()
        ]
        may_narrow = not parameters and len(scans) == 1
        edge = find_edge(statement, tables.selects, self._printed) if may_narrow else None
        return Plan(
            sql=prefix + self._printed(statement),
            is_explain=bool(prefix),
            statement=statement,
            selects=tables.selects,
            relations=relations,
            scans=scans,
            tables=self._tables,
            segments_total=sum(map(self.catalog.count_segments, datasources)),
            edge=edge,
            parameters=parameters,
            catalog=self.catalog,
            pruned=self._pruned(relations, names) if prefix else {},
            is_live=self._is_live,
            is_volatile=is_time_or_chance,
        )

    def _context(self, names: Names) -> Context:
        return Context(partial(self._known_columns, names), partial(text_of, self.cursor))

    def _known_columns(self, names: Names, node: Node) -> Columns | None:
        """Return the columns of the datasource or lookup that a node means; None: it means another table."""
        if node["table_name"] in self.externals:
            return None
        if str(node["schema_name"]).lower() == LOOKUP_SCHEMA and not node["catalog_name"]:
            return {name: name for name in _pairs({})}
        try:
            return column_lookup(names.columns(names.datasource(node)))
        except NotFound:
            return None

    def _columns(self, relations: Sequence[Relation], names: Names) -> Iterator[str]:
        """Yield the names of the columns of all tables that are given from outside."""
        for name in {one.datasource for one in relations if one.datasource}:
            yield from names.columns(name)
        for listed in self.externals.values():
            yield from listed

    def _open_table(self, node: Node, names: Names) -> tuple[Columns | None, str]:
        """Return the columns and the name of the datasource that a node means; any other table is a small table."""
        schema = "" if node["catalog_name"] else str(node["schema_name"]).lower()
        table = str(node["table_name"])
        if schema == INFORMATION_SCHEMA:
            self._use_table(node, (schema, table), names.information)
            return None, ""
        if schema == SYSTEM_SCHEMA:
            self._use_table(node, (schema, table), partial(system_table, self.catalog))
            self._is_live = True
            return None, ""
        if schema == LOOKUP_SCHEMA:
            self._use_table(node, (schema, table), lambda name: _pairs(names.lookup(name)))
            return None, ""
        if table.startswith(VIEW_PREFIX) and table in self._tables:
            return None, ""
        if table in self.externals:
            return {name.lower(): name for name in self.externals[table]}, ""
        datasource = names.datasource(node)
        return column_lookup(names.columns(datasource)), datasource

    def _printed(self, statement: Node) -> str:
        return unparse(self.cursor, statement)

    def _use_scan(self, relation: Relation, names: Names) -> None:
        """Let the relation's node name the view on the segments that it may need."""
        predicate = relation.predicate
        key = (relation.datasource, predicate)
        if key not in self._scans:
            columns = names.columns(relation.datasource)
            view = f"{VIEW_PREFIX}scan_{len(self._scans)}"
            self._scans[key] = Scan(
                view=view,
                datasource=relation.datasource,
                columns=columns,
                used=columns,
                slices=self._slices(relation.datasource, predicate, columns),
            )
        if relation.node is not None:
            _point(relation.node, self._scans[key].view)

    def _slices(
        self, datasource: str, predicate: Predicate, columns: Mapping[str, ColumnType]
    ) -> list[LeafSlice]:
        bounds = time_bounds(predicate)
        if not bounds:
            return []
        entries = self.catalog.visible(datasource, None if bounds == EVERYTHING else bounds)
        pruner = Pruner(predicate, columns)
        return slices_of(item for item in entries if pruner.may_match(item.segment))

    def _pruned(self, relations: Sequence[Relation], names: Names) -> dict[str, int]:
        """Return how many segments are left out by what, over all scans."""
        found: Counter[str] = Counter()
        for datasource, predicate in {(one.datasource, one.predicate) for one in relations}:
            bounds = time_bounds(predicate)
            entries = self.catalog.visible(datasource, bounds) if bounds else []
            found["time"] += self.catalog.count_segments(datasource) - len(entries)
            pruner = Pruner(predicate, names.columns(datasource))
            reasons = (pruner.find_reason(item.segment) for item in entries)
            found.update(reason for reason in reasons if reason is not None)
        return {reason: number for reason, number in found.most_common() if number}

    def _use_table(
        self,
        node: Node,
        key: tuple[str, str],
        make: Callable[[str], Mapping[str, Sequence[Any]]],
    ) -> None:
        """Let a node name a small table, one name wherever it stands: else DuckDB groups by no subquery over it.

        Args:
            make: Returns its columns by its name.
        """
        name = self._views.get(key)
        if name is None:
            name = self._views[key] = f"{VIEW_PREFIX}table_{len(self._tables)}"
            self._tables[name] = make(key[1])
        _point(node, name)

    def _replace_show_tables(self, statement: Node, names: Names) -> None:
        for node in walk(statement["node"]):
            if node.get("type") == "SHOW_REF" and node["query"] is None:
                name = f"{VIEW_PREFIX}table_{len(self._tables)}"
                self._tables[name] = names.table_names()
                alias = node["alias"] or "tables"
                node.clear()
                node.update(base_table(name, alias))


def _pairs(mapping: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the columns of a lookup."""
    return {"k": list(mapping), "v": list(mapping.values())}


def _asked(statement: Node) -> Iterator[str]:
    """Yield the names that stand for columns, without their tables."""
    for node in walk(statement["node"]):
        if node.get("class") == "COLUMN_REF":
            yield str(node["column_names"][-1])


def _point(node: Node, view: str) -> None:
    """Let a BASE_TABLE node name a view, under the name that the statement knows."""
    node["alias"] = node["alias"] or node["table_name"]
    node["table_name"] = view
    node["schema_name"] = node["catalog_name"] = ""
    node["qualified_name"] = {"path": [view]}
