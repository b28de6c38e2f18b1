"""The four doors of the format; each makes a reader or a writer of its options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from carnac.core.time.intervals import interval_set
from carnac.errors import Invalid
from carnac.spark_format.following import FollowingReader
from carnac.spark_format.options import READ, READ_STREAM, WRITE, WRITE_STREAM, Options
from carnac.spark_format.reading import Pinned, RevisionReader, pin
from carnac.spark_format.writing import BatchWriter, StreamWriter, begin

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Given = Mapping[str, str]
_READS = tuple(dict.fromkeys((*READ, *READ_STREAM)))


def pinned(given: Given) -> Pinned:
    """Pin the revision that is to be read, by a frame or at the start of a stream."""
    options = Options(given, _READS, "reading carnac")
    return pin(options.text("store"), options)


def reader(given: Given, of: Pinned | None, schema: StructType) -> RevisionReader:
    """Return what reads a pinned revision."""
    options = Options(given, READ, "reading carnac")
    within = options.intervals("interval")
    return RevisionReader(_required(of, options), schema, interval_set(within) if within else None)


def stream_reader(given: Given, of: Pinned | None, schema: StructType) -> FollowingReader:
    """Return what follows a datasource."""
    options = Options(given, READ_STREAM, "a stream from carnac")
    return FollowingReader(_required(of, options), schema, options)


def writer(given: Given, schema: StructType, *, is_overwrite: bool) -> BatchWriter:
    """Begin a load, and return what writes it."""
    options = Options(given, WRITE, "writing carnac")
    if (options.text("writer") is None) != (options.text("batch") is None):
        raise Invalid("options writer and batch go together: a batch of a writer is published once")
    return BatchWriter(begin(options.text("store"), options, schema, is_overwrite=is_overwrite))


def stream_writer(given: Given, schema: StructType, *, is_overwrite: bool) -> StreamWriter:
    """Begin the load of a micro-batch, and return what writes it."""
    options = Options(given, WRITE_STREAM, "a stream into carnac")
    name = options.text("writer")
    if name is None:
        raise Invalid(
            "a stream into carnac needs option writer, a name of its own: by it and the number of the batch the"
            " store knows a batch that Spark brings again after a failure, and publishes it once"
        )
    if is_overwrite:
        raise Invalid(
            'outputMode("complete") brings all rows again with every batch; use "append", or foreachBatch with'
            " store.ingest and a replacement"
        )
    return StreamWriter(begin(options.text("store"), options, schema, is_overwrite=False), name)


def _required(of: Pinned | None, options: Options) -> Pinned:
    if of is not None:
        return of
    raise Invalid(
        f"carnac knows the schema of {options.datasource}: leave out .schema(...), and take some of the columns by"
        " option columns"
    )
