"""Whether a load goes on with the rows that it rejected: the sentences for those who are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from carnac.core.segments.segment import TIME_COLUMN
from carnac.errors import AllRejected, CarnacError, Invalid
from carnac.rows.normalise.timestamps import REASON_MISSING

if TYPE_CHECKING:
    from carnac.ports import RejectedRows
    from carnac.specs.ingest.spec import IngestSpec

REASONS_SHOWN = 5


def judge(
    spec: IngestSpec, rejected: RejectedRows, read: int, folder: str, *, is_stream: bool = False
) -> None:
    """Refuse a load of which too many rows are rejected.

    Args:
        read: Number of rows of the whole load.
        folder: Folder of the rejected rows.
        is_stream: Whether other loads follow, which must not be kept waiting.

    Raises:
        Invalid: More rows are rejected than the spec allows.
        AllRejected: All rows are rejected.
    """
    limit = spec.tuning.max_parse_exceptions
    if limit is not None and rejected.count > limit:
        raise too_many(spec, rejected.count, ", ".join(rejected.by_reason), folder)
    if read and rejected.count == read and not is_stream:
        raise _all_rejected(spec, read, rejected, folder)


def too_many(spec: IngestSpec, count: int, what: str, folder: str) -> CarnacError:
    """Return the error for more rejected rows than the spec allows."""
    rows = "1 row was" if count == 1 else f"{count:,} rows were"
    return Invalid(
        f"{rows} rejected ({what}) and maxParseExceptions allows"
        f" {spec.tuning.max_parse_exceptions:,}; nothing was published, the rejected rows are in"
        f" {folder}",
        rejected=count,
        path=folder,
    )


def _all_rejected(spec: IngestSpec, count: int, rejected: RejectedRows, folder: str) -> CarnacError:
    if rejected.by_reason.keys() == {REASON_MISSING}:
        return _no_time(spec, count, rejected, folder)
    rows = "the only row was" if count == 1 else f"all {count:,} rows were"
    reasons = ", ".join(
        reason if count == 1 else f"{reason} ({number:,})"
        for reason, number in list(rejected.by_reason.items())[:REASONS_SHOWN]
    )
    return AllRejected(
        f"{rows} rejected: {reasons}; nothing was published, and the rows are in quarantine: mend them, or give"
        f" a spec that reads them (carnac quarantine {folder} shows them)",
        rejected=count,
        path=folder,
    )


def _no_time(spec: IngestSpec, count: int, rejected: RejectedRows, folder: str) -> CarnacError:
    made = any(one.name == TIME_COLUMN for one in spec.transforms.transforms)
    where = "the transform of __time" if made else f"field '{spec.timestamp.column}'"
    remedy = "name the field that holds it in timestampSpec"
    if spec.input.type == "query":
        where, remedy = (
            TIME_COLUMN,
            "give TIME_PARSE the pattern of the times as its second argument",
        )
    example = next((one["raw"] for one in rejected.examples if one.get("raw")), None)
    like = "" if example is None else f", such as {example[:200]}"
    return AllRejected(
        f"{'the only row' if count == 1 else f'none of the {count:,} rows'} has"
        f"{' no' if count == 1 else ' a'} time in {where}{like}: nothing was published, " + remedy,
        column=spec.timestamp.column,
        rejected=count,
        path=folder,
    )
