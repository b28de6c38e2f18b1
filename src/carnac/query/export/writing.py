"""The rows of a query written to a file as they come: the memory in use does not grow with the result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from carnac.core.words import unique_names
from carnac.errors import Invalid
from carnac.ports import ExportResult
from carnac.query.export.lines import csv_expression, csv_head, json_expression
from carnac.query.export.values import csv_line, iterate_rows, to_json_value
from carnac.query.results import (
    BATCH_ROWS,
    batches_of,
    explained,
    is_huge,
    plan_table,
    renamed,
    with_longs,
)

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from carnac.ports.distributed import Distribution
    from carnac.query.planning import Plan

    Batches = Iterator[pa.RecordBatch]

GROUP_ROWS = BATCH_ROWS
"""Rows of a row group of Parquet: they are in memory together."""
LINE_ROWS = 16_384
"""Rows whose lines are in memory together."""


@dataclass(slots=True)
class RowLimit:
    """Lets so many rows pass.

    Attributes:
        rows_max: None: all.
        rows: That have passed.
        is_cut: More would have come.
    """

    rows_max: int | None
    rows: int = 0
    is_cut: bool = False

    def limit(self, batches: Batches) -> Batches:
        """Yield the batches until there are enough rows."""
        for batch in batches:
            left = batch.num_rows if self.rows_max is None else self.rows_max - self.rows
            self.is_cut = batch.num_rows > left
            self.rows += min(left, batch.num_rows)
            if left:
                yield batch.slice(0, left)
            if self.is_cut:
                return


@dataclass(slots=True)
class Export:
    """One statement that DuckDB is ready to run, and where its rows go.

    Attributes:
        relation: Its rows, not yet run.
        names: Of its columns, as they are written.
        again: Returns the rows of another statement over those of this one, named c0, c1, …
    """

    relation: duckdb.DuckDBPyRelation
    names: Sequence[str]
    again: Callable[[str], duckdb.DuckDBPyRelation]
    target: BinaryIO
    limit: RowLimit

    def write(self, form: str) -> None:
        """Write all rows.

        Raises:
            Invalid: There is no such form, or it cannot hold a value.
            OSError: The target does not take them.
            duckdb.Error: The query fails.
        """
        FORMS[form](self)

    def write_csv(self) -> None:
        """Write a line of names, then a line for each row."""
        self.target.write(csv_head(self.names))
        made = csv_expression(self._types)
        if made is not None:
            self._write_lines(made)
            return
        for row in self._rows():
            self.target.write((csv_line(row) + "\n").encode())

    def write_json_lines(self) -> None:
        """Write an object for each row."""
        names = unique_names(self.names)
        made = json_expression(self._types, names)
        if made is not None:
            self._write_lines(made)
            return
        for row in self._rows():
            block = {name: to_json_value(value) for name, value in zip(names, row, strict=True)}
            text = json.dumps(block, ensure_ascii=False, separators=(",", ":"))
            self.target.write((text + "\n").encode())

    def write_parquet(self) -> None:
        """Write a Parquet file, compressed by zstd."""
        import pyarrow.parquet as pq

        schema, batches = self._typed()
        _require_in_parquet(schema)
        with pq.ParquetWriter(self.target, schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch, row_group_size=GROUP_ROWS)

    def write_arrow(self) -> None:
        """Write an Arrow IPC file, Feather's second version."""
        import pyarrow as pa

        schema, batches = self._typed()
        with pa.ipc.new_file(self.target, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)

    @property
    def _types(self) -> list[str]:
        return [str(kind) for kind in self.relation.types]

    def _write_lines(self, expression: str) -> None:
        """Write what DuckDB has made: the texts of a batch lie one after another in its buffer."""
        _, batches = batches_of(self.again(expression), LINE_ROWS)
        for batch in self.limit.limit(batches):
            (column,) = batch.columns
            _, offsets, data = column.buffers()
            size = 8 if str(column.type) == "large_string" else 4
            ends = memoryview(offsets).cast("q" if size == 8 else "i")
            first, last = ends[column.offset], ends[column.offset + len(column)]
            self.target.write(memoryview(data)[first:last])

    def _rows(self) -> Iterator[tuple[object, ...]]:
        import pyarrow as pa

        schema, batches = batches_of(self.relation, LINE_ROWS)
        huge = {place for place, column in enumerate(schema) if is_huge(column.type)}
        for batch in self.limit.limit(batches):
            for row in iterate_rows(pa.Table.from_batches([batch])):
                yield tuple(
                    int(str(value)) if place in huge and value is not None else value
                    for place, value in enumerate(row)
                )

    def _typed(self) -> tuple[pa.Schema, Batches]:
        """Return the rows with names that differ, and whole numbers of 128 bits, such as sums, as longs."""
        schema, batches = batches_of(self.relation, GROUP_ROWS)
        rows = self.limit.limit(batches)
        return with_longs(*renamed(schema, rows, unique_names(self.names)))


def _require_in_parquet(schema: pa.Schema) -> None:
    """Refuse a column of a type that Parquet has not, such as an interval."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for field in schema:
        try:
            pq.ParquetWriter(pa.BufferOutputStream(), pa.schema([field])).close()
        except pa.ArrowNotImplementedError as error:
            raise Invalid(
                f"column '{field.name}' has a type that Parquet has not; select it as text, CAST(… AS VARCHAR), or "
                "write another format",
                column=field.name,
            ) from error


FORMS: dict[str, Callable[[Export], None]] = {
    "csv": Export.write_csv,
    "jsonl": Export.write_json_lines,
    "parquet": Export.write_parquet,
    "arrow": Export.write_arrow,
}
"""How rows are written, by the name of the form."""


def export(
    cursor: duckdb.DuckDBPyConnection,
    plan: Plan,
    revision: int,
    target: BinaryIO,
    *,
    form: str,
    rows_max: int | None,
) -> ExportResult:
    """Write the rows of a planned query.

    Raises:
        Invalid: There is no such form, or it cannot hold a value.
        OSError: The target does not take them.
        duckdb.Error: The query fails.
    """
    told = explained(cursor, plan) if plan.is_explain else None
    statement = _Statement(plan.sql, list(plan.parameters), told=told)
    limit = statement.write(cursor, target, form, rows_max)
    return ExportResult(
        rows=limit.rows,
        is_cut=limit.is_cut,
        revision=revision,
        segments_total=plan.segments_total,
        segments_read=plan.segments_read,
    )


def export_merged(
    cursor: duckdb.DuckDBPyConnection,
    plan: Distribution,
    sql: str,
    target: BinaryIO,
    *,
    form: str,
    rows_max: int | None,
) -> ExportResult:
    """Write what is made of answers by the statement over them; see `export`."""
    told = plan_table(plan.told) if plan.told else None
    limit = _Statement(sql, [], names=plan.names, told=told).write(cursor, target, form, rows_max)
    return ExportResult(
        rows=limit.rows,
        is_cut=limit.is_cut,
        revision=plan.revision,
        segments_total=plan.basis.segments_total,
        segments_read=plan.basis.segments_read,
    )


@dataclass(frozen=True, slots=True)
class _Statement:
    """The statement whose rows are written.

    Attributes:
        names: Of its columns; None: those that DuckDB gives.
        told: Lines of EXPLAIN, which are written in place of rows; None: it is no EXPLAIN.
    """

    sql: str
    values: list[object]
    names: Sequence[str] | None = None
    told: pa.Table | None = None

    def write(
        self, cursor: duckdb.DuckDBPyConnection, target: BinaryIO, form: str, rows_max: int | None
    ) -> RowLimit:
        sql, values = self.sql, self.values
        if self.told is not None:
            cursor.register("__carnac_plan", self.told)
            sql, values = "SELECT plan FROM __carnac_plan", []
        relation = cursor.sql(sql, params=values)
        numbered = ", ".join(f"c{place}" for place in range(len(relation.columns)))

        def again(expression: str) -> duckdb.DuckDBPyRelation:
            return cursor.sql(
                f"SELECT {expression} FROM ({sql}) AS __carnac_rows({numbered})", params=values
            )

        limit = RowLimit(rows_max)
        Export(relation, self.names or relation.columns, again, target, limit).write(form)
        return limit
