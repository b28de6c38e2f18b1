"""`EXPLAIN PLAN FOR` as Druid's clients read it: one row of three texts, each a JSON value.

PLAN is a list of one object: `signature` and `columnMappings` say the columns of the statement's rows, by which clients
learn what a table has; `query` holds what EXPLAIN says here, line by line, in place of a native query.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from carnac.api.sql.kinds import native_type
from carnac.query.results import DATASOURCES, GIVES

if TYPE_CHECKING:
    import pyarrow as pa

ATTRIBUTES = {"statementType": "SELECT"}


def gives(schema: pa.Schema) -> pa.Schema | None:
    """Return the schema of the rows that an explained statement gives; None: the answer does not say it."""
    import pyarrow as pa

    found = (schema.metadata or {}).get(GIVES)
    return None if found is None else pa.ipc.read_schema(pa.py_buffer(found))


def plan_for(
    rows: pa.Schema, names: Sequence[str], batches: Iterable[pa.RecordBatch]
) -> pa.RecordBatch:
    """Return the one row.

    Args:
        rows: The schema of the statement's rows (`gives`).
        names: Of its columns.
        batches: What EXPLAIN says.
    """
    import pyarrow as pa

    lines = [line for batch in batches for line in batch.column(0).to_pylist()]
    plan = {
        "query": {"queryType": "carnac", "plan": lines},
        "signature": [
            {"name": name, "type": native_type(kind)}
            for name, kind in zip(names, rows.types, strict=True)
        ],
        "columnMappings": [{"queryColumn": name, "outputColumn": name} for name in names],
    }
    datasources = json.loads((rows.metadata or {}).get(DATASOURCES, b"[]"))
    resources = [{"name": name, "type": "DATASOURCE"} for name in datasources]
    row = {"PLAN": [plan], "RESOURCES": resources, "ATTRIBUTES": ATTRIBUTES}
    return pa.RecordBatch.from_pydict({key: [_compact(value)] for key, value in row.items()})


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
