"""A leaf's side: the gate for what it is asked, and the end of rows that are too many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from carnac.errors import Invalid
from carnac.ports import FileSlice, LeafRequest, RowLimit
from carnac.query.checking import check
from carnac.query.distributed.aggregates import function_name
from carnac.query.sketching import PREFIX
from carnac.query.syntax import parse, walk

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


def check_leaf(cursor: duckdb.DuckDBPyConnection, request: LeafRequest) -> None:
    """Let the statements of a request pass, or refuse them: they come from another machine.

    Raises:
        Invalid: One is not a SELECT over the request's tables with functions that queries may call.
    """
    tables = {request.view, *request.tables}
    for sql in (request.sql, *([request.edge.sql] if request.edge is not None else [])):
        prefix, statement = parse(cursor, sql)
        if prefix:
            raise Invalid("a server is asked for rows, not for how it would find them")
        own = {function_name(node) for node in walk(statement["node"])}
        check(statement, frozenset(name for name in own if name.startswith(PREFIX)))
        for node in walk(statement["node"]):
            if node.get("type") == "BASE_TABLE" and (
                node["table_name"] not in tables or node["schema_name"] or node["catalog_name"]
            ):
                raise Invalid(
                    f"a server was asked for '{node['table_name']}', which it was not given"
                )


def ids_of(slices: Iterable[FileSlice]) -> frozenset[str]:
    """Return the ids of segments."""
    return frozenset(piece.segment.segment_id for piece in slices)


def limited(batches: Iterator[pa.RecordBatch], limit: RowLimit | None) -> Iterator[pa.RecordBatch]:
    """Yield batches while they are within the limit.

    Raises:
        Invalid: They are more.
    """
    rows = size_bytes = 0
    for batch in batches:
        rows += batch.num_rows
        size_bytes += batch.nbytes
        if limit is not None:
            limit.check(rows, size_bytes)
        yield batch
