"""`demo`: a story on real data, and a cluster whose servers die while it is asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from carnac.cli.app import START, add_group, command
from carnac.cli.options import option
from carnac.cli.session import Session
from carnac.cli.tables import format_seconds

if TYPE_CHECKING:
    from carnac.cli.demo.story import Story

EXIT_DIFFERENT = 1

add_group("demo", None, panel=START)


@command("demo", panel=START, examples=["carnac demo", "carnac demo --keep my-demo"])
def demo(
    session: Session,
    folder: Annotated[
        Path, option("--keep DIR", "Folder for the store and the files; they stay there.")
    ] = Path("demo-output"),
) -> None:
    """Ingest, append, replace, delete, revert and query 336,776 real flights, and check every count.

    Exits with 1 if a count is not that of the source.
    """
    from carnac.cli.demo.story import Story

    story = Story(session=session, folder=folder)
    story.tell()
    if session.output.is_json:
        session.output.json(_document(story))
    else:
        _summarise(story)
    if not story.is_right:
        raise typer.Exit(EXIT_DIFFERENT)


@command(
    "demo cluster", panel=START, examples=["carnac demo cluster", "carnac demo cluster --json"]
)
def demo_cluster(
    session: Session,
    folder: Annotated[
        Path, option("--keep DIR", "Folder for the store and the picture; they stay there.")
    ] = Path("demo-output-cluster"),
    pause_s: Annotated[
        float, option("--pause SECONDS", "Seconds between two events.", min=0, max=600)
    ] = 3.0,
) -> None:
    """Ask a cluster 50 times a second while it is published to, compacted, moved and killed; check every answer.

    Starts a coordinator, a broker and three historicals as processes, and kills a historical and the coordinator. Each
    answer is held against its revision, asked again without the cluster. Exits with 1 unless all are right.
    """
    from carnac.cli.demo.cluster.report import cluster_document, print_report, write_picture
    from carnac.cli.demo.cluster.story import ClusterDemo
    from carnac.cli.demo.story import prepare_folder

    say = session.output.note if session.output.is_json else session.output.line
    prepare_folder(folder)
    cluster = ClusterDemo(
        session=session, folder=folder.absolute(), say=say, pause_ms=round(pause_s * 1000)
    )
    picture = write_picture(cluster.run(), folder / "cluster.svg")
    if session.output.is_json:
        session.output.json(cluster_document(cluster, picture))
    else:
        print_report(session.output, cluster, picture)
    if not cluster.is_right:
        raise typer.Exit(EXIT_DIFFERENT)


def _document(story: Story) -> dict[str, object]:
    return {
        "ok": story.is_right,
        "store": str(story.folder / "store"),
        "picture": str(story.picture),
        "revisions": story.revisions,
        "steps": [{"title": step.title, "seconds": step.seconds} for step in story.steps],
        "checks": [
            {"name": check.name, "in_store": check.in_store, "in_source": check.in_source}
            for check in story.checks
        ],
    }


def _summarise(story: Story) -> None:
    output = story.output
    output.line()
    output.table(
        "step | time#",
        [[step.title, format_seconds(step.seconds)] for step in story.steps]
        + [["all", format_seconds(sum(step.seconds for step in story.steps))]],
    )
    output.line()
    different = [check.name for check in story.checks if not check.is_equal]
    if different:
        output.error(f"not as in the source: {', '.join(different)}")
        return
    output.line(output.style(f"all {len(story.checks)} checks agree with the source", "green"))
    output.line("Next, try:")
    question = (
        "SELECT carrier, count(*) AS flights, round(avg(dep_delay), 1) AS delay "
        "FROM flights GROUP BY carrier ORDER BY delay DESC"
    )
    corrected = story.revisions["corrected"]
    for args in (
        ("sql", question),
        ("diff", str(corrected - 1), str(corrected)),
        ("segments", "flights", "--interval", "2013-11-15/P2D"),
    ):
        output.line(f"  {story.command_line(*args)}")
