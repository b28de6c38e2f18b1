"""The format itself, as Spark calls it.

Spark imports this module in each session that looks for formats, even if nobody uses the format. So the modules that
it needs are imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from carnac.spark_format.failures import in_one_sentence

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from carnac.spark_format.following import FollowingReader
    from carnac.spark_format.reading import Pinned, RevisionReader
    from carnac.spark_format.writing import BatchWriter, StreamWriter


class CarnacSource(DataSource):
    """The format `carnac`. Spark makes one for each DataFrame, and pickles it when its schema is known.

    Attributes:
        pinned: Datasource and revision to read; None before the schema was asked for.
    """

    pinned: Pinned | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "carnac"

    @in_one_sentence
    def schema(self) -> str:
        """Pin the revision, and return its schema."""
        from carnac.spark_format import doors

        self.pinned = doors.pinned(self.options)
        return self.pinned.schema()

    @in_one_sentence
    def reader(self, schema: StructType) -> RevisionReader:
        """Return what reads the pinned revision."""
        from carnac.spark_format import doors

        return doors.reader(self.options, self.pinned, schema)

    @in_one_sentence
    def streamReader(self, schema: StructType) -> FollowingReader:  # noqa: N802
        """Return what follows the datasource."""
        from carnac.spark_format import doors

        return doors.stream_reader(self.options, self.pinned, schema)

    @in_one_sentence
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Begin a load, and return what writes it."""
        from carnac.spark_format import doors

        return doors.writer(self.options, schema, is_overwrite=overwrite)

    @in_one_sentence
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        """Begin the load of a micro-batch, and return what writes it."""
        from carnac.spark_format import doors

        return doors.stream_writer(self.options, schema, is_overwrite=overwrite)
