"""Rejected rows on their way from tasks to the report; the rows themselves stay in quarantine files.

Each attempt writes its own file, so a task that ran twice leaves two; the job removes those of the losers.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from carnac.ports import RejectedRows
from carnac.rows.output import OutputFile
from carnac.rows.read.reading import ReadCounts

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_RAW_EXAMPLE_CHARS = 500
_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejections:
    """The rows that one task rejected.

    Attributes:
        paths: The files with the rows, below the root of deep storage.
        examples: A few of the rows: file, line, byte_offset, raw, reason.
    """

    by_reason: Mapping[str, int] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    examples: tuple[Mapping[str, str], ...] = ()

    @property
    def count(self) -> int:
        """How many rows."""
        return sum(self.by_reason.values())


def keep_rejected(
    con: duckdb.DuckDBPyConnection,
    counts: ReadCounts,
    *,
    root_url: str,
    path: str,
    temp_dir: str,
    examples: int,
    is_logged: bool,
) -> Rejections:
    """Write the rows of the view `rejected` to a Parquet file, if there are any.

    Args:
        is_logged: Log each of them, too; a worker's log is Spark's.

    Raises:
        Unavailable: Deep storage is full or does not answer.
    """
    import pyarrow.parquet as pq

    if not counts.rows_rejected:
        return Rejections()
    output = OutputFile(root_url, path, temp_dir=temp_dir)
    try:
        reader = con.sql(
            "SELECT * FROM rejected ORDER BY file, line, byte_offset"
        ).to_arrow_reader()
        with pq.ParquetWriter(output.stream, reader.schema, compression="zstd") as writer:
            for batch in reader:
                writer.write_batch(batch)
                if is_logged:
                    _log(batch)
        output.place()
    finally:
        output.discard()
    shown = con.sql(
        f"SELECT file, line, byte_offset, left(raw, {_RAW_EXAMPLE_CHARS}) AS raw, reason FROM rejected"
        f" ORDER BY file, line, byte_offset LIMIT {examples}"
    ).to_arrow_table()
    return Rejections(
        by_reason=counts.rejected_by_reason,
        paths=(path,),
        examples=tuple(
            {key: str(value) for key, value in row.items() if value is not None}
            for row in shown.to_pylist()
        ),
    )


def _log(rows: pa.RecordBatch) -> None:
    for row in rows.to_pylist():
        _LOGGER.warning(
            "rejected: %s (%s, line %s, byte %s): %s",
            row["reason"],
            row["file"],
            row["line"],
            row["byte_offset"],
            row["raw"],
        )


def gather(
    found: Sequence[Rejections | RejectedRows], *, folder: str, examples: int
) -> RejectedRows:
    """Return what all tasks, or all parts of a load, rejected.

    Args:
        folder: Where their files are.
    """
    by_reason: Counter[str] = Counter()
    for one in found:
        by_reason.update(one.by_reason)
    shown = [example for one in found for example in one.examples]
    shown.sort(key=_place)
    return RejectedRows(
        count=by_reason.total(),
        by_reason=dict(by_reason.most_common()),
        path=folder if by_reason else None,
        examples=tuple(shown[:examples]),
    )


def _place(example: Mapping[str, str]) -> tuple[str, int, int]:
    return example["file"], int(example.get("line", 0)), int(example.get("byte_offset", 0))
