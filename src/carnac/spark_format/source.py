"""The format itself: what Spark calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from carnac.core.time.intervals import interval_set
from carnac.errors import Invalid
from carnac.spark_format import options as known
from carnac.spark_format.failures import in_one_sentence
from carnac.spark_format.following import FollowingReader
from carnac.spark_format.options import Options
from carnac.spark_format.reading import Pinned, RevisionReader, pin
from carnac.spark_format.writing import BatchWriter, StreamWriter, begin

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class CarnacSource(DataSource):
    """The format `carnac`. Spark makes one for each DataFrame, and pickles it when its schema is known."""

    _pinned: Pinned | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "carnac"

    @in_one_sentence
    def schema(self) -> str:
        """Pin the revision, and return its schema."""
        given = Options(
            self.options, tuple(dict.fromkeys((*known.READ, *known.READ_STREAM))), "reading carnac"
        )
        self._pinned = pin(given.text("store"), given)
        return self._pinned.schema()

    @in_one_sentence
    def reader(self, schema: StructType) -> RevisionReader:
        """Return what reads the pinned revision."""
        given = Options(self.options, known.READ, "reading carnac")
        within = given.intervals("interval")
        return RevisionReader(
            self._require_pinned(), schema, interval_set(within) if within else None
        )

    @in_one_sentence
    def streamReader(self, schema: StructType) -> FollowingReader:  # noqa: N802
        """Return what follows the datasource."""
        given = Options(self.options, known.READ_STREAM, "a stream from carnac")
        return FollowingReader(self._require_pinned(), schema, given)

    @in_one_sentence
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Begin a load, and return what writes it."""
        given = Options(self.options, known.WRITE, "writing carnac")
        if (given.text("writer") is None) != (given.text("batch") is None):
            raise Invalid(
                "options writer and batch go together: a batch of a writer is published once"
            )
        return BatchWriter(begin(given.text("store"), given, schema, is_overwrite=overwrite))

    @in_one_sentence
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        """Begin the load of a micro-batch, and return what writes it."""
        given = Options(self.options, known.WRITE_STREAM, "a stream into carnac")
        writer = given.text("writer")
        if writer is None:
            raise Invalid(
                "a stream into carnac needs option writer, a name of its own: by it and the number of the batch the"
                " store knows a batch that Spark brings again after a failure, and publishes it once"
            )
        if overwrite:
            raise Invalid(
                'outputMode("complete") brings all rows again with every batch; use "append", or foreachBatch with'
                " store.ingest and a replacement"
            )
        return StreamWriter(begin(given.text("store"), given, schema, is_overwrite=False), writer)

    def _require_pinned(self) -> Pinned:
        if self._pinned is None:
            raise Invalid(
                "carnac knows the schema of its rows: leave out .schema(...), and take some of the columns by option"
                " columns"
            )
        return self._pinned
