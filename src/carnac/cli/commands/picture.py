"""`picture`: the time chunks and segments of a datasource, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from carnac.cli.app import LOOK, command
from carnac.cli.charts import make_chart
from carnac.cli.options import At, Datasource, IntervalText, option
from carnac.cli.session import Session
from carnac.cli.tables import bytes_text


@command(
    "picture",
    panel=LOOK,
    examples=[
        "carnac picture flights -o flights.svg",
        "carnac picture flights -o july.html --interval 2013-07/P1M --at 4",
    ],
)
def picture(
    session: Session,
    *,
    datasource: Datasource,
    out: Annotated[
        Path, option("--output -o FILE", "An .svg, .png or .html file.", show_default=False)
    ],
    at: At = None,
    interval: IntervalText = None,
    title: Annotated[
        str | None, option("--title TEXT", "Default: the datasource and the revision.")
    ] = None,
) -> None:
    """Draw time chunks and segments: a column for each chunk, a block for what each commit added.

    The height of a block is its rows, its colour the commit; all segments of compaction have one colour. Blocks of
    clipped segments are hatched.
    """
    from carnac.console.export import write_chart

    with session.open_store() as store:
        chart = make_chart(store, datasource, at=at, interval=interval, title=title)
    write_chart(chart, out)
    size = out.stat().st_size
    session.output.answer(
        {"datasource": datasource, "path": str(out), "size_bytes": size},
        f"{out} ({bytes_text(size)})",
    )
