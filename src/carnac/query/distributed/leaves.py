"""A leaf's side: the gate for requests, the slices that it reads, and its report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from carnac.core.pruning.predicates import ANYTHING
from carnac.errors import Corrupt, Invalid, NotFound, Unavailable
from carnac.ports.memo import Memo
from carnac.ports.queries import LeafReport, LeafRequest, LeafSlice
from carnac.query.checking import check
from carnac.query.distributed.aggregates import function_name
from carnac.query.distributed.sizes import AnswerSize, size_of
from carnac.query.intact import Interrupted
from carnac.query.newest import TimeEdge, find_edge
from carnac.query.planning import Scan
from carnac.query.relations import Columns, Relation, Scope, Tables
from carnac.query.rewriting.sketching import PREFIX
from carnac.query.schema.names import column_lookup
from carnac.query.syntax import TREE_BYTES, Node, parse, unparse, walk

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


LEAVES_MAX = 2_000
"""Statements that are known to be harmless."""
LEAF_BYTES_MAX = 50 << 20
"""Maximum memory of their trees."""
_Asked: TypeAlias = tuple[str, str, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class CheckedLeaf:
    """The statement of a leaf request that may run.

    Attributes:
        selects: Each SELECT in it, and the relations of its FROM clause.
        relations: Where it reads the slices.
        edge: The end of time whose rows alone it needs; None: it needs others.
        size: Of its answer.
    """

    statement: Node
    selects: Sequence[tuple[Node, Scope]]
    relations: Sequence[Relation]
    edge: TimeEdge | None
    size: AnswerSize


_PASSED: Memo[_Asked, CheckedLeaf] = Memo(
    values_max=LEAVES_MAX,
    weight_max=LEAF_BYTES_MAX,
    weigh=lambda asked, _: TREE_BYTES * (len(asked[0]) + sum(map(len, asked[2]))),
)


def checked_leaf(cursor: duckdb.DuckDBPyConnection, request: LeafRequest) -> CheckedLeaf:
    """Let the statement of a request pass, or refuse it: it comes from another machine.

    Raises:
        Invalid: It is not a SELECT over the request's tables with functions that queries may call.
    """
    asked = (request.sql, request.view, tuple(request.columns), tuple(request.tables))
    return _PASSED.get(asked, lambda: _checked(cursor, request))


def _checked(cursor: duckdb.DuckDBPyConnection, request: LeafRequest) -> CheckedLeaf:
    prefix, statement = parse(cursor, request.sql)
    if prefix:
        raise Invalid("a server is asked for rows, not for how it would find them")
    own = {function_name(node) for node in walk(statement["node"])}
    check(statement, frozenset(name for name in own if name.startswith(PREFIX)))

    def open_table(node: Node) -> tuple[Columns | None, str]:
        name = str(node["table_name"])
        if name == request.view and not node["schema_name"] and not node["catalog_name"]:
            return column_lookup(request.columns), request.view
        if name in request.tables and not node["schema_name"] and not node["catalog_name"]:
            return None, ""
        raise Invalid(f"a server was asked for '{name}', which it was not given")

    tables = Tables(open_table, lambda *_: ANYTHING)
    tables.visit(statement)
    edge = find_edge(statement, tables.selects, lambda one: unparse(cursor, one))
    relations = [one for one in tables.found if one.datasource]
    size = size_of(statement, tables.selects)
    return CheckedLeaf(statement, tables.selects, relations, edge, size)


def register_remote(
    cursor: duckdb.DuckDBPyConnection,
    slices: Sequence[LeafSlice],
    remote: Mapping[str, object],
) -> dict[str, str]:
    """Let a statement name the files that are elsewhere; return their names by segment id."""
    names: dict[str, str] = {}
    for piece in slices:
        segment_id = piece.segment.segment_id
        if segment_id in remote:
            names[segment_id] = f"__carnac_remote_{len(names)}"
            cursor.register(names[segment_id], remote[segment_id])
    return names


def without_missing(
    scan: Scan,
    report: LeafReport,
    held: Callable[[Scan], AbstractContextManager[object]],
) -> Scan:
    """Return the scan without the segments that cannot be read, which are reported.

    Args:
        held: Finds the files of a scan, and refuses those that are not what their records say.
    """
    missing, kept, damaged = dict(report.missing), [], list(report.damaged)
    for piece in scan.slices:
        try:
            with held(replace(scan, slices=[piece])):
                kept.append(piece)
        except Interrupted:
            raise
        except (Corrupt, NotFound, Unavailable) as error:
            missing[piece.segment.segment_id] = error.message
            if isinstance(error, Corrupt):
                damaged.append(piece.segment.segment_id)
    report.missing, report.damaged = missing, damaged
    return replace(scan, slices=kept)


def reported(
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    report: LeafReport,
    require_wanted: Callable[[], None],
) -> Iterator[pa.RecordBatch]:
    """Yield batches, an empty one if there is none, and count their rows."""
    import pyarrow as pa

    is_empty = True
    for batch in batches:
        is_empty = False
        report.rows += batch.num_rows
        yield batch
        require_wanted()
    if is_empty:
        yield pa.RecordBatch.from_pylist([], schema)
