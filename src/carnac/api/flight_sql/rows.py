"""Rows as they are sent: types that each client of Arrow knows, and batches of a size that each takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from carnac.errors import Invalid
from carnac.query.results import as_longs, is_huge

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_BYTES = 2 << 20
"""About the size of a batch: ADBC takes messages of 16 MiB by default, others of 4."""


def plain_schema(schema: pa.Schema, names: Sequence[str], *, is_jdbc: bool) -> pa.Schema:
    """Return what is sent in place of a schema: whole numbers of 128 bits are longs, dictionaries are their values.

    Args:
        is_jdbc: Whether it is for the JDBC driver, which has no object for instants with a zone, and takes numbers
            without a sign for ones with a sign.
    """
    import pyarrow as pa

    return pa.schema(
        [(name, _plain(kind, is_jdbc)) for name, kind in zip(names, schema.types, strict=True)]
    )


def sent(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows in the schema that was promised, cut into batches of about `BATCH_BYTES`.

    Raises:
        Invalid: A value has no place in its column.
    """
    import pyarrow as pa

    for batch in batches:
        if batch.num_columns != len(schema):
            raise Invalid("the ticket promises other columns: ask for the statement's info again")
        columns = [
            _cast(field, values) for field, values in zip(schema, batch.columns, strict=True)
        ]
        whole = pa.RecordBatch.from_arrays(columns, schema=schema)
        size = max(1, whole.num_rows * BATCH_BYTES // max(1, whole.nbytes))
        for start in range(0, whole.num_rows, size):
            yield whole.slice(start, size)


def _plain(kind: pa.DataType, is_jdbc: bool) -> pa.DataType:
    import pyarrow as pa

    if is_huge(kind):
        return pa.int64()
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type, is_jdbc)
    if not is_jdbc:
        return kind
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type, is_jdbc))
    if pa.types.is_timestamp(kind):
        return pa.timestamp(kind.unit)
    wider = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
    return pa.int64() if pa.types.is_uint64(kind) else wider.get(kind, kind)


def _cast(field: pa.Field, values: pa.Array) -> pa.Array:
    import pyarrow as pa

    if values.type == field.type:
        return values
    if field.type == pa.int64() and (is_huge(values.type) or pa.types.is_uint64(values.type)):
        return as_longs(field.name, values)
    try:
        return values.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise Invalid(
            f"column '{field.name}' came as {values.type}, and {field.type} was promised: CAST it in the statement",
            column=field.name,
        ) from None
