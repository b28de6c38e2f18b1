"""`log`, `show`, `diff`, `tag`, `tags`: the history of a store."""

from __future__ import annotations

import shlex
from typing import Annotated

from carnac.cli.app import LOOK, UNDO, command
from carnac.cli.completion.values import complete_datasource, complete_moment, complete_tag
from carnac.cli.options import At, argument, flag, option
from carnac.cli.output import Output
from carnac.cli.reports import print_log
from carnac.cli.session import Session
from carnac.cli.tables import (
    bytes_text,
    columns_of,
    interval_text,
    number_text,
    second_ms,
)
from carnac.core.json_form import to_json
from carnac.core.log.commits import Commit, DatasourceCommit
from carnac.core.time.intervals import IntervalSet, interval_set
from carnac.core.words import counted, first_of
from carnac.errors import Invalid

PIECES_SHOWN = 3


@command("log", panel=LOOK, examples=["carnac log", "carnac log --datasource flights --limit 5"])
def log(
    session: Session,
    *,
    datasource: Annotated[
        str | None,
        option("--datasource NAME", "Only commits that changed it.", complete=complete_datasource),
    ] = None,
    before: Annotated[
        int | None, option("--before REVISION", "Only commits before this revision.")
    ] = None,
    limit: Annotated[int, option("--limit -n N", "Maximum number of commits.", min=1)] = 50,
) -> None:
    """List the commits, newest first."""
    with session.open_store() as store:
        found = store.log(datasource=datasource, before=before, limit=limit + 1)
        tags = store.tags()
    commits = found[:limit]
    if session.output.is_json:
        session.output.json({"commits": to_json(commits)})
        return
    print_log(session.output, commits, tags)
    if not commits and datasource is None and before is None:
        session.output.note("nothing has been published yet")
    elif not commits:
        which = "" if datasource is None else f" of {datasource}"
        session.output.note(
            f"there is no commit{which}{'' if before is None else f' before {before}'}"
        )
    elif len(found) > limit:
        which = "" if datasource is None else f" --datasource {shlex.quote(datasource)}"
        session.output.note(f"older commits: carnac log{which} --before {commits[-1].revision}")


@command("show", panel=LOOK, examples=["carnac show 3", "carnac show january --json"])
def show(
    session: Session,
    revision: Annotated[
        str, argument("REVISION", "A revision, a time or a tag.", complete=complete_moment)
    ],
) -> None:
    """Show one commit: the segments that it added, dropped and covered in each datasource."""
    with session.open_store() as store:
        commit = store.show(revision)
    if session.output.is_json:
        session.output.json(to_json(commit))
        return
    _print_commit(session.output, commit)


@command("diff", panel=LOOK, examples=["carnac diff 1 3", "carnac diff 2"])
def diff(
    session: Session,
    first: Annotated[str, argument("A", "A revision, a time or a tag.", complete=complete_moment)],
    second: Annotated[
        str | None,
        argument(
            "B", "Another revision, time or tag. Default: the newest.", complete=complete_moment
        ),
    ] = None,
) -> None:
    """Compare two revisions, datasource by datasource."""
    with session.open_store() as store:
        before, after, diffs = store.diff(first, second)
    if session.output.is_json:
        session.output.json(
            {"before": to_json(before), "after": to_json(after), "datasources": to_json(diffs)}
        )
        return
    rows = [
        [
            item.datasource,
            number_text(len(item.added)),
            number_text(len(item.removed)),
            number_text(item.rows_added),
            number_text(item.rows_removed),
            "" if item.interval is None else interval_text(item.interval),
        ]
        for item in diffs
    ]
    session.output.line(
        f"revision {before.revision} ({second_ms(before.at_ms)}) to {after.revision} ({second_ms(after.at_ms)})"
    )
    if rows:
        session.output.table(
            "datasource | segments +# | segments -# | rows +# | rows -# | interval!", rows
        )
    else:
        session.output.line("no datasource differs")


@command(
    "tag",
    panel=UNDO,
    changes=True,
    examples=["carnac tag good", "carnac tag before-load --at 2", "carnac tag good --remove"],
)
def tag(
    session: Session,
    name: Annotated[str, argument("NAME", "The tag.", complete=complete_tag)],
    at: At = None,
    remove: Annotated[bool, flag("--remove", "Remove the tag.")] = False,
) -> None:
    """Name a revision. It stays readable while the tag exists; an existing tag is moved."""
    if remove and at is not None:
        raise Invalid("--remove and --at do not go together")
    with session.open_store() as store:
        if remove:
            store.untag(name)
        tagged = None if remove else store.tag(name, at=at)
    if session.output.is_json:
        session.output.json({"removed": name} if tagged is None else {"tag": to_json(tagged)})
    elif tagged is None:
        session.output.line(f"tag {name} is removed")
    else:
        session.output.line(f"tag {name} is at revision {tagged.revision}")


@command("tags", panel=UNDO, examples=["carnac tags"])
def tags(session: Session) -> None:
    """List the tags."""
    with session.open_store() as store:
        found = store.tags()
    if session.output.is_json:
        session.output.json({"tags": to_json(found)})
        return
    columns = columns_of("tag | revision# | made (UTC)!")
    session.output.table(
        columns, [[item.name, str(item.revision), second_ms(item.created_at_ms)] for item in found]
    )
    if not found:
        session.output.note("there are no tags; carnac tag NAME makes one")


def _print_commit(output: Output, commit: Commit) -> None:
    facts = [
        ("revision", str(commit.revision)),
        ("kind", commit.kind.value),
        ("time", f"{second_ms(commit.at_ms)} UTC"),
        ("message", commit.message or "-"),
    ]
    if commit.writer is not None:
        batch = "" if commit.batch is None else f", batch {commit.batch}"
        facts.append(("writer", f"{commit.writer}{batch}"))
    if commit.base_revision is not None:
        facts.append(("read at revision", str(commit.base_revision)))
    facts += [
        (f"offset {name}", f"{commit.after.get(name) or 'nowhere'} to {end or 'nowhere'}")
        for name, end in commit.offsets.items()
    ]
    for lookup in commit.lookups:
        count = "removed" if lookup.mapping is None else counted(len(lookup.mapping), "key")
        facts.append((f"lookup {lookup.name}", count))
    output.facts(facts)
    for change in commit.changes:
        output.line()
        _print_change(output, change)


def _print_change(output: Output, change: DatasourceCommit) -> None:
    output.line(output.style(f"datasource {change.datasource}", "bold"))
    rows = sum(segment.rows for segment in change.segments)
    size = sum(segment.size_bytes for segment in change.segments)
    added_chunks = interval_set(entry.chunk for entry in change.adds)
    dropped_chunks = interval_set(entry.chunk for entry in change.drops)
    output.facts(
        [
            (
                "new segments",
                f"{number_text(len(change.segments))}, {counted(rows, 'row')}, {bytes_text(size)}",
            ),
            ("entries added", f"{number_text(len(change.adds))}{_within(added_chunks)}"),
            ("entries dropped", f"{number_text(len(change.drops))}{_within(dropped_chunks)}"),
            ("covers", _pieces(change.covers) or "nothing: earlier data stays"),
        ]
    )


def _within(chunks: IntervalSet) -> str:
    span = chunks.span()
    return "" if span is None else f" in {interval_text(span)}"


def _pieces(pieces: IntervalSet) -> str:
    return first_of([interval_text(piece) for piece in pieces.intervals], PIECES_SHOWN)
