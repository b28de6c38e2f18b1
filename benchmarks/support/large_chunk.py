"""One time chunk ten times larger than an executor's memory, on Spark: does it compact, and what do its processes take.

The chunk is the month of small segments, several times over under other names (hard links). The executor is a process
of its own (`local-cluster`), with little memory; the Python workers of its tasks get as much for rows. Peaks are the
kernel's own (`VmHWM`), of every process below this one.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType

from benchmarks.support.harness import seconds, tree_cpu_seconds
from benchmarks.support.small_segments import DATASOURCE, SmallSegments, day_table
from carnac.clock import RandomIds, SystemClock
from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.log.laws import conserves
from carnac.core.segments.segment import Segment
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.errors import CarnacError
from carnac.jobs.pipeline import SparkPipeline
from carnac.ports import RewriteJob, RewriteResult, SegmentInput
from carnac.spark.session import SparkHolder, SparkSettings

MIB = 1 << 20
EXECUTOR_MIB = 512
CORES = 2
COPIES = 4
SAMPLE_S = 0.05


@dataclass(slots=True)
class Peaks:
    """Peak memory of the processes below this one, by what they are; samples while it is open."""

    jvm_mib: dict[int, float] = field(default_factory=dict)
    worker_mib: dict[int, float] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Peaks:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            for pid, command in _processes_below(os.getpid()):
                peak = _peak_mib(pid)
                known = self.jvm_mib if "java" in command else self.worker_mib
                known[pid] = max(peak, known.get(pid, 0.0))


def _processes_below(root: int) -> list[tuple[int, str]]:
    parents, names = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, tail = path.read_text().rsplit(")", 1)
        except OSError:
            continue  # it ended meanwhile
        pid = int(path.parent.name)
        parents[pid], names[pid] = int(tail.split()[1]), head.split("(", 1)[1]
    below = {root}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return [(pid, names[pid]) for pid in below - {root} if pid in names]


def _peak_mib(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    lines = (line for line in text.splitlines() if line.startswith("VmHWM"))
    return int(next(lines, "VmHWM: 0 kB").split()[1]) / 1024


def large_chunk_round(small: SmallSegments, work: Path) -> Mapping[str, float]:
    """Compact the chunk once, on a Spark of its own; return what it took."""
    folder = work / "large"
    shutil.rmtree(folder, ignore_errors=True)
    segments = _copies(small, folder)
    starts, ends = [s.chunk.start_ms for s in segments], [s.chunk.end_ms for s in segments]
    chunk = Interval(min(starts), max(ends))
    job = RewriteJob(
        key="large",
        datasource=DATASOURCE,
        chunks=(chunk,),
        inputs=tuple(
            SegmentInput(segment=one, visible=IntervalSet((one.span,))) for one in segments
        ),
        target=CompactionTarget(),
        is_whole=True,
    )
    settings = SparkSettings(
        master=f"local-cluster[1,{CORES},{EXECUTOR_MIB}]",
        config={
            "spark.driver.memory": "512m",
            "spark.executor.memory": f"{EXECUTOR_MIB}m",
            "spark.local.dir": str(work / "spark"),
        },
        log_path=work / "spark-large.log",
    )
    ends_of: list[RewriteResult | CarnacError] = []
    holder = SparkHolder(settings)
    try:
        holder.session()
        cpu_s = tree_cpu_seconds()
        pipeline = SparkPipeline(
            output_url=folder.as_uri(),
            clock=SystemClock(),
            ids=RandomIds(),
            spark=holder,
            task_memory_bytes=EXECUTOR_MIB * MIB // CORES,
        )
        with Peaks() as peaks:
            took, _ = seconds(
                lambda: pipeline.run_rewrites([job], on_end=lambda _, end: ends_of.append(end))
            )
        cpu_s = tree_cpu_seconds() - cpu_s
    finally:
        holder.close()
        shutil.rmtree(folder, ignore_errors=True)
    [end] = ends_of
    if not isinstance(end, RewriteResult) or not conserves(end.proof):
        raise SystemExit(f"the chunk was not compacted: {end}")
    return _figures(job, end, peaks, took, cpu_s)


def _figures(
    job: RewriteJob, end: RewriteResult, peaks: Peaks, took: float, cpu_s: float
) -> Mapping[str, float]:
    sample = day_table(0, 100_000)
    in_memory = sample.nbytes / sample.num_rows * job.rows / MIB
    return {
        "rows": job.rows,
        "files MiB": job.size_bytes / MIB,
        "rows in memory MiB": in_memory,
        "executor memory MiB": EXECUTOR_MIB,
        "rows / executor memory": in_memory / EXECUTOR_MIB,
        "segments in": len(job.inputs),
        "segments out": len(end.segments),
        "s": took,
        "CPU s": cpu_s,
        "peak of a JVM MiB": max(peaks.jvm_mib.values()),
        "peak of a Python worker MiB": max(peaks.worker_mib.values()),
        "peak of all Python workers MiB": sum(sorted(peaks.worker_mib.values())[-CORES:]),
    }


def _copies(small: SmallSegments, folder: Path) -> list[Segment]:
    """Link the small segments' files under other names, and return their records."""
    source = small.folder / "deep-storage"
    made = []
    for copy in range(COPIES):
        for segment in small.segments:
            path = f"copy-{copy}/{segment.segment_id}.parquet"
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            os.link(source / segment.path, folder / path)
            made.append(replace(segment, segment_id=f"{copy}-{segment.segment_id}", path=path))
    return made
