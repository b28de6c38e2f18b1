"""Small real segment files of Python rows, and a catalog over them: tests of readers need no Spark."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carnac.core.access import ALL_DATASOURCES, DatasourcePatterns
from carnac.core.log.entries import ENTRY_BITS, Entry, VisibleSegment
from carnac.core.segments.schema import unite_columns
from carnac.core.segments.segment import TIME_COLUMN, ColumnType, Partition, Segment
from carnac.core.segments.version import IdRanges, SegmentVersion, id_ranges
from carnac.core.time.intervals import Interval, IntervalSet, interval_set, parse_instant
from carnac.errors import NotFound
from carnac.ports import DeepStorage
from tests.support.clock import SequentialIds

if TYPE_CHECKING:
    from carnac.rows.segment_writer import WrittenFile

Row = Mapping[str, object]
DAY_MS = 86_400_000
REMEMBERED_MAX = 1_000
"""Of a catalog with more entries no plan is remembered: to tell it from others takes too long."""

_GUESSES: tuple[tuple[type, ColumnType], ...] = (
    (bool, ColumnType.BOOLEAN),
    (int, ColumnType.LONG),
    (float, ColumnType.DOUBLE),
    (str, ColumnType.STRING),
)


def write_segment(
    storage: DeepStorage,
    rows: Sequence[Row],
    *,
    datasource: str = "events",
    types: Mapping[str, ColumnType] | None = None,
    segment_id: str | None = None,
    chunk: Interval | None = None,
    partition: Partition | None = None,
) -> Segment:
    """Write the rows as one segment file, as the pipeline does, and return its record.

    Args:
        rows: Not empty. `__time` is epoch milliseconds, or ISO 8601 text.
        types: Types of the columns in file order; default: all names in the rows, with types guessed from the values.
        chunk: Default: the smallest run of whole days that holds the rows.
    """
    import pyarrow as pa

    from carnac.rows.segment_writer import SegmentWriter, segment_schema

    identity = segment_id or _IDS.new_id()
    path = f"segments/{datasource}/{identity}.parquet"
    columns = tuple((types or _guess_types(rows)).items())
    schema = segment_schema(columns)
    times_us = [_epoch_ms(row[TIME_COLUMN]) * 1000 for row in rows]
    arrays = [pa.array(times_us, pa.int64()).cast(schema.field(0).type)]
    arrays += [
        pa.array([row.get(name) for row in rows], schema.field(name).type) for name, _ in columns
    ]
    with tempfile.TemporaryDirectory() as folder:
        with SegmentWriter(Path(folder).as_uri(), path, columns, temp_dir=folder) as writer:
            writer.write(pa.Table.from_arrays(arrays, schema=schema))
            written = writer.finish()
        storage.write(path, (Path(folder) / path).read_bytes())
    start_ms = written.min_time_ms // DAY_MS * DAY_MS
    end_ms = written.max_time_ms // DAY_MS * DAY_MS + DAY_MS
    return record_of(
        written,
        segment_id=identity,
        datasource=datasource,
        chunk=chunk or Interval(start_ms, end_ms),
        path=path,
        partition=partition,
    )


def record_of(
    written: WrittenFile,
    *,
    segment_id: str,
    datasource: str,
    chunk: Interval,
    path: str,
    **more: Any,
) -> Segment:
    """Return the record of a segment file, of which every row was one input row.

    Args:
        more: Other fields of the record, such as `sort_columns`.
    """
    return Segment(
        segment_id=segment_id,
        datasource=datasource,
        chunk=chunk,
        path=path,
        input_rows=written.rows,
        **written.facts(),
        **more,
    )


def entry_of(
    segment: Segment, *, clip: IntervalSet | None = None, number: int = 0, revision: int = 1
) -> VisibleSegment:
    """Return an entry that shows the segment in its chunk."""
    return VisibleSegment(
        segment=segment,
        entry=Entry(
            entry_id=revision << ENTRY_BITS | number,
            segment_id=segment.segment_id,
            chunk=segment.chunk,
            span=segment.span,
            clip=clip,
            version=SegmentVersion(0),
            partition_id=number,
            overshadowed_ids=IdRanges(),
            update_group=id_ranges([number]),
        ),
    )


@dataclass(slots=True)
class MemoryCatalog:
    """A revision in memory (port `Catalog`)."""

    revision: int = 1
    edition: int = 0
    datasources: DatasourcePatterns = ALL_DATASOURCES
    entries: dict[str, list[VisibleSegment]] = field(default_factory=dict)
    named_lookups: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def store_id(self) -> str:
        """The text of all contents, so that each change makes another log of the catalog."""
        if sum(map(len, self.entries.values())) > REMEMBERED_MAX:
            return ""
        return repr((self.entries, self.named_lookups))

    def add(self, segment: Segment, *, clip: Iterable[Interval] | None = None) -> MemoryCatalog:
        """Show a segment, all of it or `clip`; return the catalog."""
        held = self.entries.setdefault(segment.datasource, [])
        clipped = None if clip is None else interval_set(clip)
        held.append(entry_of(segment, clip=clipped, number=len(held), revision=self.revision))
        return self

    def datasource_names(self) -> Sequence[str]:
        """Return the datasources, by name."""
        return sorted(self.entries)

    def visible(self, datasource: str, intervals: IntervalSet | None) -> Sequence[VisibleSegment]:
        """Return the entries whose visible instants overlap `intervals` (None: all)."""
        held = self.entries.get(datasource, [])
        if intervals is None:
            return held
        return [item for item in held if _overlaps(item.entry, intervals)]

    def columns(self, datasource: str) -> Mapping[str, ColumnType]:
        """Return the united schema, without `__time`."""
        return unite_columns(item.segment.columns for item in self.entries.get(datasource, []))

    def count_segments(self, datasource: str) -> int:
        """Return the number of visible entries."""
        return len(self.entries.get(datasource, []))

    def lookups(self) -> Mapping[str, Mapping[str, str]]:
        """Return the lookups."""
        return self.named_lookups

    def system(self, table: str) -> Sequence[Sequence[object]]:
        """Return no rows."""
        assert table
        return []


def build_catalog(
    storage: DeepStorage, datasources: Mapping[str, Sequence[Sequence[Row]]], *, revision: int = 1
) -> MemoryCatalog:
    """Write one segment for each list of rows and return a catalog that shows them all."""
    catalog = MemoryCatalog(revision=revision)
    for datasource, segments in datasources.items():
        for rows in segments:
            catalog.add(write_segment(storage, rows, datasource=datasource))
    return catalog


def without_file(storage: DeepStorage, segment: Segment) -> Segment:
    """Delete the segment's file, as no store should; return its record as it is."""
    if storage.find_file(segment.path) is None:
        raise NotFound(f"there is no file {segment.path} to delete", path=segment.path)
    storage.delete(segment.path)
    return replace(segment)


_IDS = SequentialIds("seg")


def _overlaps(entry: Entry, intervals: IntervalSet) -> bool:
    if entry.clip is None:
        return any(entry.span.overlaps(interval) for interval in intervals)
    return bool(entry.clip.intersect(intervals))


def _epoch_ms(value: object) -> int:
    return parse_instant(value) if isinstance(value, str) else int(str(value))


def _guess_types(rows: Sequence[Row]) -> dict[str, ColumnType]:
    types: dict[str, ColumnType] = {}
    for row in rows:
        for name, value in row.items():
            if name != TIME_COLUMN and (value is not None or name not in types):
                guess = next((kind for python, kind in _GUESSES if isinstance(value, python)), None)
                if guess is not None or name not in types:
                    types[name] = guess or ColumnType.STRING
    return types
