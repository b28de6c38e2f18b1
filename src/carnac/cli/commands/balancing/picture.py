"""`balance picture`: which server holds what, as clouds of points; of the cluster that runs, or of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from carnac.cli.app import SIMULATE, command
from carnac.cli.options import argument, option
from carnac.cli.serving import look_at_cluster
from carnac.cli.session import Session
from carnac.cli.tables import bytes_text
from carnac.core.words import counted

if TYPE_CHECKING:
    from carnac.console.clouds import Cloud

Table: TypeAlias = Annotated[
    Path | None,
    argument(
        "TABLE",
        "A .csv, .tsv, .parquet or .jsonl file: a row for each segment on each server. "
        "Default: the cluster that serves the store.",
    ),
]
Picture: TypeAlias = Annotated[
    Path, option("--output -o FILE", "An .svg, .png or .html file.", show_default=False)
]
DatasourceColumn: TypeAlias = Annotated[str, option("--datasource COLUMN", "Names the datasource.")]
ServerColumn: TypeAlias = Annotated[str, option("--server COLUMN", "Names the server.")]
StartColumn: TypeAlias = Annotated[
    str, option("--start COLUMN", "Start of the interval: a time, ISO 8601 text, or epoch ms.")
]
Title: TypeAlias = Annotated[
    str | None, option("--title TEXT", "Default: the name of the file, or of the store.")
]


@command(
    "balance picture",
    panel=SIMULATE,
    examples=[
        "carnac balance picture -o cluster.svg",
        "carnac balance picture segments.csv -o cluster.svg",
        "carnac balance picture cluster.parquet -o cluster.png --start start_time --server host",
    ],
)
def picture(
    session: Session,
    *,
    table: Table = None,
    out: Picture,
    datasource: DatasourceColumn = "datasource",
    server: ServerColumn = "server",
    start: StartColumn = "start",
    title: Title = None,
) -> None:
    """Draw which server holds what: a band for each server, a point for each segment, as high as it is late.

    The colour is the datasource. Clusters of points mean that queries of those hours use few servers.
    """
    from carnac.console.cloud_table import load_cloud
    from carnac.console.clouds import draw_cloud
    from carnac.console.export import write_chart

    if table is None:
        cloud = _cloud_of_cluster(session)
    else:
        cloud = load_cloud(table, datasource=datasource, server=server, start=start)
    chart = draw_cloud(
        cloud,
        title=title or (session.shown_store if table is None else table.name),
        subtitle=f"{counted(len(cloud), 'segment')} on {counted(len(cloud.servers), 'server')}, every one a point; "
        f"colour: {counted(len(cloud.datasources), 'datasource')}",
    )
    write_chart(chart, out)
    size = out.stat().st_size
    session.output.answer(
        {
            "path": str(out),
            "size_bytes": size,
            "segments": len(cloud),
            "servers": len(cloud.servers),
            "datasources": len(cloud.datasources),
        },
        f"{out} ({bytes_text(size)})",
    )


def _cloud_of_cluster(session: Session) -> Cloud:
    from carnac.console.clouds import cloud_of

    status, views = look_at_cluster(session, "there is no cluster to draw")
    live = {one.segment_id: one for one in status.live}
    return cloud_of(
        (
            (view.server_id, live[one].datasource, live[one].chunk.start_ms)
            for view in views
            for one in view.loaded
            if one in live
        ),
        servers=[view.server_id for view in views],
    )
