"""SQL names and types of the columns of segment files, and their field ids for readers of Iceberg tables."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

from carnac.core.segments.segment import ColumnType

HIDDEN_PREFIX = "__at_"
"""Begins the names of columns that belong to first and last metrics, not to the user."""

SQL_TYPE: Mapping[ColumnType, str] = {
    ColumnType.STRING: "VARCHAR",
    ColumnType.LONG: "BIGINT",
    ColumnType.DOUBLE: "DOUBLE",
    ColumnType.FLOAT: "FLOAT",
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.JSON: "VARCHAR",
    ColumnType.STRING_ARRAY: "VARCHAR[]",
    ColumnType.LONG_ARRAY: "BIGINT[]",
    ColumnType.DOUBLE_ARRAY: "DOUBLE[]",
    ColumnType.HLL: "BLOB",
    ColumnType.THETA: "BLOB",
    ColumnType.QUANTILES: "BLOB",
}
"""DuckDB's names for column types."""


MAX_FIELD_ID = 2**31 - 1 - 200
"""Iceberg keeps the ids above for itself."""


def field_ids(names: Iterable[str]) -> Mapping[str, int]:
    """Return the Parquet field ids of columns, and of the elements of lists, by names that `element_of` gives.

    An id is computed from the column's name. So two appends that bring the same new column at once agree without asking
    anybody, a rewrite gives its files the ids of those it read, and a datasource that is renamed keeps them.

    Two names of which the ids are the same (one pair in two thousand million) both have none.
    """
    found = {name: _field_id(name) for name in names}
    uses = Counter(found.values())
    return {name: one for name, one in found.items() if uses[one] == 1}


def element_of(column: str) -> str:
    """Return a name for the elements of a list that no column has."""
    return f"{column}\0element"


@lru_cache(maxsize=10_000)
def _field_id(name: str) -> int:
    digest = hashlib.blake2b(name.encode(), digest_size=8, person=b"carnac-field-id").digest()
    return int.from_bytes(digest, "little") % MAX_FIELD_ID + 1
