"""Rows that the task of a SELECT has kept, as they are sent: by pages, and the first ones beside its state."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from carnac.api.sql.formats import ResultFormat, Shape, render
from carnac.api.sql.kinds import native_type, sql_type
from carnac.api.sql.requests import shape_of
from carnac.api.sql.runs import names_of
from carnac.errors import Invalid, NotFound

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.ports import DeepStorage

SAMPLE_ROWS = 3_000
SAMPLE_BYTES = 4 << 20
"""Of the first rows, in Arrow's form; more are in the pages."""


@dataclass(frozen=True, slots=True)
class Selected:
    """A SELECT whose task has succeeded.

    Attributes:
        payload: The task as it was submitted.
        report: Report of its attempt.
    """

    payload: Mapping[str, object]
    report: Mapping[str, object]

    @property
    def pages(self) -> Sequence[Mapping[str, Any]]:
        """The pages in order: `path`, `rows`, `sizeBytes`."""
        return cast("Sequence[Mapping[str, Any]]", self.report.get("pages") or ())

    @property
    def shape(self) -> Shape:
        """How its rows are sent unless somebody asks for another form."""
        return shape_of(self.payload)


class StatementRows:
    """Reads the rows of statements that tasks have kept.

    Args:
        files: Where they are.
    """

    def __init__(self, files: DeepStorage) -> None:
        self._files = files

    def render(
        self, selected: Selected, page: int | None, form: ResultFormat | None
    ) -> Iterator[bytes]:
        """Return the rows as they are sent, in pieces.

        Args:
            page: By its number, from 0; None: all of them.
            form: None: the one that was named with the statement.

        Raises:
            Invalid: There is no such page.
            NotFound: The rows are not kept any more.
        """
        pages = selected.pages
        if page is not None and page >= len(pages):
            raise Invalid(f"there is no page {page} of the result; it has {len(pages)}, from 0")
        shape, chosen = selected.shape, pages if page is None else pages[page : page + 1]
        names, schema, batches = self._open(selected, chosen)
        sent = Shape(form=form or shape.form, zone=shape.zone, stringifies=shape.stringifies)
        return render(sent, names, schema, batches)

    def columns(self, selected: Selected) -> list[dict[str, str]]:
        """Return the columns with their types.

        Raises:
            NotFound: The rows are not kept any more.
        """
        found = self._schema(selected)
        return columns_of(_names(selected, found), found.types)

    def first(self, selected: Selected) -> list[object]:
        """Return the first rows, `SAMPLE_ROWS` at most, as lists of values.

        Raises:
            NotFound: The rows are not kept any more.
        """
        names, schema, batches = self._open(selected, selected.pages)
        shape = Shape(form=ResultFormat.ARRAY, stringifies=selected.shape.stringifies)
        rows: list[object] = json.loads(b"".join(render(shape, names, schema, _head(batches))))
        return rows

    def results(self, selected: Selected) -> dict[str, object]:
        """Return columns and first rows as the report of Druid's task has them.

        Raises:
            NotFound: The rows are not kept any more.
        """
        columns, rows = self.columns(selected), self.first(selected)
        return {
            "signature": [{"name": one["name"], "type": one["nativeType"]} for one in columns],
            "sqlTypeNames": [one["type"] for one in columns],
            "results": rows,
            "resultsTruncated": len(rows) < sum(page["rows"] for page in selected.pages),
        }

    def _open(
        self, selected: Selected, pages: Sequence[Mapping[str, Any]]
    ) -> tuple[list[str], pa.Schema, Iterator[pa.RecordBatch]]:
        """Return the names of the columns, the schema of what is sent, and the rows."""
        for page in pages:
            self._require(page["path"])
        found = self._schema(selected)
        return (
            _names(selected, found),
            _numbered(found),
            self._batches([page["path"] for page in pages]),
        )

    def _schema(self, selected: Selected) -> pa.Schema:
        import pyarrow as pa

        path = selected.pages[0]["path"] if selected.pages else ""
        self._require(path)
        with self._files.open_read(path) as file, pa.ipc.open_stream(file) as reader:
            return reader.schema

    def _require(self, path: str) -> None:
        if not path or self._files.find_file(path) is None:
            raise NotFound(
                "the rows of this statement are not kept any more; ask again, or raise query_async_retention_ms"
            )

    def _batches(self, paths: Iterable[str]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for path in paths:
            with self._files.open_read(path) as file, pa.ipc.open_stream(file) as reader:
                yield from map(_in_numbers, reader)


def _names(selected: Selected, schema: pa.Schema) -> list[str]:
    return names_of(schema.names, str(selected.payload.get("query")), None)


def columns_of(names: Sequence[str], types: Sequence[pa.DataType]) -> list[dict[str, str]]:
    """Return columns with their types as Druid's statements tell them."""
    return [
        {"name": name, "type": sql_type(kind), "nativeType": native_type(kind)}
        for name, kind in zip(names, types, strict=True)
    ]


def _head(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the first rows."""
    rows, size = SAMPLE_ROWS, SAMPLE_BYTES
    for batch in batches:
        row_bytes = max(1, batch.nbytes // max(1, batch.num_rows))
        taken = batch.slice(0, max(0, min(rows, size // row_bytes)))
        yield taken
        rows, size = rows - taken.num_rows, size - taken.num_rows * row_bytes
        if taken.num_rows < batch.num_rows:
            return


def _numbered(schema: pa.Schema) -> pa.Schema:
    """Return the schema with instants as numbers: Druid writes them so in what a task has kept."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field(one.name, pa.int64() if pa.types.is_timestamp(one.type) else one.type)
            for one in schema
        ]
    )


def _in_numbers(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with instants as epoch milliseconds."""
    import pyarrow as pa

    columns = [
        column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
        if pa.types.is_timestamp(column.type)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_numbered(batch.schema))
