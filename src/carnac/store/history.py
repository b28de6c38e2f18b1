"""Looking at the log, and undoing: show, diff, tags, reverts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from carnac.core.log.commits import Commit, CommitKind, LookupChange, Publication
from carnac.core.log.entries import VisibleSegment, come_and_gone, shown_by
from carnac.core.log.reverting import plan_revert, restored_segments
from carnac.core.segments.segment import Segment
from carnac.core.texts import UNFIT, is_fit
from carnac.core.time.intervals import Interval, IntervalSet, interval_set
from carnac.errors import Corrupt, Invalid, NotFound
from carnac.ports import Head, Published

if TYPE_CHECKING:
    from carnac.core.log.positions import OffsetRange
    from carnac.metadata.store import MetadataStore

DIFF_COMMITS_MAX = 1000
"""Revisions further apart are compared by all that they show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasourceDiff:
    """How a datasource differs between two revisions.

    Attributes:
        datasource: Name of the datasource.
        added: Segments of which more is visible at the second revision, by id.
        removed: Segments of which less is visible at the second revision, by id.
        rows_added: Rows of the segments that are only visible at the second.
        rows_removed: Rows of the segments that are only visible at the first.
        interval: The smallest interval that holds all of the differences; None if there are none.
    """

    datasource: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    rows_added: int
    rows_removed: int
    interval: Interval | None


class History:
    """The log of a store, for people."""

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata

    def revert(self, at: int | str | None, segment_granularity: Callable[[str], str]) -> Published:
        """Undo one commit and keep all later appends.

        Args:
            segment_granularity: Segment granularity of a datasource, for rows that fall where no chunk is.

        Raises:
            Conflict: A later commit stands in the way; names it.
            Invalid: The commit changed no row, or none is named.
            NotFound: There is no such commit, or the segments that it took out of sight were deleted since.
        """
        if at is None:
            raise Invalid("say which commit to revert: its revision, a time or a tag")
        commit = self.commit(at)
        publication = plan_revert(
            commit,
            self._restored(commit),
            self._lookups_before(commit),
            segment_granularity={
                change.datasource: segment_granularity(change.datasource)
                for change in commit.changes
            },
        )
        return self._metadata.publish(publication)

    def move_position(self, offsets: OffsetRange, *, message: str) -> Published:
        """Publish that a writer goes on from elsewhere; see `Store.move_position`."""
        return self._metadata.publish(
            Publication(
                kind=CommitKind.APPEND,
                writer=offsets.writer,
                offsets=offsets.end,
                after=offsets.start,
                message=message,
            )
        )

    def commit(self, at: int | str | None) -> Commit:
        """Return the commit that made a revision.

        Raises:
            NotFound: There is no such revision, or it is the one before the first commit.
        """
        revision = self._metadata.resolve(at).revision
        if revision == 0:
            raise NotFound("revision 0 is the empty store: no commit made it", revision=revision)
        return self._metadata.commit(revision)

    def diff(
        self, first: int | str | None, second: int | str | None
    ) -> tuple[Head, Head, tuple[DatasourceDiff, ...]]:
        """Compare two revisions, datasource by datasource; those that do not differ are left out."""
        before, after = self._metadata.resolve(first), self._metadata.resolve(second)
        if before.revision > after.revision:
            _, _, diffs = self.diff(after.revision, before.revision)
            return before, after, tuple(_turned(one) for one in diffs)
        touched = self._touched_between(before.revision, after.revision)
        if touched is None:
            names = {
                info.name
                for head in (before, after)
                for info in self._metadata.datasources(head.revision)
            }
            touched = dict.fromkeys(names)
        found = (
            _diff(
                name,
                self._metadata.visible(name, revision=before.revision, intervals=touched[name]),
                self._metadata.visible(name, revision=after.revision, intervals=touched[name]),
            )
            for name in sorted(touched)
        )
        return before, after, tuple(one for one in found if one is not None)

    def _touched_between(self, first: int, second: int) -> dict[str, IntervalSet | None] | None:
        """Return the spans of all segments that the commits between touched, by datasource.

        So a comparison costs what was changed, not what is there. None: the commits are too many, or not all are kept.
        """
        if second - first > DIFF_COMMITS_MAX:
            return None
        try:
            commits = self._metadata.changes(after=first, limit=max(1, second - first))
        except NotFound:
            return None
        spans: dict[str, list[Interval]] = defaultdict(list)
        for commit in commits:
            for change in commit.changes if commit.revision <= second else ():
                spans[change.datasource] += [entry.span for entry in (*change.adds, *change.drops)]
        return {name: interval_set(found) for name, found in spans.items() if found}

    def set_lookups(self, changes: Sequence[LookupChange], *, message: str = "") -> Published:
        """Publish lookups, or their removal, in one commit.

        Raises:
            Invalid: A lookup's name, a key or a value is no text that it may be.
            NotFound: A lookup to be removed is not there.
        """
        for change in changes:
            _require_texts(change)
            lookups = self._metadata.lookups() if change.mapping is None else {}
            if change.mapping is None and change.name not in lookups:
                known = ", ".join(sorted(lookups)) or "none yet"
                raise NotFound(
                    f"there is no lookup '{change.name}'; there are {known}", lookup=change.name
                )
        return self._metadata.publish(
            Publication(kind=CommitKind.LOOKUP, lookups=tuple(changes), message=message)
        )

    def _restored(self, commit: Commit) -> dict[str, Segment]:
        """Return the records of the segments that come back into sight.

        Raises:
            NotFound: The revision before the commit was trimmed, and their files were deleted with it.
            Corrupt: The log names a segment that has no record.
        """
        found = {}
        for segment_id in restored_segments(commit):
            segment = self._metadata.find_segment(segment_id)
            if segment is None:
                self._require_before(commit)
                raise Corrupt(
                    f"segment {segment_id} is named by the log but has no record; run `carnac verify`",
                    segment_id=segment_id,
                )
            found[segment_id] = segment
        return found

    def _require_before(self, commit: Commit) -> None:
        try:
            self._metadata.resolve(commit.revision - 1)
        except NotFound:
            raise NotFound(
                f"commit {commit.revision} cannot be reverted: the history before it was trimmed, and what the commit "
                "took out of sight was deleted; keep such revisions with a tag",
                commit=commit.revision,
            ) from None

    def _lookups_before(self, commit: Commit) -> dict[str, dict[str, str]]:
        if not commit.lookups:
            return {}
        self._require_before(commit)
        before = self._metadata.lookups(commit.revision - 1)
        return {name: dict(mapping) for name, mapping in before.items()}


def _turned(diff: DatasourceDiff) -> DatasourceDiff:
    return replace(
        diff,
        added=diff.removed,
        removed=diff.added,
        rows_added=diff.rows_removed,
        rows_removed=diff.rows_added,
    )


def _diff(
    name: str, before: Sequence[VisibleSegment], after: Sequence[VisibleSegment]
) -> DatasourceDiff | None:
    shown_before, shown_after = (shown_by(one.entry for one in some) for some in (before, after))
    added, removed = come_and_gone(shown_before, shown_after)
    if not added and not removed:
        return None
    rows = {item.segment.segment_id: item.segment.rows for item in (*before, *after)}
    return DatasourceDiff(
        datasource=name,
        added=tuple(sorted(added)),
        removed=tuple(sorted(removed)),
        rows_added=sum(rows[key] for key in added if key not in shown_before),
        rows_removed=sum(rows[key] for key in removed if key not in shown_after),
        interval=interval_set(chain(*added.values(), *removed.values())).span(),
    )


def _require_texts(change: LookupChange) -> None:
    """Refuse what a record of a mapping cannot hold: the log would have it for good."""
    if change.mapping is not None and not isinstance(change.mapping, Mapping):
        raise Invalid(f"a lookup is a mapping of texts to texts, not {change.mapping!r}")
    pairs = [] if change.mapping is None else list(change.mapping.items())
    for value in (change.name, *(one for pair in pairs for one in pair)):
        if not isinstance(value, str):
            raise Invalid(
                f"lookup '{change.name}' maps texts to texts, and {value!r} is none; write it as text",
                lookup=str(change.name),
            )
    if change.mapping is not None and not (change.name and is_fit(change.name)):
        raise Invalid(f"the name of a lookup {UNFIT if change.name else 'must not be empty'}")
