"""`erase`: the command that takes rows out of all of history."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from carnac.cli.app import UNDO, command
from carnac.cli.options import Datasource, DryRun, Message, flag, option
from carnac.cli.progress import job_progress
from carnac.cli.session import Session
from carnac.cli.tables import counted
from carnac.core.json_form import object_to_json
from carnac.errors import Invalid

if TYPE_CHECKING:
    from carnac.store.writing.erasing import ErasureReport


@command(
    "erase",
    panel=UNDO,
    publishes=True,
    examples=[
        "carnac erase visits --where \"email = 'ada@example.org'\" --dry-run",
        "carnac erase visits --where \"email = 'ada@example.org'\" --yes --json > certificate.json",
    ],
)
def erase(
    session: Session,
    *,
    datasource: Datasource,
    where: Annotated[str, option("--where SQL", "The rows for which this condition is true.")],
    message: Message = "",
    yes: Annotated[bool, flag("--yes -y", "Do not ask for confirmation.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Take rows out of every revision, as for a person who asks for it; asks first, and needs --yes without a terminal.

    Unlike delete, it changes history: no revision, tag or revert brings the rows back, and all other rows stay as they
    were. The certificate says what was rewritten, and what may still hold the rows, such as rejected rows. Stop first
    what would load them again.
    """
    with session.open_store() as store:
        visible, past = store.plan_erasure(datasource, where=where)
        searched = f"{counted(visible, 'visible segment')} and {counted(past, 'earlier segment')}"
        if dry_run:
            session.output.answer(
                {
                    "dry_run": True,
                    "datasource": datasource,
                    "base_revision": store.head().revision,
                    "segments": visible,
                    "segments_earlier": past,
                },
                f"nothing was done; {searched} would be searched, and those with a match rewritten",
            )
            return
        if not (yes or _is_confirmed(session, f"erase rows of {datasource} from {searched}")):
            session.output.note("nothing was erased")
            return
        with job_progress(session) as on_progress:
            report = store.erase(datasource, where=where, message=message, on_progress=on_progress)
    _print(session, report)


def _is_confirmed(session: Session, what: str) -> bool:
    """Ask at a terminal; elsewhere nobody can be asked, and nothing takes it back."""
    if not session.is_at_terminal:
        raise Invalid("nothing takes an erasure back: add --yes, or look with --dry-run")
    return typer.confirm(f"{what}, for good?", err=True)


def _print(session: Session, report: ErasureReport) -> None:
    if session.output.is_json:
        session.output.json({**object_to_json(asdict(report)), "is_complete": report.is_complete})
        return
    if report.rows_erased:
        session.output.line(
            f"published revision {report.revision}: {counted(report.rows_erased, 'row')} of {report.datasource} erased"
            f" in {counted(report.segments_rewritten + report.segments_removed, 'file')}"
        )
    else:
        session.output.line(
            f"no row of {report.datasource} matches in any of {counted(report.segments_searched, 'segment')}"
        )
    if report.files_deleted:
        session.output.line(f"{counted(report.files_deleted, 'old file')} deleted")
    if report.files_waiting:
        session.output.note(
            f"{counted(len(report.files_waiting), 'old file')} may be read by those who came before; "
            "carnac gc deletes what is left then"
        )
    for one in report.left:
        session.output.note(f"may still hold them: {one}")
    if report.rows_erased:
        session.output.note(
            "back up again: an older backup of the metadata names files that are gone"
        )
