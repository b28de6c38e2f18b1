"""The log as algebra: states, commits applied and taken back.

The entries that are visible at a revision are all adds minus all drops (RV-1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from carnac.core import invariants
from carnac.core.log.appending import plan_append
from carnac.core.log.commits import Commit, DatasourceCommit, LookupChange, Publication
from carnac.core.log.entries import Entry
from carnac.core.log.publish_view import PublishView
from carnac.core.log.publishing import plan_any


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The entries and lookups that are visible at a revision.

    Attributes:
        entries: Live entries by id, for each datasource that has any.
        lookups: Lookups by name.
    """

    revision: int = 0
    entries: Mapping[str, Mapping[int, Entry]] = field(default_factory=dict)
    lookups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def plan_commit(
    view: PublishView, publication: Publication, *, revision: int, at_ms: int
) -> Commit:
    """Return the commit that the publication becomes: the short way where it is a plain append, as the store does."""
    simple = plan_append(view, publication, revision=revision, at_ms=at_ms)
    return simple or plan_any(view, publication, revision=revision, at_ms=at_ms)


def apply_commit(state: State, commit: Commit) -> State:
    """Return the state after the commit.

    Raises:
        InvariantError: The commit is not the next one, drops what is not there, or adds what is (RV-1).
    """
    invariants.check(
        "RV-1",
        commit.revision == state.revision + 1,
        f"commit {commit.revision} does not follow revision {state.revision}",
    )
    entries = dict(state.entries)
    for change in commit.changes:
        live = _apply_change(entries.get(change.datasource, {}), change)
        if live:
            entries[change.datasource] = live
        else:
            entries.pop(change.datasource, None)
    return State(
        revision=commit.revision,
        entries=entries,
        lookups=_apply_lookups(state.lookups, commit.lookups),
    )


def invert_commit(commit: Commit, before: State) -> Commit:
    """Return the commit that, applied right after `commit`, gives back `before` (but for the revision number).

    A revert of an older commit is more than this: see `core/log/reverting.py`.
    """
    changes = tuple(
        replace(change, segments=(), adds=change.drops, drops=change.adds)
        for change in commit.changes
    )
    lookups = tuple(
        LookupChange(name=change.name, mapping=before.lookups.get(change.name))
        for change in commit.lookups
    )
    return replace(commit, revision=commit.revision + 1, changes=changes, lookups=lookups)


def _apply_change(live: Mapping[int, Entry], change: DatasourceCommit) -> dict[int, Entry]:
    entries = dict(live)
    for entry in change.drops:
        invariants.check(
            "RV-1",
            entries.pop(entry.entry_id, None) == entry,
            f"entry {entry.entry_id} of {change.datasource} is dropped but was not there",
        )
    for entry in change.adds:
        invariants.check(
            "RV-1",
            entry.entry_id not in entries,
            f"entry {entry.entry_id} of {change.datasource} is added twice",
        )
        entries[entry.entry_id] = entry
    return entries


def _apply_lookups(
    lookups: Mapping[str, Mapping[str, str]], changes: Sequence[LookupChange]
) -> Mapping[str, Mapping[str, str]]:
    if not changes:
        return lookups
    merged = dict(lookups)
    for change in changes:
        if change.mapping is None:
            merged.pop(change.name, None)
        else:
            merged[change.name] = change.mapping
    return merged
