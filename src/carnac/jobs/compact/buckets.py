"""In which buckets of a granularity segments have rows: what a sparse rewrite is written for.

A coarse time chunk may reach over more buckets than anybody can list, and have rows in a few of them. Which ones, only
the times themselves can tell: they are read, and nothing else is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from carnac.core.compaction.plan.groups import CHUNKS_MAX
from carnac.core.time.granularity import Granularity, parse_granularity
from carnac.core.time.intervals import Interval
from carnac.errors import Invalid
from carnac.jobs.compact.read import ReadPlan, micros, read_tables
from carnac.ports import RewriteJob

if TYPE_CHECKING:
    from numpy.typing import NDArray


def find_buckets(output_url: str, job: RewriteJob) -> tuple[Interval, ...]:
    """Return the buckets of the target's segment granularity that have visible rows of a job, in order of time.

    Raises:
        NotFound: A segment's file is gone.
        Corrupt: It cannot be read.
        Invalid: They are more than a group may have.
    """
    text = job.target.segment_granularity
    if text is None:
        raise AssertionError("a rewrite that names no time chunks changes their granularity")
    granularity = parse_granularity(text)
    plan = ReadPlan(output_url=output_url, columns=(), truncate_to=None, chunks=(), is_survey=True)
    first_ms = job.inputs[0].visible.intervals[0].start_ms
    found: dict[int, Interval] = {}
    for source in job.inputs:
        for table in read_tables(plan, source):
            times_ms = np.unique(micros(table) // 1000)
            found.update((one.start_ms, one) for one in _buckets_of(times_ms, granularity))
        if len(found) > CHUNKS_MAX:
            raise Invalid(
                f"group {job.key} would make more than {CHUNKS_MAX:,} time chunks of {text} at once; compact "
                f"{job.datasource} to a coarser segmentGranularity first, and then to this one",
                group_id=job.key,
            )
    return tuple(found[one] for one in sorted(found)) or (granularity.bucket(first_ms),)


def _buckets_of(times_ms: NDArray[np.int64], granularity: Granularity) -> Iterator[Interval]:
    """Yield the buckets of ascending times; it takes time by bucket, not by time."""
    place = 0
    while place < len(times_ms):
        bucket = granularity.bucket(int(times_ms[place]))
        yield bucket
        place = int(np.searchsorted(times_ms, bucket.end_ms))
