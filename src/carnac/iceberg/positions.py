"""Files of deleted positions: which rows of a segment file a revision does not show."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from carnac.core.iceberg.manifests import PATH_ID, POSITION_ID
from carnac.core.segments.segment import TIME_COLUMN

if TYPE_CHECKING:
    from carnac.core.iceberg.groups import DataFile
    from carnac.ports import DeepStorage

WRITER = f"pyarrow {pa.__version__}"
"""Another version may write other bytes: its files have other names."""


def positions_bytes(storage: DeepStorage, file: DataFile, location: str) -> bytes:
    """Return the positions of the hidden rows of a segment file; only its times are read.

    Args:
        location: Where clients find the segment file.

    Raises:
        NotFound, Unavailable: The file cannot be read.
    """
    with storage.open_read(file.segment.path) as stream:
        times = pq.read_table(stream, columns=[TIME_COLUMN]).column(0)
    at_us: Any = times.cast(pa.int64()).to_numpy()
    is_hidden = np.zeros(len(at_us), np.bool_)
    for one in file.hidden:
        is_hidden |= (at_us >= one.start_ms * 1000) & (at_us < one.end_ms * 1000)
    positions = pa.array(np.flatnonzero(is_hidden), pa.int64())
    schema = pa.schema(
        [
            _numbered("file_path", pa.string(), PATH_ID),
            _numbered("pos", pa.int64(), POSITION_ID),
        ]
    )
    paths = pa.array([location] * len(positions), pa.string())
    sink = io.BytesIO()
    table = pa.table([paths, positions], schema=schema)
    pq.write_table(table, sink, compression="zstd", store_schema=False)
    return sink.getvalue()


def count_positions(storage: DeepStorage, path: str) -> int:
    """Return how many positions a file holds that is there already."""
    with storage.open_read(path) as stream:
        rows: int = pq.read_metadata(stream).num_rows
    return rows


def _numbered(name: str, kind: pa.DataType, number: int) -> pa.Field:
    said = {b"PARQUET:field_id": str(number).encode()}
    return pa.field(name, kind, nullable=False, metadata=said)
