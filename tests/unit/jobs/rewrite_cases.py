"""Random groups for rewrites, small and nasty, and what must be equal whatever way they are rewritten."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from carnac import sketches
from carnac.clock import RandomIds, SystemClock
from carnac.core.compaction.plan.groups import CompactionTarget, Partitioning
from carnac.core.log.laws import conserves
from carnac.core.segments.segment import ColumnType, Metric, MetricKind, RangePartition, Segment
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.deep_storage import open_deep_storage
from carnac.jobs.compact.parts import Scattered, ScatterTask, scatter
from carnac.jobs.compact.scatter import Gathered, GatherTask, ScatterJob, gather
from carnac.jobs.compact.shape import InputGroup
from carnac.jobs.compact.task import GroupTask
from carnac.ports import RewriteJob, RewriteResult, SegmentInput
from carnac.rows.normalise.shape import RowShape
from carnac.spark.progress import Tally
from carnac.spark.tasks import Attempt
from tests.support.estimates import estimate_hll, estimate_theta
from tests.support.pipeline import LocalPipeline
from tests.support.segments import write_segment
from tests.unit.rows.rows import CHUNK, dimensions, ingest, metric, read

HOUR_MS = 3_600_000
KINDS = ["raw", "rolled up", "rolling up", "mixed"]
AMPLE, TINY = 1 << 30, 1 << 14
"""Memory of a task that holds all of the groups below, and of one that holds none."""
TYPES = {
    "d": ColumnType.STRING,
    "n": ColumnType.LONG,
    "x": ColumnType.DOUBLE,
    "b": ColumnType.BOOLEAN,
    "tags": ColumnType.STRING_ARRAY,
}
ROLLUP = RowShape(
    dimensions=dimensions(d="string", n="long"),
    metrics=(
        metric("count", "count", "long"),
        metric("sum", "sum", "long"),
        metric("dsum", "sum", "double"),
        metric("high", "max", "double"),
        metric("first", "first", "long"),
        metric("users", "hll", "hll", params=(("lg_k", 8),)),
        metric("pages", "theta", "theta"),
        metric("sizes", "quantiles", "quantiles"),
    ),
    query_granularity="MINUTE",
    is_rollup=True,
    sort_columns=("__time", "d", "n"),
)
ATTEMPT = Attempt(0, Tally(None))
Row = Mapping[str, Any]
Rows = Sequence[Row]


@dataclass(frozen=True, slots=True)
class Case:
    """A group, and the same with only the rows that its condition keeps."""

    job: RewriteJob
    kept: RewriteJob
    condition: str


def raw_row(rng: random.Random) -> dict[str, Any]:
    return {
        "__time": rng.randrange(24 * 60) * 60_000 + rng.choice([0, 1, 250]),
        "d": rng.choice([None, "", "a", "b", "ä", "zz"]),
        "n": rng.choice([None, 0, 5, -7, 1 << 40]),
        "x": rng.choice([None, rng.random(), 2.0, -0.5, math.nan, math.inf]),
        "b": rng.choice([None, True, False]),
        "tags": rng.choice([None, [], ["a"], ["b", None]]),
    }


def rolled_row(rng: random.Random) -> dict[str, Any]:
    return {
        "__time": rng.randrange(6) * HOUR_MS + rng.randrange(3) * 60_000,
        "d": rng.choice([None, "a", "b"]),
        "n": rng.choice([None, 1, 2]),
        "__in_sum": rng.choice([None, 1, 5]),
        "__in_dsum": rng.random(),
        "__in_high": rng.random(),
        "__in_first": rng.randrange(9),
        "__in_users": rng.choice("abcdefgh"),
        "__in_pages": rng.choice("abcdefgh"),
        "__in_sizes": float(rng.randrange(100)),
    }


def is_kept(row: Row) -> bool:
    """As `CONDITION` says, in Python."""
    return row["__time"] >= 2 * HOUR_MS and (row["d"] in ("a", "ä") or (row["n"] or 0) > 0)


CONDITION = "`__time` >= timestamp_seconds(7200) AND (d IN ('a', 'ä') OR n > 0)"


def write_raw(folder: Path, groups: Sequence[Rows], name: str) -> list[Segment]:
    storage = open_deep_storage(str(folder / "store"))
    return [
        write_segment(storage, rows, types=TYPES, segment_id=f"{name}-{index}", chunk=CHUNK)
        for index, rows in enumerate(groups)
        if rows
    ]


def write_rolled(folder: Path, groups: Sequence[Rows], name: str) -> list[Segment]:
    return [
        segment
        for index, rows in enumerate(groups)
        if rows
        for segment in ingest(folder, ROLLUP, [rows], id_prefix=f"{name}{index}")
    ]


def random_target(rng: random.Random, kind: str) -> CompactionTarget:
    partitioning = rng.choice(
        [
            Partitioning(),
            Partitioning(
                kind="range", dimensions=rng.choice([("d",), ("n", "d"), ("gone", "d"), ("gone",)])
            ),
            Partitioning(
                kind="hashed", dimensions=rng.choice([(), ("d",), ("d", "gone")]), buckets=3
            ),
        ]
    )
    target = CompactionTarget(target_rows=rng.choice([40, 90]), partitioning=partitioning)
    if kind == "raw":
        sort_by = rng.choice([None, ("x", "n"), ("b", "d"), ("d", "x"), ("n",)])
        kept = rng.choice([None, ("d", "n", "x", "b"), ("n", "d")])
        return keeping(kept, replace(target, sort_by=sort_by, allow_lossy=True))
    coarse = replace(target, query_granularity=rng.choice([None, "HOUR"]), allow_lossy=True)
    if kind == "rolled up":
        return keeping(rng.choice([None, ("n", "d")]), coarse)
    if kind == "mixed":
        return as_rolled_up(
            coarse, rng.choice(["MINUTE", "HOUR"]), rng.choice([("d",), ("n", "d")])
        )
    counted = Metric(name="count", kind=MetricKind.COUNT, input=None, type=ColumnType.LONG)
    last = Metric(name="last", kind=MetricKind.LAST, input="n", type=ColumnType.LONG)
    return replace(keeping(("d", "n"), coarse), metrics=(counted, last))


def keeping(dimensions: tuple[str, ...] | None, target: CompactionTarget) -> CompactionTarget:
    """Return the target with dimensions to keep; it divides and sorts by none that it leaves out."""
    if dimensions is None:
        return target
    divided = target.partitioning.dimensions
    return replace(
        target,
        dimensions=dimensions,
        partitioning=target.partitioning if {*divided} <= {*dimensions} else Partitioning(),
        sort_by=tuple(name for name in target.sort_by or () if name in dimensions) or None,
    )


def as_rolled_up(
    target: CompactionTarget, granularity: str, dimensions: tuple[str, ...]
) -> CompactionTarget:
    """Return the target, whose metrics make raw rows what rows of `ROLLUP` are."""
    fed = {"high": "x", "users": "d", "pages": "d", "count": None}
    return replace(
        keeping(dimensions, target),
        query_granularity=granularity,
        metrics=tuple(replace(one, input=fed.get(one.name, "n")) for one in ROLLUP.metrics),
        allow_lossy=True,
    )


def write_any(folder: Path, groups: Sequence[Rows], name: str) -> list[Segment]:
    """Write raw rows as raw segments, and others rolled up."""
    raw = [rows for rows in groups if rows and "tags" in rows[0]]
    rolled = [rows for rows in groups if rows and "tags" not in rows[0]]
    return write_raw(folder, raw, f"{name}r") + write_rolled(folder, rolled, f"{name}m")


def random_case(folder: Path, kind: str, seed: int) -> Case:
    rng = random.Random(f"{kind}-{seed}")
    makes = {"rolled up": [rolled_row], "mixed": [rolled_row, raw_row]}.get(kind, [raw_row])
    groups = [
        [makes[number % len(makes)](rng) for _ in range(rng.randrange(20, 120))]
        for number in range(4)
    ]
    target = random_target(rng, kind)
    clip = rng.choice([None, IntervalSet((Interval(HOUR_MS, 20 * HOUR_MS),))])

    def job_of(name: str, segments: Sequence[Segment]) -> RewriteJob:
        return RewriteJob(
            key=name,
            datasource="events",
            chunks=(CHUNK,),
            inputs=tuple(
                SegmentInput(segment=one, visible=clip or IntervalSet((one.span,)))
                for one in segments
            ),
            target=target,
            is_whole=True,
        )

    name = f"{kind.replace(' ', '')}{seed}"
    kept = [[row for row in rows if is_kept(row)] for rows in groups]
    return Case(
        job=job_of(name, write_any(folder, groups, f"{name}all")),
        kept=job_of(f"{name}-kept", write_any(folder, kept, f"{name}kept")),
        condition=CONDITION,
    )


def group_task(
    folder: Path, input_group: InputGroup, target: CompactionTarget, **other: Any
) -> GroupTask:
    """Return the task that rewrites an input group of a store in the folder, with ample memory.

    Args:
        other: Fields that are other than usual.
    """
    usual: dict[str, Any] = {
        "datasource": "events",
        "chunks": (CHUNK,),
        "output_url": (folder / "store").as_uri(),
        "path_prefix": "out",
        "id_prefix": "out",
        "created_at_ms": 9,
        "temp_dir": str(folder / "temp"),
        "memory_bytes": AMPLE,
        "is_whole": True,
    }
    return GroupTask(input_group=input_group, target=target, **(usual | other))


def in_one_task(folder: Path, jobs: Sequence[RewriteJob]) -> dict[str, RewriteResult]:
    """Rewrite each group in one task of the Arrow engine, with memory for all of it."""
    storage = open_deep_storage(str(folder / "store"))
    ends: dict[str, Any] = {}
    LocalPipeline(storage, clock=SystemClock(), ids=RandomIds()).run_rewrites(
        jobs, on_end=lambda job, end: ends.update({job.key: end})
    )
    return ends


def plain(row: Row) -> tuple[Any, ...]:
    """Return a row with estimates in place of sketches, and sums of doubles rounded."""
    made = []
    for name, value in sorted(row.items()):
        shown = value
        if isinstance(value, bytes):
            estimate = {
                "users": estimate_hll,
                "pages": estimate_theta,
                "sizes": lambda state: [sketches.quantile(state, at) for at in (0.0, 0.5, 1.0)],
            }[name]
            shown = estimate(value)
        elif name == "dsum" and value is not None:
            shown = round(value, 6)
        made.append((name, repr(shown)))
    return tuple(made)


def keys_in_order(folder: Path, segments: Sequence[Segment]) -> list[list[Any]]:
    """Return the sort keys of all rows, in the order of segments and rows."""
    columns = [name for name in segments[0].sort_columns if name != "tags"]
    return [[repr(row[name]) for name in columns] for row in read(folder, segments)]


def assert_same(folder: Path, right: RewriteResult, found: object) -> None:
    assert isinstance(found, RewriteResult), found
    assert conserves(found.proof)
    assert (found.proof.rows_in, found.proof.rows_out) == (
        right.proof.rows_in,
        right.proof.rows_out,
    )
    assert found.proof.row_hash_in == right.proof.row_hash_in
    assert found.proof.row_hash_out == right.proof.row_hash_out
    assert found.proof.sums_out == pytest.approx(right.proof.sums_out, nan_ok=True)
    rows, wanted = read(folder, found.segments), read(folder, right.segments)
    assert Counter(map(plain, rows)) == Counter(map(plain, wanted))
    assert keys_in_order(folder, found.segments) == keys_in_order(folder, right.segments)
    assert [one.input_rows for one in found.segments if one.rollup is None] == [
        one.rows for one in found.segments if one.rollup is None
    ]
    kinds = {type(one.partition) for one in found.segments}
    assert kinds == {type(one.partition) for one in right.segments}
    if kinds == {RangePartition}:
        assert found.segments[0].partition.start is None  # type: ignore[union-attr]
        assert found.segments[-1].partition.end is None  # type: ignore[union-attr]


def scatter_here(tasks: Sequence[ScatterTask]) -> list[Scattered]:
    """Run the first half of a rewrite by ranges, one task after the other."""
    return [scatter(task, ATTEMPT) for task in tasks]


def gather_here(tasks: Sequence[GatherTask]) -> list[Gathered]:
    """Run the second half."""
    return [gather(task, ATTEMPT) for task in tasks]


def scatter_job(task: GroupTask, staging_url: str) -> ScatterJob:
    """Return a rewrite by ranges for two cores, whose tasks run one after the other."""
    return ScatterJob(task, scatter_here, gather_here, staging_url=staging_url, cores=2)
