"""The report of a write, for people and for programs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from carnac.cli.output import Output
from carnac.cli.tables import (
    bytes_text,
    counted,
    format_seconds,
    number_text,
    second_ms,
)
from carnac.core.json_form import some_of
from carnac.core.log.commits import CommitSummary
from carnac.core.texts import cut
from carnac.ports import JobReport, RejectedRows, Tag

if TYPE_CHECKING:
    from carnac.specs.ingest.spec import IngestSpec
    from carnac.store.writing.outcome import WriteOutcome

EXAMPLES_SHOWN = 3
RAW_SHOWN = 80


def outcome_json(outcome: WriteOutcome, spec: IngestSpec | None = None) -> dict[str, object]:
    """Return the outcome as JSON."""
    names = "revision is_replay segments_added segments_dropped rows_deleted report"
    block = some_of(outcome, names)
    if spec is not None:
        block["datasource"] = spec.datasource
        block["ignored"] = [{"path": item.path, "reason": item.reason} for item in spec.ignored]
    return block


def print_ingest(output: Output, outcome: WriteOutcome, spec: IngestSpec) -> None:
    """Print what an ingestion did."""
    for item in spec.ignored:
        output.warning(f"{item.path} has no effect: {item.reason}")
    print_outcome(output, outcome, spec.datasource, batch=(spec.writer, spec.batch))


def print_outcome(
    output: Output,
    outcome: WriteOutcome,
    datasource: str,
    *,
    batch: tuple[str | None, str | None],
) -> None:
    """Print what a load did; `batch` is its writer and its batch."""
    if outcome.is_replay:
        output.line(
            f"batch {batch[1]} of writer {batch[0]} was published before, as revision {outcome.revision}; "
            "nothing was done"
        )
        return
    if outcome.report is not None:
        _print_report(output, outcome.report)
        for note in outcome.report.notes:
            output.warning(note)
    if outcome.revision is None:
        output.line("no row was left, so nothing was published")
        return
    dropped = outcome.segments_dropped
    replaced = f", {counted(dropped, 'segment')} replaced" if dropped else ""
    output.line(
        f"published revision {outcome.revision}: "
        f"{counted(outcome.segments_added, 'new segment')} in {datasource}{replaced}"
    )


def _print_report(output: Output, report: JobReport) -> None:
    kept = report.rows_read - report.rejected.count - report.rows_filtered
    rows = [
        ["rows read", number_text(report.rows_read)],
        ["rejected", number_text(report.rejected.count)],
        *(
            [f"  {reason}", number_text(count)]
            for reason, count in report.rejected.by_reason.items()
        ),
        ["filtered", number_text(report.rows_filtered)],
        ["rolled up", number_text(max(0, kept - report.rows_written))],
        ["written", number_text(report.rows_written)],
        ["late", number_text(report.rows_late)],
        ["segments", number_text(report.segments)],
        ["size", bytes_text(report.size_bytes)],
        *(
            [f"{phase} (time)", format_seconds(seconds)]
            for phase, seconds in report.seconds_by_phase.items()
        ),
    ]
    output.table("ingestion | #", rows)
    _print_rejected(output, report.rejected)


def _print_rejected(output: Output, rejected: RejectedRows) -> None:
    if not rejected.count:
        return
    for example in rejected.examples[:EXAMPLES_SHOWN]:
        where = example.get("file") or "input"
        line = example.get("line")
        shown = cut(example.get("raw", ""), RAW_SHOWN)
        place = f"{where}, line {line}" if line else where
        output.note(f"rejected: {place}: {example.get('reason', 'no reason')}: {shown}")
    if rejected.path is not None:
        output.warning(
            f"{counted(rejected.count, 'row')} rejected; see with: carnac quarantine {rejected.path}"
        )


def print_log(output: Output, commits: Sequence[CommitSummary], tags: Iterable[Tag]) -> None:
    """Print commits as a table, each with its tags."""
    names: dict[int, list[str]] = defaultdict(list)
    for tag in tags:
        names[tag.revision].append(tag.name)
    output.table(
        "revision# | time (UTC)! | kind | datasource | segments# | rows# | size# | message~",
        [_log_row(commit, names[commit.revision]) for commit in commits],
    )


def _log_row(commit: CommitSummary, tags: Sequence[str]) -> list[str]:
    names = [item.datasource for item in commit.datasources] + [
        f"lookup {name}" for name in commit.lookups
    ]
    moves_only = bool(commit.offsets) and not any(item.segments for item in commit.datasources)
    told = commit.message or (f"position of {commit.writer}, no rows" if moves_only else "")
    tag_text = f"[{', '.join(tags)}] " if tags else ""
    return [
        str(commit.revision),
        second_ms(commit.at_ms),
        commit.kind.value,
        ", ".join(names),
        number_text(sum(item.segments for item in commit.datasources)),
        number_text(sum(item.rows for item in commit.datasources)),
        bytes_text(sum(item.size_bytes for item in commit.datasources)),
        tag_text + told,
    ]
