"""Reading: the segments of one revision as partitions, and each of them as batches of Arrow."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from carnac.bootstrap.apart import StoreApart, opened_apart
from carnac.core.quoting import quote_for_spark
from carnac.core.segments.segment import TIME_COLUMN, ColumnType
from carnac.core.time.intervals import IntervalSet
from carnac.errors import DiskFull, NotFound, ReadOnly, Revoked
from carnac.jobs.bins import BINS_PER_CORE, into_bins
from carnac.jobs.compact.read import ReadPlan, read_tables
from carnac.jobs.read_back import SPARK_TYPE, TIME_TYPE
from carnac.ports import LeaseKind, SegmentInput
from carnac.rows.normalise.shape import ORDER_PREFIX
from carnac.spark_format.failures import each_in_one_sentence, in_one_sentence
from carnac.specs.problems import suggest

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from carnac.spark_format.options import Options

PARTITION_BYTES = 64 << 20
"""Files that share a partition come to no more than this together."""
TASK_BYTES = 1 << 20
"""For less, another task costs more than it saves."""
BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """A revision of a datasource, and the columns to read of it. Picklable.

    Attributes:
        columns: Columns besides `__time`, in order.
        has_time: Whether `__time` is read.
        lease_id: Id of the reader's lease on it; None: the store cannot be written.
    """

    store: str | None
    output_url: str
    datasource: str
    revision: int
    columns: Mapping[str, ColumnType]
    has_time: bool
    lease_id: str | None
    lease_ms: int

    def schema(self) -> str:
        """Return the schema as Spark writes it: that of `store.read_spark`."""
        time = [f"{quote_for_spark(TIME_COLUMN)} {TIME_TYPE}"] if self.has_time else []
        fields = (
            f"{quote_for_spark(name)} {SPARK_TYPE[kind]}" for name, kind in self.columns.items()
        )
        return ", ".join([*time, *fields])


def pin(store: str | None, options: Options) -> Pinned:
    """Pin the revision that the options mean.

    Raises:
        NotFound: There is no such store, revision, datasource or column.
    """
    at, datasource = options.text("at"), options.datasource
    options.intervals("interval")  # a lease is taken once nothing is wrong
    with opened_apart(store) as opened:
        metadata = opened.metadata
        revision = metadata.resolve(at).revision
        found = metadata.columns(datasource, revision=revision)
        if not found:
            metadata.require_datasource(datasource, revision)
        kinds = {name: kind for name, kind in found.items() if not name.startswith(ORDER_PREFIX)}
        wanted = options.names("columns") or (TIME_COLUMN, *kinds)
        for name in wanted:
            if name != TIME_COLUMN and name not in kinds:
                message = f"datasource {datasource} has no column '{name}'{suggest(name, kinds)}"
                raise NotFound(message, column=name)
        lease_id = take_lease(opened, revision, options.lease_ms)
    return Pinned(
        store=store,
        output_url=opened.files_url(),
        datasource=datasource,
        revision=revision,
        columns={name: kind for name, kind in kinds.items() if name in wanted},
        has_time=TIME_COLUMN in wanted,
        lease_id=lease_id,
        lease_ms=options.lease_ms,
    )


def take_lease(opened: StoreApart, revision: int, ttl_ms: int) -> str | None:
    """Keep a revision and later ones readable for a while; return the lease, None: none can be written."""
    with suppress(ReadOnly, DiskFull):
        return opened.metadata.acquire_lease(
            LeaseKind.READER, holder=opened.holder, ttl_ms=ttl_ms, revision=revision
        ).lease_id
    return None


def keep_lease(opened: StoreApart, pinned: Pinned) -> None:
    """Prolong the lease on what is pinned, or take one again.

    Raises:
        NotFound: The revision is not kept any more.
    """
    if pinned.lease_id is None:
        return
    with suppress(ReadOnly, DiskFull):
        try:
            opened.metadata.renew_lease(pinned.lease_id, ttl_ms=pinned.lease_ms)
        except Revoked:
            take_lease(opened, pinned.revision, pinned.lease_ms)


def share_out(inputs: Sequence[SegmentInput]) -> list[InputPartition]:
    """Return partitions of whole segments, of `TASK_BYTES` at least where the cores of this machine like more of them.

    Each task of a write makes segments of its own, so that many of a few rows would become more of fewer.
    """
    size_bytes = sum(one.segment.size_bytes for one in inputs)
    bins = into_bins(
        inputs,
        lambda one: one.segment.size_bytes,
        cores=min((os.cpu_count() or 1) * BINS_PER_CORE, 1 + size_bytes // TASK_BYTES),
        per_core=1,
        most=PARTITION_BYTES,
    )
    return [InputPartition(tuple(some)) for some in bins]


@each_in_one_sentence
def read_partition(
    pinned: Pinned, schema: StructType, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """Yield the visible rows of the segments of a partition, in a task.

    Raises:
        Corrupt: A file is gone or damaged.
    """
    import pyarrow as pa

    target = to_arrow_schema(schema, timezone="UTC")
    plan = ReadPlan(
        output_url=pinned.output_url,
        columns=tuple(pinned.columns.items()),
        truncate_to=None,
        chunks=(),
    )
    for source in partition.value or ():  # Spark makes a partition of None where there are none
        for table in read_tables(plan, source):
            columns = [_as(table.column(field.name), field.type) for field in target]
            plain = pa.Table.from_arrays(columns, schema=target)
            yield from plain.to_batches(max_chunksize=BATCH_ROWS)


def _as(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return column if column.type == kind else column.cast(kind)


class RevisionReader(DataSourceReader):
    """Reads one revision.

    It takes no filters: Spark 4.3 keeps what one plan has pushed down for all plans of the same DataFrame, which then
    miss rows.

    Args:
        within: Rows to read; None: all.
    """

    def __init__(self, pinned: Pinned, schema: StructType, within: IntervalSet | None) -> None:
        self._pinned = pinned
        self._schema = schema
        self._within = within

    @in_one_sentence
    def partitions(self) -> Sequence[InputPartition]:
        """Find the segments, when the DataFrame is run for the first time."""
        pinned = self._pinned
        with opened_apart(pinned.store) as opened:
            keep_lease(opened, pinned)
            found = opened.metadata.visible(
                pinned.datasource, revision=pinned.revision, intervals=self._within
            )
        return share_out(
            [
                SegmentInput(segment=one.segment, visible=self._shown(one.entry.visible))
                for one in found
            ]
        )

    def _shown(self, visible: IntervalSet) -> IntervalSet:
        return visible if self._within is None else visible.intersect(self._within)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition, in a task."""
        return read_partition(self._pinned, self._schema, partition)
