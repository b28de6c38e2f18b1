"""`demo` and its parts: a story on real data, late rows beside compactions, servers that die, and what queries see."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from carnac.cli.app import START, add_group, command, session_of
from carnac.cli.options import flag, option
from carnac.cli.tables import columns_of, format_seconds

if TYPE_CHECKING:
    from carnac.cli.demo.story import Story

EXIT_DIFFERENT = 1

add_group("demo", None, panel=START)


@command("demo", panel=START, examples=["carnac demo", "carnac demo --keep my-demo"])
def demo(
    ctx: typer.Context,
    folder: Annotated[
        Path, option("--keep DIR", "Where the store and the files go; they stay there.")
    ] = Path("demo-output"),
) -> None:
    """Ingest, append, replace, delete, revert and query 336,776 real flights, and check every count.

    Exits with 1 if a count is not that of the source.
    """
    if ctx.invoked_subcommand is not None:
        return
    from carnac.cli.demo.story import Story

    session = session_of(ctx)
    story = Story(session=session, folder=folder)
    story.tell()
    if session.output.is_json:
        session.output.json(_document(story))
    else:
        _summarise(story)
    if not story.is_right:
        raise typer.Exit(EXIT_DIFFERENT)


@command(
    "demo locks", panel=START, examples=["carnac demo locks", "carnac demo locks --appends 100"]
)
def demo_locks(
    ctx: typer.Context,
    folder: Annotated[
        Path, option("--keep DIR", "Where the store and the picture go; they stay there.")
    ] = Path("demo-output-locks"),
    appends: Annotated[int, option("--appends N", "How many late appends.", min=1, max=999)] = 40,
    rows: Annotated[
        int, option("--rows N", "Rows of each segment that was there before.", min=1)
    ] = 100_000,
) -> None:
    """Append late rows to time chunks that are being compacted, under three ways of locking, on real Spark tasks.

    Tells what each costs: compactions revoked, bytes written for nothing, appends that waited, time until every chunk
    is compacted; and checks that every row is there exactly once. Exits with 1 if segment locks or the default delay
    an append or revoke a compaction, or if a row is missing or doubled.
    """
    from carnac.cli.demo.late_data import LateDataProof, Scale
    from carnac.cli.demo.late_report import late_document, print_late_report, write_picture
    from carnac.cli.demo.story import prepare_folder

    session = session_of(ctx)
    say = session.output.note if session.output.is_json else session.output.line
    prepare_folder(folder)
    scale = Scale(rows=rows, appends=appends)
    proof = LateDataProof(session.settings, folder / "store", session.clock, scale=scale, say=say)
    runs = proof.run()
    picture = write_picture(runs, proof.chunks, scale, folder / "late-data.svg")
    if session.output.is_json:
        session.output.json(late_document(runs, picture))
    else:
        print_late_report(session.output, runs, picture)
    if not all(run.is_right for run in runs):
        raise typer.Exit(EXIT_DIFFERENT)


@command(
    "demo cluster", panel=START, examples=["carnac demo cluster", "carnac demo cluster --json"]
)
def demo_cluster(
    ctx: typer.Context,
    folder: Annotated[
        Path, option("--keep DIR", "Where the store and the picture go; they stay there.")
    ] = Path("demo-output-cluster"),
    pause_s: Annotated[
        float, option("--pause SECONDS", "Between two things that happen.", min=0, max=600)
    ] = 3.0,
) -> None:
    """Ask a cluster 50 times a second while it is published to, compacted, moved and killed; check every answer.

    Starts a coordinator, a broker and three historicals as processes, and kills a historical and the coordinator. Each
    answer is held against its revision, asked again without the cluster. Exits with 1 unless all are right.
    """
    from carnac.cli.demo.cluster.report import cluster_document, print_report, write_picture
    from carnac.cli.demo.cluster.story import ClusterDemo
    from carnac.cli.demo.story import prepare_folder

    session = session_of(ctx)
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


@command(
    "demo replacement",
    panel=START,
    examples=["carnac demo replacement", "carnac demo replacement --out replacement.svg --json"],
)
def demo_replacement(
    ctx: typer.Context,
    out: Annotated[
        Path | None,
        option("--out FILE", "A picture of it: .svg, .png or .html.", show_default=False),
    ] = None,
    is_real: Annotated[bool, flag("--real", "Do the same to real processes, too.")] = False,
    folder: Annotated[
        Path, option("--keep DIR", "Where their store and logs go; they stay there.")
    ] = Path("demo-output-replacement"),
) -> None:
    """Show what queries see, second by second, when a server dies while segments are replaced.

    Falling back to what is announced is held against rollouts of a told revision, with and without cold reads, for a
    server that dies while the new segments load, right after the switch, and after the old ones were dropped. With
    --real the same is done to processes, for two minutes; exits with 1 unless all their answers are right.
    """
    from carnac.cli.demo.replacement import (
        courses_document,
        print_courses,
        write_replacement_picture,
    )
    from carnac.console.export import check_picture
    from carnac.simulation.replacement import Replacement, simulate_all

    session = session_of(ctx)
    if out is not None:
        check_picture(out)
    courses = simulate_all(Replacement())
    is_right = True
    if is_real:
        from carnac.cli.demo.cluster.replacing import RealReplacements
        from carnac.cli.demo.story import prepare_folder

        prepare_folder(folder)
        say = session.output.note if session.output.is_json else session.output.line
        real = RealReplacements(session=session, folder=folder.absolute(), say=say)
        courses += real.run()
        is_right = real.is_right
    picture = None if out is None else write_replacement_picture(courses, out)
    if session.output.is_json:
        session.output.json(courses_document(courses, picture))
    else:
        print_courses(session.output, courses, picture)
    if not is_right:
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
        columns_of("step | time#"),
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
        ("sql", f'"{question}"'),
        ("diff", str(corrected - 1), str(corrected)),
        ("segments", "flights", "--interval", "2013-11-15/P2D"),
    ):
        output.line(f"  {story.command_line(*args)}")
