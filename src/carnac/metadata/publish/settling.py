"""Small appends leave some rows to a later commit: sums, the index of live entries, and the commits of a datasource.

On SQLite a commit waits for the disk for each page that it writes, and the process that writes next reads the page
again. All of these rows, the sums of schemas and chunks among them, can be derived from the new segments and their
entries. So one commit writes them for several, and a reader adds the part that is not settled yet. PostgreSQL writes a
log of changes, not of pages; there each commit settles all.
"""

from __future__ import annotations

from typing import NamedTuple

from carnac.core.log.commits import Commit
from carnac.metadata.read import rows as r
from carnac.metadata.session import SQLITE, Session
from carnac.metadata.sql import statements as s
from carnac.ports import Head

UNSETTLED_COMMITS = 31
"""Appends in a row that leave it to a later one."""
UNSETTLED_SEGMENTS = 8
"""Segments at most of an append that does; with the above it bounds what a reader adds up."""


class Newest(NamedTuple):
    """The newest revision, and the one up to which all is settled."""

    head: Head
    settled_revision: int


def settle(session: Session, newest: Newest, commit: Commit) -> int:
    """Write what was left by those before a commit that is about to be written, unless it is left to a later one again.

    Returns:
        The revision up to which all is settled then: the commit's own, if it is to write all that it changes.
    """
    settled = newest.settled_revision
    if (
        session.kind == SQLITE
        and commit.revision - settled <= UNSETTLED_COMMITS
        and _is_small_append(commit)
    ):
        return settled
    if settled < newest.head.revision:
        for datasource_id, digest, record, key, *sums in session.rows(s.UNSETTLED_SCHEMAS):
            row = (datasource_id, digest, r.schema_of(record), key, *sums)
            session.defer_merged(s.ADD_TO_SCHEMA, row[:2], row, r.add_schema_rows)
        for grown in session.rows(s.UNSETTLED_CHUNKS):
            session.defer_merged(s.GROW_CHUNK, grown[4:], grown)
        session.run(s.SETTLE_DATASOURCES)
        session.run(s.SETTLE_ENTRIES)
    return commit.revision


def _is_small_append(commit: Commit) -> bool:
    """Whether all that a commit does to the log is to add new segments to one datasource."""
    if len(commit.changes) != 1:
        return False
    (change,) = commit.changes
    return (
        not change.drops
        and 0 < len(change.segments) <= UNSETTLED_SEGMENTS
        and {one.segment_id for one in change.segments} == {one.segment_id for one in change.adds}
    )
