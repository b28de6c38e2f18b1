"""An append writes the segments that an ingestion of the same input writes: the same rows, chunks and partitions."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import carnac
from carnac import Store
from tests.nightly import by_day

pytestmark = pytest.mark.spark

ROWS = [
    {
        "time": f"2024-03-{4 + n % 3:02}T{n % 24:02}:15:00Z" if n % 50 else "never",
        "page": f"page {n % 7}",
        "user": f"user {n % 41}" if n % 11 else None,
        "added": n % 13 if n % 29 else "many",
    }
    for n in range(400)
]
COUNTS = [
    {"type": "count", "name": "edits"},
    {"type": "longSum", "name": "added", "fieldName": "added"},
]
ROLLED_UP = {
    "dimensions": ["page"],
    "metricsSpec": COUNTS,
    "granularitySpec": {"segmentGranularity": "day", "queryGranularity": "hour"},
}
SPECS: dict[str, dict[str, Any]] = {
    "raw": {"dimensions": ["page", "user", {"name": "added", "type": "long"}]},
    "discovered": {"dimensionsSpec": {"useSchemaDiscovery": True}},
    "rolled up": ROLLED_UP,
    "hashed": {**ROLLED_UP, "partitionsSpec": {"type": "hashed", "numShards": 3}},
    "ranges": {
        "dimensions": ["page", "user"],
        "partitionsSpec": {
            "type": "range",
            "partitionDimensions": ["page"],
            "targetRowsPerSegment": 40,
        },
    },
}


def write(folder: Path) -> list[Path]:
    """Write the rows in three formats, a third in each."""
    lines, cells, columns = folder / "a.jsonl", folder / "b.csv", folder / "c.parquet"
    lines.write_text("".join(json.dumps(row) + "\n" for row in ROWS[::3]))
    with cells.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(ROWS[0]))
        writer.writeheader()
        writer.writerows(ROWS[1::3])
    texts = {
        name: pa.array([None if row[name] is None else str(row[name]) for row in ROWS[2::3]])
        for name in ROWS[0]
    }
    pq.write_table(pa.table(texts), columns)
    return [lines, cells, columns]


def looked_at(store: Store) -> list[tuple[object, ...]]:
    """Return what the segments of both hold, but for their ids and times."""
    found = [one.segment for one in store.segments("edits")]
    facts = [
        (
            *(s.chunk, s.rows, s.input_rows, s.row_hash, s.partition),
            *(s.rollup, s.sort_columns, s.late),
            [(column.name, column.type) for column in s.columns],
        )
        for s in found
    ]
    return sorted(facts, key=repr)


@pytest.mark.parametrize("how", by_day(SPECS, 2))
def test_an_append_agrees_with_an_ingestion(spark: SparkSession, tmp_path: Path, how: str) -> None:
    spec = {"dataSource": "edits", "timestampSpec": {"column": "time"}, **SPECS[how]}
    with (
        carnac.open(tmp_path / "here", create=True) as here,
        carnac.open(tmp_path / "spark", create=True) as there,
    ):
        for path in write(tmp_path):
            one = here.append("edits", path, spec=spec).report
            other = there.ingest({**spec, "input": str(path)}).report
            assert one is not None
            assert other is not None
            assert one.rejected.by_reason == other.rejected.by_reason
            assert (one.rows_read, one.rows_written) == (other.rows_read, other.rows_written)
            assert one.rows_late == other.rows_late
        assert looked_at(here) == looked_at(there)
        assert looked_at(here) != []
