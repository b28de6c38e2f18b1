"""The second half of the front end of `spark_rows`: rows of Spark's plan become part files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from carnac.jobs.ingest.parsing import Parsed, load_parsed
from carnac.jobs.ingest.read_pass import PassOne, SplitResult
from carnac.rows.normalise.shape import RowShape
from carnac.rows.read.rejections import Rejections
from carnac.spark.progress import Tally
from carnac.spark.tasks import Attempt, attempt_number, guarded, result_batch

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.core.time.intervals import IntervalSet
    from carnac.specs.ingest.schema import TimestampSpec

Batches = Iterator["pa.RecordBatch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondHalf:
    """The work of each task on the rows of Spark's plan. Picklable.

    Attributes:
        shape: To load by.
        is_parsed: Whether the first half of the same Spark task has parsed files and left its findings.
    """

    common: PassOne
    shape: RowShape
    timestamp: TimestampSpec
    within: IntervalSet | None
    is_parsed: bool

    def read(self, batches: pa.RecordBatchReader, attempt: Attempt) -> SplitResult:
        """Cut the rows of one task."""
        result = self.common.run_arrow(
            f"t{attempt.number}",
            batches,
            attempt if not self.is_parsed else Attempt(attempt.number, Tally(None)),
            origin=f"rows of Spark task {attempt.number}",
            timestamp=self.timestamp,
            within=self.within,
            shape=self.shape,
        )
        if not self.is_parsed:
            return result
        parsed = load_parsed(self.common, attempt.number)
        return joined(parsed, result)


def joined(parsed: Parsed, result: SplitResult) -> SplitResult:
    """Return the result of both halves."""
    by_reason = Counter(parsed.rejections.by_reason)
    by_reason.update(result.counts.rejected_by_reason)
    counts = replace(
        result.counts,
        rows_read=parsed.counts.rows_read,
        rows_rejected=by_reason.total(),
        rejected_by_reason=dict(by_reason.most_common()),
        changed=Counter(parsed.counts.changed) + Counter(result.counts.changed),
    )
    rejections = (parsed.rejections, result.rejections)
    return replace(
        result,
        counts=counts,
        filtered=max(0, parsed.counts.rows_parsed - result.counts.rows_read),
        rejections=Rejections(
            by_reason=dict(by_reason.most_common()),
            paths=tuple(path for one in rejections for path in one.paths),
            examples=tuple(example for one in rejections for example in one.examples),
        ),
    )


def second_half(work: SecondHalf, tally: Tally) -> Callable[[Batches], Batches]:
    """Return the function for `mapInArrow` that ends the plan: one row of `RESULT_SCHEMA` for each Spark task."""

    def run(batches: Batches) -> Batches:
        import itertools

        import pyarrow as pa

        first = next(batches, None)
        if first is None and not work.is_parsed:
            return
        schema = pa.schema([]) if first is None else first.schema
        there = () if first is None else (first,)
        reader = pa.RecordBatchReader.from_batches(schema, itertools.chain(there, batches))
        yield result_batch(attempt_number(), *guarded(work.read, reader, tally))

    return run
