"""`late`: which rows came late, and whether compaction has folded them yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from carnac.cli.app import LOOK, command
from carnac.cli.options import At, Datasource, IntervalText, option
from carnac.cli.session import Session
from carnac.cli.tables import Column, bytes_text, columns_of, counted, interval_text, number_text
from carnac.core.json_form import to_json
from carnac.core.segments.lateness import Lateness

if TYPE_CHECKING:
    from carnac.cli.output import Output
    from carnac.core.log.late_ledger import LateLedger, LateLine, LateTotal

WORDS = {
    Lateness.MINUTE: "≤ 1 minute",
    Lateness.HOUR: "≤ 1 hour",
    Lateness.DAY: "≤ 1 day",
    Lateness.WEEK: "≤ 7 days",
    Lateness.MONTH: "≤ 30 days",
    Lateness.LONGER: "> 30 days",
}
FIGURES = columns_of("rows# | folded# | not yet# | size# | segments#")


@command(
    "late",
    panel=LOOK,
    examples=["carnac late flights", "carnac late flights --interval 2013-11/P1M --json"],
)
def late(
    session: Session,
    *,
    datasource: Datasource,
    at: At = None,
    interval: IntervalText = None,
    limit: Annotated[
        int,
        option("--limit N", "Maximum number of rows of the table of chunks; 0 shows all.", min=0),
    ] = 100,
) -> None:
    """List the late rows by time chunk and lateness, and how many of them compaction has folded.

    A row is late if its datasource had a newer one before its append. Visible input rows are counted.
    """
    with session.open_store() as store:
        ledger = store.late(datasource, at=at, interval=interval)
    if session.output.is_json:
        session.output.json(to_json(ledger))
    else:
        _print(session.output, ledger, limit)


def _print(output: Output, ledger: LateLedger, limit: int) -> None:
    if not ledger.lines:
        output.note(f"no row of {ledger.datasource} came late, as of revision {ledger.revision}")
        return
    output.first_rows(
        [Column("chunk", is_whole=True), Column("late by", is_whole=True), *FIGURES],
        ledger.lines,
        lambda line: [interval_text(line.chunk), WORDS[line.lateness], *_figures(line)],
        limit,
    )
    output.line()
    output.table(
        [Column("late by", is_whole=True), Column("chunks", is_number=True), *FIGURES],
        [
            [
                "all" if total.lateness is None else WORDS[total.lateness],
                number_text(total.chunks),
                *_figures(total),
            ]
            for total in (*ledger.by_lateness, ledger.total)
        ],
    )
    total = ledger.total
    if total.rows == total.rows_folded:
        output.note(f"revision {ledger.revision}: {counted(total.rows, 'late row')}, all folded")
        return
    waiting = counted(total.rows - total.rows_folded, "late row")
    output.note(
        f"revision {ledger.revision}: {waiting} of {number_text(total.rows)} not folded yet, in "
        f"{counted(total.segments - total.segments_folded, 'segment')} of "
        f"{counted(total.chunks_waiting, 'time chunk')}"
    )


def _figures(one: LateLine | LateTotal) -> list[str]:
    return [
        number_text(one.rows),
        number_text(one.rows_folded),
        number_text(one.rows - one.rows_folded),
        bytes_text(one.size_bytes),
        number_text(one.segments),
    ]
