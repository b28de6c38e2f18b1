"""`datasources`, `segments`, `chunks`: the contents of a store at a revision, from the metadata alone."""

from __future__ import annotations

from typing import Annotated

from carnac.cli.app import LOOK, command
from carnac.cli.options import At, Datasource, IntervalText, option
from carnac.cli.session import Session
from carnac.cli.tables import (
    bytes_text,
    columns_of,
    counted,
    interval_text,
    number_text,
    short_ms,
)
from carnac.core.json_form import some_of, to_json
from carnac.core.log.entries import VisibleSegment
from carnac.core.segments.lateness import LATENESSES, LateRows


@command("datasources", panel=LOOK, examples=["carnac datasources", "carnac datasources --at 1"])
def datasources(session: Session, at: At = None) -> None:
    """List the datasources with their rows, segments and time."""
    with session.open_store() as store:
        infos = store.datasources(at=at)
    if session.output.is_json:
        session.output.json({"datasources": to_json(infos)})
        return
    rows = [
        [
            info.name,
            number_text(info.rows),
            number_text(info.chunks),
            number_text(info.segments),
            bytes_text(info.size_bytes),
            short_ms(info.interval.start_ms) if info.interval else "",
            short_ms(info.interval.end_ms - 1) if info.interval else "",
            str(info.revision),
        ]
        for info in infos
    ]
    session.output.table(
        "datasource | rows# | chunks# | segments# | size# | first row (UTC)! | last row (UTC)! | "
        "revision#",
        rows,
    )
    if not rows:
        session.output.note("no datasource has rows yet; carnac ingest brings some")


@command(
    "segments",
    panel=LOOK,
    examples=[
        "carnac segments flights --interval 2013-07-01/P1D",
        "carnac segments flights --at 1",
    ],
)
def segments(
    session: Session,
    *,
    datasource: Datasource,
    at: At = None,
    interval: IntervalText = None,
    limit: Annotated[
        int, option("--limit N", "Maximum number of rows of the table; 0 shows all.", min=0)
    ] = 100,
) -> None:
    """List the visible segments: time chunk, version, partition id, rows, size, and the revision that added them.

    A segment that is only partly visible is clipped; the column shows the visible part.
    """
    with session.open_store() as store:
        found = store.segments(datasource, at=at, interval=interval)
    if session.output.is_json:
        session.output.json(
            {"datasource": datasource, "segments": [_segment_json(item) for item in found]}
        )
        return
    columns = columns_of(
        "chunk! | version | partition# | rows# | size# | revision# | segment | clipped to"
    )
    session.output.first_rows(columns, found, _segment_row, limit)
    rows = sum(item.segment.rows for item in found)
    session.output.note(f"{counted(len(found), 'segment')}, {counted(rows, 'row')} in their files")


@command("chunks", panel=LOOK, examples=["carnac chunks flights --json"])
def chunks(session: Session, datasource: Datasource) -> None:
    """List the live time chunks: version, number of segments, and the revision that changed them last."""
    with session.open_store() as store:
        found = store.chunks(datasource)
    if session.output.is_json:
        session.output.json({"datasource": datasource, "chunks": to_json(found)})
        return
    columns = columns_of("chunk! | version | segments# | next partition# | revision#")
    rows = [
        [
            interval_text(chunk.interval),
            str(chunk.version),
            number_text(chunk.entries),
            str(chunk.next_partition_id),
            str(chunk.revision),
        ]
        for chunk in found
    ]
    session.output.table(columns, rows)


def _segment_row(item: VisibleSegment) -> list[str]:
    entry, segment = item.entry, item.segment
    return [
        interval_text(entry.chunk),
        str(entry.version),
        str(entry.partition_id),
        number_text(segment.rows),
        bytes_text(segment.size_bytes),
        str(entry.added_revision),
        segment.segment_id,
        "" if entry.clip is None else ", ".join(interval_text(piece) for piece in entry.clip),
    ]


def _segment_json(item: VisibleSegment) -> dict[str, object]:
    segment, entry = item.segment, item.entry
    return {
        "segment_id": segment.segment_id,
        **some_of(
            entry, "chunk version partition_id clip overshadowed_ids update_group added_revision"
        ),
        **some_of(segment, "rows input_rows size_bytes min_time_ms max_time_ms path checksum"),
        "late": None if segment.late is None else _late_json(segment.late),
        **some_of(segment, "query_granularity rollup partition"),
        "columns": [{"name": column.name, "type": column.type.value} for column in segment.columns],
    }


def _late_json(late: LateRows) -> dict[str, object]:
    counts = zip(LATENESSES, late.counts, strict=True)
    return {
        "rows": {str(lateness): count for lateness, count in counts if count},
        "is_folded": late.is_folded,
    }
