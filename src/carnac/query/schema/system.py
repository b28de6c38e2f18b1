"""The tables of `sys`: segments, servers and tasks, under Druid's names and in its order of columns.

Flags are 0 and 1. Values that nobody has asked the historicals for are null. Unlike every other table these show the
present state: the answer of a statement that names one cannot be had again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from carnac.errors import NotFound
from carnac.ports.queries import SYSTEM_TABLES
from carnac.query.messages import did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.ports import Catalog

SYSTEM_SCHEMA = "sys"


def system_table(catalog: Catalog, name: str) -> dict[str, pa.Array]:
    """Return a table of `sys` as columns.

    Raises:
        NotFound: There is no such table.
    """
    import pyarrow as pa

    named = SYSTEM_TABLES.get(name.lower())
    if named is None:
        hint = did_you_mean(name.lower(), list(SYSTEM_TABLES))
        hint = hint or f"; there are {', '.join(SYSTEM_TABLES)}"
        raise NotFound(f"there is no table '{SYSTEM_SCHEMA}.{name}'{hint}", table=name)
    rows = list(catalog.system(name.lower()))
    return {
        column: pa.array(
            [row[place] for row in rows], type=pa.int64() if kind == "BIGINT" else pa.string()
        )
        for place, (column, kind) in enumerate(named.items())
    }
