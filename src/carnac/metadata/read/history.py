"""Reading the log from SQL: commits, their summaries, and which revision a name or a time means."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from carnac.core.log.commits import (
    Commit,
    CommitSummary,
    DatasourceCommit,
    DatasourceSummary,
    LookupChange,
)
from carnac.core.log.entries import ENTRY_BITS, Entry
from carnac.core.log.records import (
    ChangeSums,
    load_changes,
    load_commit_details,
    load_interval_set,
    load_texts,
)
from carnac.core.segments.segment import Segment
from carnac.errors import Corrupt, NotFound
from carnac.metadata.read import retention as keeping
from carnac.metadata.read.reader import decode_segment, load_head
from carnac.metadata.read.retention import RetainedRevision
from carnac.metadata.read.rows import KINDS, entry_of
from carnac.metadata.session import Row, Session
from carnac.metadata.sql import queries as q
from carnac.metadata.sql import statements as s
from carnac.ports import Head

Key = tuple[int, int]
"""Revision and datasource id."""


def load_commits(session: Session, after: int, limit: int) -> list[Commit]:
    """Return the retained commits after a revision, oldest first."""
    return _build(session, session.rows(q.COMMITS_AFTER, after=after, limit=limit))


def load_commit(session: Session, revision: int) -> Commit:
    """Return one commit.

    Raises:
        NotFound: The commit is not retained, or never was.
    """
    rows = session.rows(q.FIND_COMMIT, revision=revision)
    if not rows:
        raise missing(session, revision)
    return _build(session, rows)[0]


def load_log(
    session: Session, datasource: str | None, before: int | None, limit: int
) -> list[CommitSummary]:
    """Return the newest retained commits in short, newest first."""
    limits = {"before": 2**62 if before is None else before, "limit": limit}
    if datasource is None:
        rows = session.rows(q.NEWEST_COMMITS, **limits)
    else:
        found = session.row(s.FIND_DATASOURCE, name=datasource)
        if found is None:
            return []
        rows = session.rows(q.NEWEST_COMMITS_OF, datasource_id=found[0], **limits)
    return [
        _summary(row, [_in_numbers(name, sums) for name, sums in changes])
        for row, changes in _with_changes(session, rows)
    ]


def _in_numbers(datasource: str, sums: ChangeSums) -> DatasourceSummary:
    return DatasourceSummary(
        datasource=datasource,
        segments=sums.segments,
        entries_added=sums.entries_added,
        entries_dropped=sums.entries_dropped,
        rows=sums.rows,
        size_bytes=sums.size_bytes,
        covers=load_interval_set(sums.covers),
    )


def _with_changes(
    session: Session, rows: Sequence[Row]
) -> list[tuple[Row, list[tuple[str, ChangeSums]]]]:
    """Return the rows of commits, each with the datasources that it changed, by name."""
    loaded = [(row, load_changes(row[9])) for row in rows]
    ids = {sums.datasource_id for _, changes in loaded for sums in changes}
    names: dict[int, str] = dict(session.rows(s.NAMES_OF, datasource_ids=session.array(ids)))
    found = []
    for row, changes in loaded:
        named = [(names[sums.datasource_id], sums) for sums in changes]
        found.append((row, sorted(named) if len(named) > 1 else named))
    return found


def _summary(row: Row, datasources: Sequence[DatasourceSummary]) -> CommitSummary:
    revision, kind, at_ms, _, writer, batch, base_revision, message, details, *_ = row
    offsets, after, lookups, _ = load_commit_details(details)
    return CommitSummary(
        revision=revision,
        kind=KINDS[kind],
        at_ms=at_ms,
        datasources=tuple(datasources),
        writer=writer,
        batch=batch,
        base_revision=base_revision,
        offsets=offsets,
        after=after,
        lookups=tuple(lookups),
        message=message,
    )


def _build(session: Session, rows: Sequence[Row]) -> list[Commit]:
    """Return whole commits: five queries however many there are, if their revisions are dense."""
    if not rows:
        return []
    first, last = rows[0][0], rows[-1][0]
    ids = {"first_id": first << ENTRY_BITS, "end_id": (last + 1) << ENTRY_BITS}
    between = {"first": first, "last": last}
    adds: dict[Key, list[Entry]] = defaultdict(list)
    for row in session.rows(q.ENTRIES_ADDED, **ids):
        adds[row[0] >> ENTRY_BITS, row[1]].append(entry_of(row))
    drops: dict[Key, list[Entry]] = defaultdict(list)
    for row in session.rows(q.ENTRIES_DROPPED, **between):
        drops[row[17], row[1]].append(entry_of(row))
    segments: dict[Key, list[Segment]] = defaultdict(list)
    for key, datasource_id, record in session.rows(q.SEGMENTS_ADDED, **ids):
        segments[key >> ENTRY_BITS, datasource_id].append(decode_segment(record))
    mappings = {
        (name, revision): load_texts(mapping)
        for name, revision, mapping in session.rows(q.LOOKUPS_ADDED, **between)
    }
    found: list[Commit] = []
    for row, recorded in _with_changes(session, rows):
        changes: list[DatasourceCommit] = []
        for name, sums in recorded:
            key = (row[0], sums.datasource_id)
            change = DatasourceCommit(
                datasource=name,
                segments=tuple(segments[key]),
                adds=tuple(adds[key]),
                drops=tuple(drops[key]),
                covers=load_interval_set(sums.covers),
            )
            _check_whole(row[0], sums, change)
            changes.append(change)
        found.append(_commit(row, changes, mappings))
    return found


def _check_whole(revision: int, sums: ChangeSums, change: DatasourceCommit) -> None:
    recorded = tuple(sums[1:4])
    found = (len(change.segments), len(change.adds), len(change.drops))
    if recorded != found:
        raise Corrupt(
            f"commit {revision} of {change.datasource} recorded {recorded} segments, entries added and entries "
            f"dropped, but the store holds {found}; run doctor",
            commit=revision,
        )


def _commit(
    row: Row,
    changes: Sequence[DatasourceCommit],
    mappings: Mapping[tuple[str, int], Mapping[str, str]],
) -> Commit:
    revision, kind, at_ms, _, writer, batch, base_revision, message, details, *_ = row
    offsets, after, lookups, proof = load_commit_details(details)
    return Commit(
        revision=revision,
        kind=KINDS[kind],
        at_ms=at_ms,
        changes=tuple(changes),
        writer=writer,
        batch=batch,
        base_revision=base_revision,
        offsets=offsets,
        after=after,
        lookups=tuple(
            LookupChange(name=name, mapping=mappings[name, revision] if is_set else None)
            for name, is_set in lookups.items()
        ),
        message=message,
        proof=proof,
    )


# -------------------------------------------------------------------------------------------------- revisions


def find_retained(session: Session, revision: int) -> Head | None:
    """Return a retained revision; revision 0, the empty store, always is."""
    if revision == 0:
        row = session.row(s.ORIGIN)
        return Head(revision=0, at_ms=0 if row is None else row[0])
    row = session.row(q.FIND_COMMIT, revision=revision)
    return None if row is None else Head(revision=row[0], at_ms=row[2])


def require_retained(session: Session, revision: int) -> Head:
    """Return a retained revision.

    Raises:
        NotFound: There is none; says what there is.
    """
    found = find_retained(session, revision)
    if found is None:
        raise missing(session, revision)
    return found


def missing(session: Session, revision: int) -> NotFound:
    """Return the error for a revision that is not retained."""
    below = session.row(q.NEAREST_BELOW, revision=revision)
    above = session.row(q.NEAREST_ABOVE, revision=revision)
    return keeping.no_such_revision(
        revision,
        load_head(session).revision,
        None if below is None else below[0],
        None if above is None else above[0],
    )


def resolve(session: Session, at: int | str | None) -> Head:
    """Return the retained revision that `at` means: see `MetadataStore.resolve`."""
    if at is None:
        return load_head(session)
    wanted = keeping.parse_at(at)
    if isinstance(wanted, int):
        return require_retained(session, wanted)
    tag = session.row(s.FIND_TAG, name=wanted)
    if tag is not None:
        return require_retained(session, tag[0])
    at_ms = keeping.find_instant(wanted)
    if at_ms is None:
        raise keeping.no_such_name(wanted, [row[0] for row in session.rows(s.TAGS)])
    return _resolve_time(session, at_ms)


def _resolve_time(session: Session, at_ms: int) -> Head:
    last = session.row(q.LAST_UNTIL, at_ms=at_ms)
    first = session.row(q.FIRST_ABOVE, revision=0 if last is None else last[0])
    retained = [RetainedRevision(*row) for row in (last, first) if row is not None]
    return keeping.resolve_time(at_ms, require_retained(session, 0), retained)
