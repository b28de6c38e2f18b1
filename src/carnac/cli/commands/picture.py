"""`picture`: the time chunks and segments of a datasource, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from carnac.cli.app import READING, command, session_of
from carnac.cli.options import AsJson, At, Datasource, IntervalText
from carnac.cli.tables import format_bytes

if TYPE_CHECKING:
    from carnac.console.looks import Chart
    from carnac.core.commits import CommitSummary
    from carnac.store import Store

LABEL_CHARS = 60
LOG_LIMIT = 1_000


@command(
    "picture",
    panel=READING,
    examples=[
        "carnac picture flights -o flights.svg",
        "carnac picture flights -o july.html --interval 2013-07/P1M --at 4",
    ],
)
def picture(
    ctx: typer.Context,
    *,
    datasource: Datasource,
    out: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="An .svg, .png or .html file.",
            show_default=False,
        ),
    ],
    at: At = None,
    interval: IntervalText = None,
    title: Annotated[
        str | None,
        typer.Option("--title", metavar="TEXT", help="Default: the datasource and the revision."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw time chunks and segments: a column for each chunk, a block for what each commit added.

    The height of a block is its rows, its colour the commit; what compaction has written has one colour. Blocks of
    clipped segments are hatched.
    """
    from carnac.console.export import write_chart

    session = session_of(ctx)
    with session.open_store() as store:
        chart = make_chart(store, datasource, at=at, interval=interval, title=title)
    write_chart(chart, out)
    size = out.stat().st_size
    if as_json:
        session.output.json({"datasource": datasource, "path": str(out), "size_bytes": size})
    else:
        session.output.line(f"{out} ({format_bytes(size)})")


def make_chart(
    store: Store,
    datasource: str,
    *,
    at: int | str | None = None,
    interval: str | None = None,
    title: str | None = None,
) -> Chart:
    """Return the chart of a datasource at a revision."""
    from carnac.console.picture import draw_segments

    items = store.segments(datasource, at=at, interval=interval)
    head = store.resolve(at)
    labels = _labels(store.log(datasource=datasource, limit=LOG_LIMIT))
    return draw_segments(
        items, datasource=datasource, revision=head.revision, labels=labels, title=title
    )


def _labels(commits: Sequence[CommitSummary]) -> dict[int, str]:
    """Return what the legend says of each revision; compaction makes many commits, which are one entry."""
    from carnac.core.commits import CommitKind

    labels = {one.revision: _label(one.revision, one.kind.value, one.message) for one in commits}
    rewrites = sorted(one.revision for one in commits if one.kind is CommitKind.REWRITE)
    if len(rewrites) > 1:
        words = f"{rewrites[0]} to {rewrites[-1]}  {CommitKind.REWRITE}: compaction"
        labels.update(dict.fromkeys(rewrites, words))
    return labels


def _label(revision: int, kind: str, message: str) -> str:
    text = f"{revision}  {kind}" + (f": {message}" if message else "")
    return text if len(text) <= LABEL_CHARS else text[: LABEL_CHARS - 1] + "…"
