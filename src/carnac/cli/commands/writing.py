"""`append`, `ingest`, `delete`, `drop`, `revert`: the commands that publish."""

from __future__ import annotations

from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from carnac.cli.app import LOAD, UNDO, command
from carnac.cli.completion.values import complete_moment
from carnac.cli.loading import (
    BatchName,
    Files,
    Inputs,
    Into,
    MorePaths,
    Replace,
    Source,
    SpecFile,
    SpecOut,
    TimeColumn,
    TimeDefault,
    TimeFormat,
    WriterName,
    ask_and_load,
    files_of,
    hints_of,
    is_spec,
    refuse_beside_spec,
    show_plan,
)
from carnac.cli.options import (
    Datasource,
    DryRun,
    IntervalText,
    Message,
    argument,
    flag,
    option,
)
from carnac.cli.plans import plan_facts, plan_json
from carnac.cli.progress import job_progress
from carnac.cli.reports import outcome_json, print_ingest, print_outcome
from carnac.cli.session import Session
from carnac.cli.specfiles import load_spec_file
from carnac.cli.tables import counted, number_text
from carnac.core.segments.segment import ColumnType
from carnac.core.time.intervals import ETERNITY, Interval, IntervalSet, parse_interval
from carnac.errors import Invalid

if TYPE_CHECKING:
    from carnac.specs.ingest.spec import IngestSpec
    from carnac.store import Store
    from carnac.store.writing.loading import LoadPlan
    from carnac.store.writing.outcome import WriteOutcome


AllowTypeChange = Annotated[
    bool,
    option(
        "--allow-type-change",
        "Allow a column to change its type even if that breaks queries.",
    ),
]
AllowMissing = Annotated[
    bool,
    option(
        "--allow-missing", "Take a declared column that no row has as null, instead of failing."
    ),
]


@command(
    "ingest",
    panel=LOAD,
    publishes=True,
    examples=[
        "carnac ingest trips.csv",
        "carnac ingest flights.json",
        "carnac ingest flights.json --input december/*.csv.gz -m 'december'",
        "carnac ingest flights.json --replace --dry-run",
    ],
)
def ingest(
    session: Session,
    *,
    source: Source,
    paths: MorePaths = None,
    datasource: Into = None,
    time: TimeColumn = None,
    time_format: TimeFormat = None,
    time_default: TimeDefault = None,
    spec_out: SpecOut = None,
    inputs: Inputs = None,
    replace: Replace = None,
    allow_type_change: AllowTypeChange = False,
    allow_missing: AllowMissing = False,
    message: Message = "",
    dry_run: DryRun = False,
) -> None:
    """Load rows into a datasource with Spark, and publish them in one commit.

    Files alone need no spec: they are read as the datasource was loaded before, else as a sample of the rows shows. The
    settings found are printed in three lines.

    Rows that cannot be read go to quarantine, each with its reason; the report counts them. If anything else goes
    wrong, nothing is published.
    """
    hints, files = hints_of(time, time_format, time_default), [*(inputs or ()), *(paths or ())]
    allowed: Any = {"allow_type_change": allow_type_change, "allow_missing": allow_missing}
    if not is_spec(source):
        _ingest_files(
            session,
            [source, *files],
            datasource=datasource,
            time=hints,
            spec_out=spec_out,
            replace=replace,
            allowed=allowed,
            message=message,
            dry_run=dry_run,
        )
        return
    refuse_beside_spec(source, datasource, hints, spec_out)
    modes: dict[bool | None, Literal["append", "replace"]] = {True: "replace", False: "append"}
    mode = modes.get(replace)
    loaded = load_spec_file(source, inputs=files, mode=mode)
    if loaded.input.type == "frame":
        raise Invalid(
            "the spec takes rows from memory (input frame); on the command line name files with --input"
        )
    if dry_run:
        _print_plan(session, loaded)
        return
    with (
        session.open_store() as store,
        job_progress(session) as on_progress,
    ):
        outcome = store.ingest(loaded, message=message, on_progress=on_progress, **allowed)
    _print_ingested(session, outcome, loaded, ["--spec", source])


def _ingest_files(
    session: Session,
    paths: list[str],
    *,
    datasource: str | None,
    time: dict[str, object],
    spec_out: str | None,
    replace: bool | None,
    allowed: Any,
    message: str,
    dry_run: bool,
) -> None:
    from carnac.specs.ingest.inference import datasource_of

    if replace:
        raise Invalid(
            "a spec must say what a file replaces; write one: carnac spec new FILE --spec-out SPEC"
        )
    if len(paths) > 1 and paths[0].isidentifier() and not Path(paths[0]).exists():
        raise Invalid(
            f"'{paths[0]}' is no file; ingest takes files first: carnac ingest "
            f"{quote(paths[1])} --datasource {paths[0]}"
        )
    name = datasource or datasource_of(paths[0])
    plans: list[LoadPlan] = []

    def show(plan: LoadPlan) -> None:
        plans.append(plan)
        show_plan(session, plan, spec_out=spec_out)
        if dry_run:
            _print_plan(session, plan.spec)
            raise typer.Exit

    with session.open_store() as store:

        def load(hints: dict[str, object] | None) -> WriteOutcome:
            with job_progress(session) as on_progress:
                return store.ingest(
                    name,
                    paths,
                    time=hints,
                    message=message,
                    on_plan=show,
                    on_progress=on_progress,
                    **allowed,
                )

        outcome = ask_and_load(session, time, load)
    _print_ingested(session, outcome, plans[-1].spec, [])


def _print_ingested(
    session: Session, outcome: WriteOutcome, spec: IngestSpec, how: list[str]
) -> None:
    """Print what was done, and once that so few rows need no Spark."""
    if session.output.is_json:
        session.output.json(outcome_json(outcome, spec))
        return
    print_ingest(session.output, outcome, spec)
    if outcome.report is None or not outcome.report.is_for_append or spec.input.type != "files":
        return
    words = join([spec.datasource, *how, *spec.input.paths])
    session.output.note(
        f"so few rows need no Spark: carnac append {words} would have done the same at once"
    )


@command(
    "append",
    panel=LOAD,
    publishes=True,
    examples=[
        "carnac append trips trips.csv",
        "carnac append edits tuesday.jsonl -m 'tuesday'",
        "carnac append edits monday.jsonl --spec edits.yaml",
    ],
)
def append(
    session: Session,
    *,
    datasource: Datasource,
    files: Files = None,
    spec: SpecFile = None,
    time: TimeColumn = None,
    time_format: TimeFormat = None,
    time_default: TimeDefault = None,
    spec_out: SpecOut = None,
    writer: WriterName = None,
    batch: BatchName = None,
    allow_type_change: AllowTypeChange = False,
    allow_missing: AllowMissing = False,
    message: Message = "",
) -> None:
    """Append files of up to a million rows in one commit, without Spark and at once.

    Rows are read, checked, rolled up and cut as by ingest, by the same functions; rows that cannot be read go to
    quarantine. Use ingest for larger inputs, and for transforms and filters that need Spark.
    """
    paths, block = files_of(datasource, files), None
    if spec is not None:
        loaded = load_spec_file(spec, inputs=paths)
        writer, batch = writer or loaded.writer, batch or loaded.batch
        block = loaded.to_json_dict()
    with session.open_store() as store:
        outcome = ask_and_load(
            session,
            hints_of(time, time_format, time_default),
            lambda hints: store.append(
                datasource,
                paths,
                spec=block,
                time=hints,
                writer=writer,
                batch=batch,
                message=message,
                allow_type_change=allow_type_change,
                allow_missing=allow_missing,
                on_plan=lambda plan: show_plan(session, plan, spec_out=spec_out),
            ),
        )
    if session.output.is_json:
        session.output.json({"datasource": datasource, **outcome_json(outcome)})
        return
    print_outcome(session.output, outcome, datasource, batch=(writer, batch))


@command(
    "delete",
    panel=UNDO,
    publishes=True,
    examples=[
        "carnac delete flights --interval 2013-07-04/2013-07-07",
        "carnac delete flights --where \"carrier = 'OO'\"",
    ],
)
def delete(
    session: Session,
    *,
    datasource: Datasource,
    interval: IntervalText = None,
    where: Annotated[
        str | None, option("--where SQL", "Only rows for which this condition is true.")
    ] = None,
    message: Message = "",
    dry_run: DryRun = False,
) -> None:
    """Delete rows: an interval at once, by metadata alone; rows that match a condition by a rewrite on Spark.

    Earlier revisions keep the rows until garbage collection takes them; revert brings them back. See erase for rows
    that no revision may keep.
    """
    if interval is None and where is None:
        raise Invalid("say what to delete: --interval, --where, or both")
    parsed = None if interval is None else parse_interval(interval)
    if dry_run:
        _print_delete_plan(session, datasource, parsed, where)
        return
    with session.open_store() as store:
        if where is None:
            outcome = store.delete(datasource, interval=parsed, message=message)
        else:
            _check_condition(store, datasource, where)
            with job_progress(session) as on_progress:
                outcome = store.delete(
                    datasource,
                    interval=parsed,
                    where=where,
                    message=message,
                    on_progress=on_progress,
                )
    session.output.answer(
        {"datasource": datasource, **outcome_json(outcome)}, _deleted(datasource, outcome)
    )


@command("drop", panel=UNDO, publishes=True, examples=["carnac drop flights --yes"])
def drop(
    session: Session,
    datasource: Datasource,
    yes: Annotated[bool, flag("--yes -y", "Do not ask for confirmation.")] = False,
    message: Message = "",
) -> None:
    """Delete all rows of a datasource, in one commit, by metadata alone; asks first at a terminal.

    Revert takes it back while the commit before it is retained. Tasks that load it, and its compaction, stay as set.
    """
    with session.open_store() as store:
        segments = counted(len(store.segments(datasource)), "segment")
        if not session.allows(f"drop {datasource}, {segments}?", yes=yes):
            session.output.note("nothing was dropped")
            return
        outcome = store.delete(
            datasource, interval=ETERNITY, message=message or f"drop {datasource}"
        )
    if session.output.is_json:
        session.output.json({"datasource": datasource, **outcome_json(outcome)})
        return
    if outcome.revision is None:
        session.output.line(_deleted(datasource, outcome))
        return
    segments = counted(outcome.segments_dropped, "segment")
    session.output.line(f"published revision {outcome.revision}: {datasource} dropped, {segments}")
    session.output.note(f"carnac revert {outcome.revision} takes it back")


@command("revert", panel=UNDO, publishes=True, examples=["carnac revert 4"])
def revert(
    session: Session,
    revision: Annotated[
        str,
        argument("REVISION", "The commit to undo: a revision or a tag.", complete=complete_moment),
    ],
) -> None:
    """Undo one commit and keep everything that was appended later.

    If a later commit prevents it, the error names that commit, and nothing happens.
    """
    with session.open_store() as store:
        undone = store.show(revision)
        published = store.revert(revision)
    session.output.answer(
        {"revision": published.revision, "reverted": undone.revision},
        f"published revision {published.revision}: {undone.kind.value} {undone.revision} is undone",
    )
    if undone.offsets:
        session.output.note(
            f"the position of {undone.writer} stays: its rows are not read again (carnac streams list)"
        )


def _print_plan(session: Session, spec: IngestSpec) -> None:
    """Print what an ingestion would do; the store and the files are looked up, so that a wrong name is noticed."""
    with session.open_store() as store:
        store.check_input(spec)
        head = store.head()
        known = {info.name: info for info in store.datasources()}
    if session.output.is_json:
        session.output.json({"dry_run": True, "base_revision": head.revision, **plan_json(spec)})
        return
    session.output.facts(plan_facts(spec))
    info = known.get(spec.datasource)
    state = (
        "has no rows yet"
        if info is None
        else f"has {counted(info.rows, 'row')} in {counted(info.chunks, 'time chunk')}"
    )
    session.output.line(
        f"nothing was done; {spec.datasource} {state}, the store is at revision {head.revision}"
    )


def _check_condition(store: Store, datasource: str, where: str) -> None:
    """Refuse what is no condition over the columns before anything is started for it."""
    from carnac.jobs.delete.predicate import check_predicate

    kinds = store.columns(datasource)
    if kinds:
        check_predicate(where, {name: ColumnType(kind) for name, kind in kinds.items()})


def _print_delete_plan(
    session: Session, datasource: str, interval: Interval | None, where: str | None
) -> None:
    with session.open_store() as store:
        found = store.segments(datasource, interval=interval)
        revision = store.head().revision
        if where is not None:
            _check_condition(store, datasource, where)
    cover = None if interval is None else IntervalSet((interval,))
    whole = sum(
        1 for item in found if cover is None or not item.entry.visible.minus(cover).intervals
    )
    if session.output.is_json:
        session.output.json(
            {
                "dry_run": True,
                "datasource": datasource,
                "base_revision": revision,
                "segments": len(found),
                "segments_whole": whole,
                "rows_at_most": sum(item.segment.rows for item in found),
            }
        )
        return
    if where is None:
        text = f"{counted(whole, 'segment')} would go whole, {number_text(len(found) - whole)} would be clipped"
    else:
        text = (
            f"{counted(len(found), 'segment')} would be searched, and those with a match rewritten"
        )
    session.output.line(f"nothing was done; at revision {revision} {text}")


def _deleted(datasource: str, outcome: WriteOutcome) -> str:
    if outcome.revision is None:
        return f"no row of {datasource} is there to delete; nothing was published"
    dropped = f"{counted(outcome.segments_dropped, 'segment')} of {datasource}"
    if outcome.rows_deleted is None:
        return f"published revision {outcome.revision}: {dropped} dropped or clipped"
    return (
        f"published revision {outcome.revision}: {counted(outcome.rows_deleted, 'row')} deleted, "
        f"{dropped} rewritten"
    )
