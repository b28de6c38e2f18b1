"""`gc`, `verify` and `backup`: keep a store small and honest."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from carnac.cli.app import TIDY, command
from carnac.cli.options import DryRun, argument, flag
from carnac.cli.progress import phase_progress
from carnac.cli.session import Session
from carnac.cli.tables import bytes_text, columns_of, counted, number_text
from carnac.core.json_form import some_of, to_json

if TYPE_CHECKING:
    from carnac.store.upkeep.maintenance import GcReport

FOUND_SOMETHING = 7
"""As `carnac.errors.Corrupt`: stored data is not what the store recorded."""


@command("gc", panel=TIDY, examples=["carnac gc --dry-run", "carnac gc"])
def gc(
    session: Session,
    *,
    dry_run: DryRun = False,
    show_kept: Annotated[
        bool, flag("--kept", "Also list the files that are kept, and why.")
    ] = False,
) -> None:
    """Trim history by the retention rules, and delete unreferenced files.

    A file goes in two phases: to the trash, and after the trash period for good. Tags, retained revisions, readers and
    running writers keep theirs. Tasks that ended longer than task_retention_ms ago are removed, with their logs, and so
    are keys (writer, batch) published longer than batch_retention_ms ago.
    """
    from carnac.bootstrap.tasks import open_tasks

    with session.open_store() as store:
        report = store.gc(dry_run=dry_run)
    with open_tasks(settings=session.settings, clock=session.clock) as tasks:
        forgotten = tasks.trim(retention_ms=session.settings.task_retention_ms, dry_run=dry_run)
    if session.output.is_json:
        session.output.json(
            {
                **some_of(report, "is_dry_run revisions_kept revisions_trimmed deleted_bytes"),
                **some_of(report, "batches_forgotten actions"),
                "tasks_forgotten": [task.task_id for task in forgotten],
            }
        )
        return
    _show_gc(session, report, len(forgotten), show_kept=show_kept)


def _show_gc(session: Session, report: GcReport, forgotten: int, *, show_kept: bool) -> None:
    shown = [action for action in report.actions if show_kept or action.action != "keep"]
    if shown:
        session.output.table(
            "action! | size# | file | reason~",
            [[item.action, bytes_text(item.size_bytes), item.path, item.reason] for item in shown],
        )
    counts = {
        kind: sum(1 for item in report.actions if item.action == kind)
        for kind in ("delete", "trash", "keep")
    }
    would = "would be " if report.is_dry_run else ""
    session.output.line(
        f"{would}trimmed: {number_text(report.revisions_trimmed)} of "
        f"{number_text(report.revisions_kept + report.revisions_trimmed)} revisions; "
        f"{would}deleted: {counted(counts['delete'], 'file')}, {bytes_text(report.deleted_bytes)}; "
        f"{would}put in the trash: {number_text(counts['trash'])}"
    )
    if forgotten:
        session.output.line(f"{would}forgotten: {counted(forgotten, 'task')}")
    if report.batches_forgotten:
        session.output.line(
            f"{would}forgotten: {number_text(report.batches_forgotten)} (writer, batch)"
        )
    if counts["keep"] and not show_kept:
        kept = "is" if counts["keep"] == 1 else "are"
        session.output.note(f"{counted(counts['keep'], 'old file')} {kept} kept; --kept says why")


@command("verify", panel=TIDY, examples=["carnac verify"])
def verify(session: Session) -> None:
    """Check every file against its record (existence, size, checksum, rows), and look for orphans.

    The versions of segments must show what the log shows. Exits with 7 if something is wrong.
    """
    with session.open_store() as store, phase_progress(session, unit="files") as tell:
        findings = list(store.verify(on_progress=partial(tell, "verify")))
        head = store.head()
    if session.output.is_json:
        session.output.json({"revision": head.revision, "findings": to_json(findings)})
    elif findings:
        columns = columns_of("finding! | file | detail~")
        session.output.table(columns, [[item.kind, item.path, item.detail] for item in findings])
        session.output.error(f"{counted(len(findings), 'finding')} at revision {head.revision}")
    else:
        session.output.line(f"all is well at revision {head.revision}")
    if findings:
        raise typer.Exit(FOUND_SOMETHING)


@command("backup", panel=TIDY, examples=["carnac backup backup/metadata.db"])
def backup(
    session: Session,
    target: Annotated[Path, argument("FILE", "A file that does not exist yet.")],
) -> None:
    """Write the metadata of a store in a directory into a file, as of one moment; writers continue.

    It is the first half of a backup; copy deep storage after it. Of a store in PostgreSQL, use pg_dump.
    """
    from carnac.bootstrap.backup import back_up

    back_up(session.settings.store.get_secret_value(), target)
    session.output.answer(
        {"file": str(target)}, f"the metadata of {session.shown_store} are in {target}"
    )
