"""A store full of small segments, and the same files as a Delta table, from which compaction benchmarks start.

The segments are written once; for every run the store's database is put back as it was, so that all of them compact
the same.
"""

from __future__ import annotations

import concurrent.futures
import json
import shutil
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.support.events import COLUMNS, DAYS, START_S, make_table
from carnac.clock import RandomIds, SystemClock
from carnac.core.log.commits import Change, CommitKind, Publication
from carnac.core.segments.segment import ColumnType, Segment
from carnac.core.time.intervals import Interval
from carnac.metadata import open_metadata
from carnac.rows.segment_writer import SegmentWriter
from tests.support.segments import record_of

DAY_MS = 86_400_000
SORT = ("__time", "d5", "d50", "d500", "d5k")
KINDS = {"m_i1": ColumnType.LONG, "m_i2": ColumnType.LONG, "m_d1": ColumnType.DOUBLE}
TYPES = tuple(
    (name, KINDS.get(name, ColumnType.DOUBLE if name == "m_d2" else ColumnType.STRING))
    for name in COLUMNS
)
SEGMENTS_PER_COMMIT = 100
DATASOURCE = "events"


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallSegments:
    """The store and its pristine database.

    Attributes:
        days: Files of each day, in order of time.
    """

    folder: Path
    segments: tuple[Segment, ...]

    @property
    def days(self) -> list[list[Path]]:
        """Files of each day."""
        days: dict[Interval, list[Path]] = {}
        for segment in self.segments:
            days.setdefault(segment.chunk, []).append(self.folder / "deep-storage" / segment.path)
        return [files for _, files in sorted(days.items())]

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(segment.rows for segment in self.segments)

    def reset(self) -> None:
        """Put the database back, and remove what has been written since."""
        known = {segment.path for segment in self.segments}
        deep = self.folder / "deep-storage"
        for path in deep.rglob("*.parquet"):
            if path.relative_to(deep).as_posix() not in known:
                path.unlink()
        for path in self.folder.glob("metadata.db*"):
            path.unlink()
        shutil.copyfile(self.folder / "pristine.db", self.folder / "metadata.db")


def make_small_segments(folder: Path, *, rows: int, segments: int) -> SmallSegments:
    """Write the segments unless they are there, publish them, and keep a copy of the database."""
    pristine = folder / "pristine.db"
    records = folder / "segments.json"
    if not pristine.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _write_all(folder, rows=rows, segments=segments)
    from carnac.core.segments.record import load_segment

    loaded = tuple(load_segment(text) for text in json.loads(records.read_text()))
    return SmallSegments(folder=folder, segments=loaded)


def _write_all(folder: Path, *, rows: int, segments: int) -> None:
    from carnac.core.segments.record import dump_segment

    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        counts = [rows // DAYS + (day < rows % DAYS) for day in range(DAYS)]
        jobs = [
            pool.submit(_write_day, folder, day, count, segments // DAYS + (day < segments % DAYS))
            for day, count in enumerate(counts)
        ]
        written = [segment for job in jobs for segment in job.result()]
    (folder / "segments.json").write_text(json.dumps([dump_segment(one) for one in written]))
    publish(folder, written)
    shutil.copyfile(folder / "metadata.db", folder / "pristine.db")


def publish(folder: Path, segments: list[Segment]) -> None:
    """Append the segments, some in each commit."""
    metadata = open_metadata(
        f"sqlite:///{folder / 'metadata.db'}", clock=SystemClock(), ids=RandomIds()
    )
    metadata.put_settings({"deep_storage": "deep-storage"})
    for start in range(0, len(segments), SEGMENTS_PER_COMMIT):
        chosen = tuple(segments[start : start + SEGMENTS_PER_COMMIT])
        change = Change(datasource=DATASOURCE, adds=chosen)
        metadata.publish(Publication(kind=CommitKind.APPEND, changes=(change,)))
    metadata.close()


def _write_day(folder: Path, day: int, rows: int, count: int) -> list[Segment]:
    table = day_table(day, rows)
    edges = np.linspace(0, rows, count + 1).astype(int)
    return [
        write_one(folder, table.slice(start, end - start), day, f"{day:02d}-{index:03d}")
        for index, (start, end) in enumerate(pairwise(edges))
    ]


def day_table(day: int, rows: int) -> pa.Table:
    """Return rows of one day, in random order."""
    table = make_table(rows, file_index=day)
    times = pc.cast(table["__time"], pa.int64()).to_numpy()
    start_us, day_us = START_S * 10**6, DAY_MS * 1000
    moved = start_us + day * day_us + (times - start_us) % day_us
    return table.set_column(0, "__time", pa.array(moved).cast(pa.timestamp("us", "UTC")))


def write_one(folder: Path, rows: pa.Table, day: int, name: str) -> Segment:
    """Write one sorted segment, as an ingestion does, and return its record."""
    order = pc.sort_indices(rows, sort_keys=[(column, "ascending") for column in SORT])
    deep = (folder / "deep-storage").absolute()
    path = f"segments/{DATASOURCE}/small/{name}.parquet"
    with SegmentWriter(
        deep.as_uri(), path, TYPES, temp_dir=str(folder), sort_columns=SORT
    ) as writer:
        writer.write(rows.take(order))
        written = writer.finish()
    start_ms = START_S * 1000 + day * DAY_MS
    return record_of(
        written,
        segment_id=name,
        datasource=DATASOURCE,
        chunk=Interval(start_ms, start_ms + DAY_MS),
        path=path,
        sort_columns=SORT,
        created_at_ms=start_ms,
    )


def make_delta_table(source: SmallSegments, folder: Path) -> Path:
    """Return a Delta table, partitioned by day, of copies of the same files."""
    from deltalake import Schema
    from deltalake.transaction import AddAction, create_table_with_add_actions

    if folder.exists():
        return folder
    folder.mkdir(parents=True)
    actions = []
    deep = source.folder / "deep-storage"
    for segment in source.segments:
        day = str((segment.chunk.start_ms // 1000 - START_S) // 86_400)
        name = f"day={day}/{segment.segment_id}.parquet"
        (folder / f"day={day}").mkdir(exist_ok=True)
        shutil.copyfile(deep / segment.path, folder / name)
        actions.append(
            AddAction(
                path=name,
                size=segment.size_bytes,
                partition_values={"day": day},
                modification_time=segment.created_at_ms,
                data_change=True,
                stats=json.dumps({"numRecords": segment.rows}),
            )
        )
    fields = [("__time", pa.timestamp("us", "UTC"))]
    words = {ColumnType.LONG: pa.int64(), ColumnType.DOUBLE: pa.float64()}
    fields += [(name, words.get(kind, pa.string())) for name, kind in TYPES]
    schema = Schema.from_arrow(pa.schema([*fields, ("day", pa.string())]))
    create_table_with_add_actions(str(folder), schema, actions, partition_by=["day"])
    return folder
