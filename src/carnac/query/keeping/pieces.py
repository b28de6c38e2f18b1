"""A leaf statement in the form for keeping its partial results: statements without their bounds of time, and keys.

Where all rows of a segment lie within a bound, the bound leaves none of them out. So such segments are asked without
it, and their kept results are right for every window that holds them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from carnac.core.pruning.predicates import EVERYTHING, time_bounds
from carnac.core.time.intervals import IntervalSet
from carnac.query.conditions import Conditions
from carnac.query.distributed.aggregates import VOLATILE, function_name, is_aggregate
from carnac.query.distributed.leaves import CheckedLeaf
from carnac.query.folding import Constants
from carnac.query.functions import is_volatile
from carnac.query.relations import conjuncts
from carnac.query.schema.used import used_columns
from carnac.query.syntax import Node, conjunction, unparse, walk

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from carnac.ports.queries import LeafRequest, LeafSlice

_BOUNDS = frozenset({"COMPARISON", "BETWEEN"})
"""Conditions that are null for no row if they speak of `__time` and a constant alone."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Slices of a leaf request that one statement is asked of.

    Attributes:
        key: Same for statements that give the same over the same slices.
        sql: The statement, over the request's view.
    """

    key: str
    sql: str
    slices: Sequence[LeafSlice]


def may_keep(statement: Node) -> bool:
    """Whether what a statement gives is small as a rule, and the same each time."""
    node = statement["node"]
    if node["type"] != "SELECT_NODE":
        return False
    if any(is_volatile(one) or function_name(one) in VOLATILE for one in walk(node)):
        return False
    kinds = {one["type"] for one in node["modifiers"]}
    is_grouped = bool(node["group_expressions"]) or any(
        map(is_aggregate, walk(node["select_list"]))
    )
    is_first = kinds >= {"ORDER_MODIFIER", "LIMIT_MODIFIER"}
    return is_grouped or is_first or "DISTINCT_MODIFIER" in kinds


def pieces_of(
    cursor: duckdb.DuckDBPyConnection,
    request: LeafRequest,
    leaf: CheckedLeaf,
    slices: Sequence[LeafSlice],
) -> Sequence[Piece]:
    """Return the slices of a request by the statements that they are asked; nothing is kept of what gives none."""
    if not may_keep(leaf.statement):
        return []
    salt = _salt(request, leaf.statement)
    bounds = [] if leaf.edge is not None else _bounds_of(cursor, leaf)
    outside = IntervalSet()
    for _, excluded in bounds:
        outside = outside.union(excluded)
    within = [one for one in slices if is_within(one, outside)]
    if not bounds or not within:
        return [_piece(request.sql, salt, slices)]
    bare = _without(leaf.statement, [condition for condition, _ in bounds])
    found = [_piece(unparse(cursor, bare), salt, within)]
    if len(within) < len(slices):
        inside = set(map(id, within))
        rest = [one for one in slices if id(one) not in inside]
        found.append(_piece(request.sql, salt, rest))
    return found


def _piece(sql: str, salt: bytes, slices: Sequence[LeafSlice]) -> Piece:
    return Piece(key_of(sql, salt), sql, slices)


def key_of(sql: str, salt: bytes) -> str:
    """Return what is the same for a statement that is asked again."""
    return hashlib.sha256(salt + sql.encode()).hexdigest()


def is_within(piece: LeafSlice, outside: IntervalSet) -> bool:
    """Whether no row of a segment lies at an instant."""
    return not outside.overlaps(piece.segment.span)


def _salt(request: LeafRequest, statement: Node) -> bytes:
    """Return what a statement depends on besides its text: types of columns, and small tables."""
    types = types_of(request, statement)
    digest = hashlib.sha256(repr((request.view, types)).encode())
    add_tables(digest, request.tables)
    return digest.digest()


def add_tables(digest: hashlib._Hash, tables: Mapping[str, object]) -> None:
    """Add small tables to what tells one statement from others."""
    for name in sorted(tables):
        table = cast("pa.Table", tables[name])
        digest.update(repr((name, table.schema.names, table.schema.types)).encode())
        digest.update(bytes_of(table))


def types_of(request: LeafRequest, statement: Node) -> list[tuple[str, str]]:
    """Return the columns that a statement names, with their types."""
    columns = used_columns(statement, request.columns)
    return [(name, str(request.columns.get(name, ""))) for name in columns]


def bytes_of(table: pa.Table) -> memoryview:
    """Return what is the same for small tables of the same rows."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return memoryview(sink.getvalue())


def _bounds_of(
    cursor: duckdb.DuckDBPyConnection, leaf: CheckedLeaf
) -> list[tuple[Node, IntervalSet]]:
    """Return the conditions on time that WHERE joins by AND, and where in time each may not hold."""
    if len(leaf.selects) != 1 or len(leaf.relations) != 1:
        return []
    [(select, scope)], [relation] = leaf.selects, leaf.relations
    if select is not leaf.statement["node"] or relation.is_nullable or relation.is_blocked:
        return []
    asked = [one for one in conjuncts(select["where_clause"] or {}) if one.get("class") in _BOUNDS]
    if not asked:
        return []
    found = []
    with closing(cursor.cursor()) as own:  # evaluation opens a transaction, and there may be one
        constants = Constants(own, parameters=())
        conditions = Conditions(lambda path: scope.resolve(path, relation), constants)
        for one in asked:
            excluded = time_bounds(conditions.translate(one, is_negated=True))
            if excluded != EVERYTHING:
                found.append((one, excluded))
    return found


def _without(statement: Node, conditions: Sequence[Node]) -> Node:
    node = statement["node"]
    gone = set(map(id, conditions))
    left = [one for one in conjuncts(node["where_clause"]) if id(one) not in gone]
    return statement | {"node": node | {"where_clause": conjunction(left)}}
