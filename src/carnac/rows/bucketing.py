"""The hash of hashed partitioning as SQL: `carnac.core.segments.partitioning.hash_bucket`, for many rows at once.

Beyond what that function takes, and readers do not prune by: floats are hashed as DuckDB writes them, arrays as JSON.
Rows of one key have one bucket: -0.0, which is the same key as 0.0, is hashed as that.
"""

from __future__ import annotations

from carnac.core.segments.segment import ColumnType
from carnac.rows.normalise.shape import RowShape, quote

_JSON = {ColumnType.STRING_ARRAY, ColumnType.LONG_ARRAY, ColumnType.DOUBLE_ARRAY}
_REAL = {ColumnType.DOUBLE, ColumnType.FLOAT}
_NULL = "~"


def bucket_sql(shape: RowShape, dimensions: tuple[str, ...], buckets: int) -> str:
    """Return the SQL of the bucket of a row, a BIGINT from 0 to `buckets` - 1."""
    types = {dimension.name: dimension.type for dimension in shape.dimensions}
    names = dimensions or shape.dimension_names
    if not names:
        return "CAST(0 AS BIGINT)"
    keys = " || ".join(
        f"'{_NULL}'" if name in shape.absent else _key(name, types[name]) for name in names
    )
    return f"CAST(('0x' || left(md5({keys}), 15)) AS BIGINT) % {buckets}"


def _key(name: str, kind: ColumnType) -> str:
    column = quote(name)
    if kind is ColumnType.DOUBLE_ARRAY:
        column = f"list_transform({column}, lambda e: CASE WHEN e = 0 THEN 0 ELSE e END)"
    text = f"CAST(to_json({column}) AS VARCHAR)" if kind in _JSON else f"CAST({column} AS VARCHAR)"
    if kind in _REAL:
        text = f"CASE WHEN {column} = 0 THEN '0.0' ELSE {text} END"
    return (
        f"(CASE WHEN {quote(name)} IS NULL THEN '{_NULL}' ELSE strlen({text}) || ':' || {text} END)"
    )
