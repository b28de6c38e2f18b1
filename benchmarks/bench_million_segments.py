"""A datasource of a million live segments: cold open, one day, sync of 1,000 changes, the past, memory.

The store is built once by publishing (batches of segments, 274 a day for ten years, eight columns with statistics).
Each figure is the median of five fresh processes, so that nothing is cached in Python; the operating system's cache
is warm, as it is on a machine that serves.

    python -m benchmarks.bench_million_segments [--segments 1000000] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.support.harness import RUNS, cpu_seconds, medians, seconds, write_results
from carnac.clock import RandomIds, SystemClock
from carnac.core.log.commits import Change, CommitKind, Publication
from carnac.core.segments.segment import Column, ColumnType, Segment
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.metadata import open_metadata
from carnac.metadata.store import MetadataStore

DAY_MS = 86_400_000
DAYS = 3650
PER_COMMIT = 2000
NAMES = ("page", "added", "user", "delta", "city", "count", "channel", "deleted")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--segments", type=int, default=1_000_000)
    options.add_argument("--keep", type=Path)
    options.add_argument("--measure", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.measure:
        print(json.dumps(measure(chosen.measure)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = (chosen.keep or Path(folder)) / "metadata.db"
        url = f"sqlite:///{path}"
        built = None
        if not path.exists():
            built, _ = seconds(lambda: build(url, chosen.segments))
        runs = [measured(url) for _ in range(RUNS)]
        figures: dict[str, object] = {
            "live_segments": chosen.segments,
            "segments_per_day": round(chosen.segments / DAYS),
            "database_mib": round(path.stat().st_size / 2**20),
            "build_s": None if built is None else round(built, 1),
            "medians": medians(runs),
            "aims": {
                "open_and_first_answers_s": 3,
                "one_day_ms": 20,
                "sync_1000_changes_ms": 100,
                "peak_memory_mib": 1024,
            },
        }
        write_results("million_segments", figures, packages=("sqlalchemy",))


def build(url: str, segments: int) -> None:
    """Publish them in order of time; then 1,000 appends of one segment to the last day, to be synced."""
    store = open_store(url)
    publish_segments(store, segments - 1000)
    ids = RandomIds()
    for number in range(1000):
        store.publish(append([segment(ids, DAYS - 1, number)]))
    store.close()


def publish_segments(store: MetadataStore, segments: int) -> None:
    """Publish records of segments over ten years, in order of time; there are no files."""
    ids = RandomIds()
    for first in range(0, segments, PER_COMMIT):
        count = min(PER_COMMIT, segments - first)
        store.publish(append(segment(ids, (first + n) * DAYS // segments, n) for n in range(count)))


def append(segments: Iterable[Segment]) -> Publication:
    change = Change(datasource="events", adds=tuple(segments))
    return Publication(kind=CommitKind.APPEND, changes=(change,))


def segment(ids: RandomIds, day: int, number: int) -> Segment:
    name = ids.new_id()
    start = day * DAY_MS
    return Segment(
        segment_id=name,
        datasource="events",
        chunk=Interval(start, start + DAY_MS),
        path=f"segments/events/{day}/{name}.parquet",
        size_bytes=50_000_000 + number,
        rows=5_000_000,
        input_rows=5_000_000,
        min_time_ms=start,
        max_time_ms=start + DAY_MS - 1,
        columns=tuple(
            Column(
                name=column,
                type=ColumnType.LONG if place % 2 else ColumnType.STRING,
                null_count=number,
                min_value=number if place % 2 else f"a{number}",
                max_value=number * 9 if place % 2 else f"z{number}",
            )
            for place, column in enumerate(NAMES)
        ),
        sort_columns=("__time", "page"),
        checksum="sha256:" + "0" * 64,
        row_hash=number << 40,
        created_at_ms=1,
    )


def measured(url: str) -> dict[str, float]:
    """Measure in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.bench_million_segments", "--measure", url]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(answer.stdout)
    return figures


def measure(url: str) -> dict[str, float]:
    start = time.perf_counter()
    store = open_store(url)
    head = store.head().revision
    (info,) = store.datasources()
    opened = time.perf_counter() - start
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def day(number: int, revision: int | None = None) -> Callable[[], int]:
        piece = IntervalSet((Interval(number * DAY_MS, (number + 1) * DAY_MS),))
        return lambda: len(store.visible("events", revision=revision, intervals=piece))

    first_s, found = seconds(day(1000))
    others = [seconds(day(number))[0] for number in range(1100, 1110)]
    again_s, _ = seconds(day(1000))
    past_s, past = seconds(day(1200, head // 2))
    days_cpu = [cpu_seconds(day(number))[0] for number in range(1300, 1310)]
    chunks_s, chunks = seconds(lambda: len(store.chunks("events")))
    sync_s, synced = seconds(lambda: store.changes(after=head - 1000))
    from carnac.metadata.read.reader import (
        decode_segment,  # late: opening must import what it needs
    )

    decode_segment.cache_clear()
    sync_cpu, _ = cpu_seconds(lambda: store.changes(after=head - 1000))
    publish_s, _ = seconds(lambda: store.publish(append([segment(RandomIds(), 5, 1)])))
    if len(synced) != 1000:
        raise RuntimeError(f"{len(synced)} commits synced, not 1000")
    return {
        "segments": info.segments,
        "open_and_first_answers_s": opened,
        "one_day_first_ms": first_s * 1000,
        "one_day_ms": statistics.median(others) * 1000,
        "one_day_cpu_ms": statistics.median(days_cpu) * 1000,
        "one_day_again_ms": again_s * 1000,
        "one_day_segments": found,
        "one_past_day_ms": past_s * 1000,
        "one_past_day_segments": past,
        "chunks": chunks,
        "all_chunks_ms": chunks_s * 1000,
        "sync_1000_changes_ms": sync_s * 1000,
        "sync_1000_changes_cpu_ms": sync_cpu * 1000,
        "append_first_ms": publish_s * 1000,
        "memory_after_open_mib": before_kib / 1024,
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def open_store(url: str) -> MetadataStore:
    return open_metadata(url, clock=SystemClock(), ids=RandomIds())


if __name__ == "__main__":
    main()
