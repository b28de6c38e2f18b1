"""Loads that are published once: by their batch, or as the next part of a source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from carnac.core.log.positions import decide_replay
from carnac.errors import AllRejected, Invalid
from carnac.ports import JobReport, JobResult, RejectedRows
from carnac.store.writing.outcome import WriteOutcome

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore
    from carnac.store.writing.loading import LoadPlan


def named(plan: LoadPlan) -> dict[str, Any]:
    """Return the identity of a publication: `writer`, `batch` and offsets; empty if it has none.

    Raises:
        Invalid: The spec and the offsets name two writers.
    """
    spec, offsets = plan.spec, plan.offsets
    by_batch = {} if spec.writer is None else {"writer": spec.writer, "batch": spec.batch}
    if offsets is None:
        return by_batch
    if spec.writer not in {None, offsets.writer}:
        raise Invalid(
            f"the spec names writer '{spec.writer}', and the offsets are of '{offsets.writer}'; give them one name"
        )
    moved = {"writer": offsets.writer, "offsets": offsets.end, "after": offsets.start}
    return {**by_batch, **moved}


def find_replay(metadata: MetadataStore, plan: LoadPlan) -> WriteOutcome | None:
    """Return what came of a load that was published before; None: it was not.

    Raises:
        Conflict: The load's writer has read another part of the source; publishing raises this, too.
        Invalid: As `named`.
    """
    found, offsets = named(plan), plan.offsets
    revision = None
    if found.get("batch") is not None:
        revision = metadata.find_batch(found["writer"], found["batch"])
    if revision is None and offsets is not None:
        held = metadata.position(offsets.writer)
        revision = decide_replay(offsets.writer, offsets.start, offsets.end, held)
    return None if revision is None else WriteOutcome(revision=revision, is_replay=True)


@dataclass
class Passed:
    """The result of a job, once there is one."""

    result: JobResult


@contextmanager
def passing_rejected(plan: LoadPlan) -> Iterator[Passed]:
    """Take a part of a source of which no row can be read as one without rows, if its spec allows rejected rows.

    Else a stream could not go on behind it. More than the spec allows is an error all the same.
    """
    passed = Passed(_without_rows(0, None))
    try:
        yield passed
    except AllRejected as error:
        if plan.offsets is None or plan.spec.tuning.max_parse_exceptions is None:
            raise
        count, path = error.ids.get("rejected"), error.ids.get("path")
        if not isinstance(count, int):
            raise
        passed.result = _without_rows(count, None if path is None else str(path))


def _without_rows(rejected: int, path: str | None) -> JobResult:
    report = JobReport(
        rows_read=rejected,
        rows_filtered=0,
        rows_written=0,
        rows_late=0,
        rejected=RejectedRows(count=rejected, path=path),
        segments=0,
        size_bytes=0,
        seconds_by_phase={},
    )
    return JobResult(segments=(), report=report)
