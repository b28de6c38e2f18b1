"""A stream for Spark that counts: as many rows in a batch as it is told, to an end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

START_S = 1_700_000_000
SPEC = {
    "dataSource": "counted",
    "timestampSpec": {"column": "at", "format": "posix"},
    "dimensions": [{"name": "n", "type": "long"}],
    "granularitySpec": {"segmentGranularity": "hour"},
}


class Numbers(InputPartition):
    """The numbers from `first` up to `end`, without it."""

    def __init__(self, first: int, end: int) -> None:
        super().__init__((first, end))
        self.first = first
        self.end = end


class CountingReader(DataSourceStreamReader):
    """Each batch has `step` numbers, up to `last`."""

    def __init__(self, options: dict[str, str]) -> None:
        self._step = int(options["step"])
        self._last = int(options["last"])
        self._reached = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - as Spark calls it
        return {"n": 0}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:  # noqa: N802 - as Spark calls it
        if start is not None:
            self._reached = start["n"]
        self._reached = min(self._last, self._reached + self._step)
        return {"n": self._reached}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        self._reached = max(self._reached, end["n"])
        middle = (start["n"] + end["n"]) // 2
        return [Numbers(start["n"], middle), Numbers(middle, end["n"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int]]:
        assert isinstance(partition, Numbers)
        for number in range(partition.first, partition.end):
            yield START_S + number, number

    def commit(self, end: dict[str, int]) -> None:
        """Keep everything."""


class Counting(DataSource):
    """`spark.readStream.format("counting")`."""

    @classmethod
    def name(cls) -> str:
        return "counting"

    def schema(self) -> str:
        return "at long, n long"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - as Spark calls it
        return CountingReader(dict(self.options))
