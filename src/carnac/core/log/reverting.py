"""Undoing one commit while keeping what came later: `plan_revert`.

The revert takes out of sight what the commit brought into sight and the other way round, segment by segment, as
instants; so re-entries and carved chunks, which change no row, cancel out. It conflicts if a later commit has changed
what is to be taken out, or has replaced or deleted the time in which rows are to come back. Later appends stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from carnac.core.log.commits import (
    Change,
    Commit,
    CommitKind,
    DatasourceCommit,
    Drop,
    LookupChange,
    LookupSetBy,
    NotCovered,
    Publication,
    Requirement,
    Restore,
)
from carnac.core.log.entries import come_and_gone, shown_by
from carnac.core.segments.segment import Segment
from carnac.core.time.intervals import IntervalSet, interval_set
from carnac.errors import Invalid

_FINAL = {
    CommitKind.REWRITE: "a rewrite and changed no row, so there is nothing to revert",
    CommitKind.ERASE: "an erasure, which nothing takes back",
}
"""Why commits of a kind are not reverted."""


def plan_revert(
    commit: Commit,
    segments: Mapping[str, Segment],
    lookups_before: Mapping[str, Mapping[str, str]],
    *,
    segment_granularity: Mapping[str, str],
) -> Publication:
    """Return the publication that undoes `commit`.

    Args:
        segments: Records of all segments that `restored_segments(commit)` names.
        lookups_before: The lookups at the revision before the commit.
        segment_granularity: For each datasource, where no chunk is.

    Raises:
        Invalid: The commit is a rewrite: it changed no row, so there is nothing to take back. Or it is an erasure.
    """
    told = _FINAL.get(commit.kind)
    if told is not None:
        raise Invalid(f"commit {commit.revision} is {told}", commit=commit.revision)
    changes: list[Change] = []
    requirements: list[Requirement] = [
        LookupSetBy(name=lookup.name, revision=None if lookup.mapping is None else commit.revision)
        for lookup in commit.lookups
    ]
    for change in commit.changes:
        shown, hidden = difference_of(change)
        changes.append(
            Change(
                datasource=change.datasource,
                drops=tuple(
                    Drop(segment_id=segment_id, expected=pieces, within=pieces)
                    for segment_id, pieces in shown.items()
                ),
                restores=tuple(
                    Restore(segment=segments[segment_id], pieces=pieces)
                    for segment_id, pieces in hidden.items()
                ),
                covers=change.covers,
                segment_granularity=segment_granularity[change.datasource],
            )
        )
        back = interval_set(chain(*hidden.values()))
        if back:
            requirements.append(
                NotCovered(datasource=change.datasource, pieces=back, revision=commit.revision)
            )
    return Publication(
        kind=CommitKind.REVERT,
        changes=tuple(changes),
        requirements=tuple(requirements),
        base_revision=commit.revision,
        lookups=tuple(
            LookupChange(name=change.name, mapping=lookups_before.get(change.name))
            for change in commit.lookups
        ),
        message=f"revert of commit {commit.revision}",
    )


def restored_segments(commit: Commit) -> frozenset[str]:
    """Return the ids of the segments that a revert of the commit brings back into sight."""
    return frozenset(
        segment_id for change in commit.changes for segment_id in difference_of(change)[1]
    )


def difference_of(
    change: DatasourceCommit,
) -> tuple[dict[str, IntervalSet], dict[str, IntervalSet]]:
    """Return, by segment, the instants that the commit brought into sight and those that it took out of it."""
    return come_and_gone(shown_by(change.drops), shown_by(change.adds))
