"""Writing on SQL what a commit does to the position of its writer."""

from __future__ import annotations

from carnac.core.log.commits import Commit, Publication
from carnac.core.log.positions import NOWHERE, decide_replay, require_writer
from carnac.metadata.read.position_rows import load_positions
from carnac.metadata.session import Session
from carnac.metadata.sql import statements as s


def find_range(session: Session, publication: Publication) -> tuple[int, int] | None:
    """Return revision and time at which the offset range was published before; None: it may be published.

    Raises:
        Conflict: The writer's position is not where the range starts.
        Invalid: The offset range names no writer.
    """
    start, end = publication.after, publication.offsets
    require_writer(publication.writer, start, end)
    writer = publication.writer or ""
    held = load_positions(session, writer)
    revision = decide_replay(writer, start, end, held)
    if revision is None:
        return None
    return next((one.revision, one.at_ms) for one in held.values() if one.revision == revision)


def write_positions(session: Session, commit: Commit) -> None:
    """Move the position of a commit's writer."""
    for source, offset in commit.offsets.items():
        if offset == NOWHERE:
            session.run(s.FORGET_POSITION, writer=commit.writer, source=source)
        else:
            before = commit.after.get(source, NOWHERE)
            row = (commit.writer, source, offset, before, commit.revision, commit.at_ms)
            session.defer_merged(s.PUT_POSITION, row[:2], row)
