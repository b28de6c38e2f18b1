"""The outcome of the late rows: a table, a document for programs, a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.late_data.picture import Bar, BarKind, Panel, Point, PointKind, draw_late_data
from benchmarks.late_data.stream import COMPACTIONS_MAX, LateRun, Scale, lane
from benchmarks.late_data.watch import WaitTimes, wait_times
from carnac.cli.output import Output
from carnac.cli.tables import bytes_text, columns_of, format_seconds, number_text
from carnac.console.export import write_chart
from carnac.core.time.intervals import Interval

_BARS: dict[str, BarKind] = {"finished": "finished", "revoked": "revoked"}
_COLUMNS = columns_of(
    "locks | compactions# | revoked# | finished# | wasted# | appends# | delayed# | "
    "wait: median# | p99# | max# | all stable after# | rows"
)


def append_waits(run: LateRun) -> WaitTimes:
    """Return how long the appends waited for their locks."""
    return wait_times([one.waited_ms for one in run.of(False)])


def bytes_wasted(run: LateRun) -> int:
    """Return the bytes that compactions wrote for nothing."""
    return sum(one.bytes_wasted for one in run.of(True))


def print_late_report(output: Output, runs: Sequence[LateRun], picture: Path) -> None:
    """Say what came of it."""
    output.line()
    output.table(_COLUMNS, [_row(run) for run in runs])
    output.line()
    wrong = [run.mode.datasource for run in runs if not run.is_right]
    if wrong:
        output.error(f"not as promised under {', '.join(wrong)}")
    else:
        text = (
            "segment locks and the default delayed no append and revoked no compaction; "
            "every row is there exactly once"
        )
        output.line(output.style(text, "green"))
    output.line(f"picture: {picture}")


def _row(run: LateRun) -> list[str]:
    waits, ends = append_waits(run), run.ends
    return [
        run.mode.datasource,
        str(sum(ends.values())),
        str(ends["revoked"]),
        str(ends["finished"]),
        bytes_text(bytes_wasted(run)),
        str(len(run.of(False))),
        str(run.delayed),
        *(f"{number_text(value)} ms" for value in (waits.median, waits.p99, waits.longest)),
        "never" if run.stable_ms is None else format_seconds(run.stable_ms / 1000),
        "each once" if run.is_exact else f"{run.rows_found[0]} for {run.rows_expected}",
    ]


def late_document(runs: Sequence[LateRun], picture: Path) -> dict[str, object]:
    """Return the same for programs."""
    return {
        "ok": all(run.is_right for run in runs),
        "picture": str(picture),
        "runs": [_run_document(run) for run in runs],
    }


def _run_document(run: LateRun) -> dict[str, object]:
    waits, ends = append_waits(run), run.ends
    return {
        "locks": run.mode.datasource,
        "context": dict(run.mode.context),
        "compactions": {
            "started": sum(ends.values()),
            **{end: ends[end] for end in ("finished", "revoked", "conflicted", "failed")},
            "bytesWritten": sum(one.bytes_written for one in run.of(True)),
            "bytesWasted": bytes_wasted(run),
        },
        "appends": {
            "sent": len(run.of(False)),
            "delayed": run.delayed,
            "waitMs": {"median": waits.median, "p99": waits.p99, "max": waits.longest},
        },
        "stableAfterMs": run.stable_ms,
        "rows": {
            "sent": run.rows_expected,
            "found": run.rows_found[0],
            "distinct": run.rows_found[1],
        },
    }


def write_picture(
    runs: Sequence[LateRun], chunks: Sequence[Interval], scale: Scale, path: Path
) -> Path:
    """Draw what happened when, in which chunk; return the path."""
    subtitle = (
        f"{scale.appends} appends of {scale.late_rows} rows in three of {scale.chunks} hours each, as Spark tasks "
        f"beside at most {COMPACTIONS_MAX} compactions of {number_text(scale.segments * scale.rows)} rows"
    )
    write_chart(draw_late_data([_panel(run, chunks) for run in runs], subtitle=subtitle), path)
    return path


def _panel(run: LateRun, chunks: Sequence[Interval]) -> Panel:
    def seconds(at_ms: int) -> float:
        return (at_ms - run.start_ms) / 1000

    points = []
    for one in run.of(False):
        kind: PointKind = "after waiting for a lock" if one.is_delayed else "at once"
        kind = kind if one.end == "finished" else "failed"
        points += [
            Point(lane=lane(chunk), at_s=seconds(one.end_ms), kind=kind)
            for chunk in run.places[one.task_id]
        ]
    return Panel(
        title=run.mode.title,
        lanes=tuple(lane(chunk) for chunk in chunks),
        bars=tuple(
            Bar(
                lane=lane(run.places[one.task_id][0]),
                start_s=seconds(one.start_ms),
                end_s=seconds(one.end_ms),
                kind=_BARS.get(one.end, "failed"),
            )
            for one in run.of(True)
        ),
        points=tuple(points),
        stream_s=run.stream_ms / 1000,
        stable_s=None if run.stable_ms is None else run.stable_ms / 1000,
    )
