"""The spec that the types of rows make that nobody has seen yet."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from carnac.rows.duck import connect
from carnac.rows.infer.columns import look_at
from carnac.rows.infer.sampling import MEMORY_BYTES, Inferred
from carnac.rows.read.far_times import held_schema
from carnac.specs.ingest.inference import TimeHints, decide_granularity, decide_time, make_spec

if TYPE_CHECKING:
    import pyarrow as pa


def infer_from_schema(
    datasource: str, schema: pa.Schema, hints: TimeHints, scratch_dir: str
) -> Inferred:
    """Return a spec without input; time chunks are days.

    A column that holds times as text or numbers must be named.

    Raises:
        Ambiguous: It is not plain which column is the time.
    """
    if hints.column is not None and hints.format is None:
        hints = replace(hints, format="auto")
    with connect(temp_dir=scratch_dir, memory_bytes=MEMORY_BYTES) as con:
        seen = look_at(con, held_schema(schema).empty_table())
    timestamp = decide_time(seen.columns, hints, "the rows")
    block = make_spec(
        datasource, seen.columns, timestamp=timestamp, granularity=decide_granularity(0)
    )
    return Inferred(block=block, columns=seen.columns, sampled_rows=0, is_whole=False)
