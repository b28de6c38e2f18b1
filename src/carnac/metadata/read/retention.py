"""Retained revisions: messages about them, and decisions: pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from carnac.core.log.commits import LockHeld, LookupSetBy, NumbersUnited, SegmentsVisible
from carnac.core.texts import WHOLE_MAX, cut, short
from carnac.core.time.intervals import IntervalSet, format_ms, parse_instant
from carnac.core.words import first_of
from carnac.errors import Conflict, Invalid, NotFound, Revoked
from carnac.ports import Head

if TYPE_CHECKING:
    from carnac.core.log.commits import Commit, Requirement
    from carnac.core.time.intervals import Interval


@dataclass(frozen=True, slots=True)
class RetainedRevision:
    """A revision that can be read.

    Attributes:
        until_ms: Time of the next commit, if that has been trimmed; None: the next is retained, or to come.
    """

    revision: int
    at_ms: int
    until_ms: int | None

    def head(self) -> Head:
        """Return it as a head."""
        return Head(revision=self.revision, at_ms=self.at_ms)


class Kept:
    """A set of revisions to keep, asked about the lifetimes of entries and lookups."""

    def __init__(self, revisions: Sequence[int]) -> None:
        self.revisions = revisions

    def __contains__(self, revision: int) -> bool:
        index = bisect_left(self.revisions, revision)
        return index < len(self.revisions) and self.revisions[index] == revision

    def sees(self, added: int, dropped: int | None) -> bool:
        """Whether a kept revision r has added <= r < dropped."""
        return self.first_seeing(added, dropped) is not None

    def first_seeing(self, added: int, dropped: int | None) -> int | None:
        """Return the oldest kept revision r with added <= r < dropped; None if there is none."""
        index = bisect_left(self.revisions, added)
        if index == len(self.revisions):
            return None
        first = self.revisions[index]
        return first if dropped is None or first < dropped else None

    def needs(self, added: int, dropped: int | None) -> bool:
        """Whether a kept revision sees it or a kept commit dropped it, so that its row stays."""
        return self.sees(added, dropped) or (dropped is not None and dropped in self)

    def gap_around(self, revision: int) -> tuple[int, int]:
        """Return the first and the last of the forgotten revisions around a forgotten one."""
        index = bisect_right(self.revisions, revision)
        before = self.revisions[index - 1] if index else 0
        return before + 1, self.revisions[index] - 1


def plan_kept(
    retained: Sequence[Head],
    wanted: set[int],
    *,
    tagged: set[int],
    told: int | None,
    oldest_lease: int | None,
) -> Kept:
    """Return the revisions to keep: the wanted, newest, tagged and told ones, and all from the oldest lease on.

    A broker that starts plans on the told revision, so it is kept although nobody reads it now.

    Raises:
        Invalid: A wanted revision is not retained.
    """
    known = {head.revision for head in retained}
    unknown = sorted(wanted - known)
    if unknown:
        raise Invalid(f"revisions {unknown[:5]} cannot be kept: they are not retained")
    kept = (wanted | tagged) & known
    if told in known:
        kept.add(told)
    if retained:
        kept.add(retained[-1].revision)
    if oldest_lease is not None:
        kept |= {revision for revision in known if revision >= oldest_lease}
    return Kept(sorted(kept))


def plan_until(retained: Sequence[RetainedRevision], kept: Kept) -> dict[int, int]:
    """Return, for each kept revision whose successor is forgotten now, when that successor was made."""
    until: dict[int, int] = {}
    for one, following in pairwise(retained):
        if (
            one.revision in kept
            and following.revision not in kept
            and following.revision == one.revision + 1
        ):
            until[one.revision] = following.at_ms
    return until


def unite_covers(covers: Sequence[tuple[int, Interval]]) -> list[tuple[int, Interval]]:
    """Return covers of forgotten commits with each instant only under the newest that covered it.

    Between two kept revisions nobody can ask any more which of them came first; only the newest still stands in
    somebody's way.
    """
    left: list[tuple[int, Interval]] = []
    covered = IntervalSet()
    for revision, interval in sorted(covers, key=lambda cover: -cover[0]):
        pieces = IntervalSet((interval,))
        left.extend((revision, piece) for piece in pieces.minus(covered))
        covered = covered.union(pieces)
    return left


def require_history(requirements: Iterable[Requirement], oldest: int | None) -> None:
    """Refuse requirements about what happened since a revision that is older than all history.

    Raises:
        Conflict: Changes that they ask about may have been trimmed.
    """
    for requirement in requirements:
        if (
            isinstance(requirement, LockHeld | SegmentsVisible | NumbersUnited | LookupSetBy)
            or oldest is None
        ):
            continue
        if requirement.revision + 1 < oldest:
            raise Conflict(
                f"the changes of {requirement.datasource} after revision {requirement.revision} were trimmed (the "
                f"oldest retained is {oldest}); nothing was published: read again and retry",
                datasource=requirement.datasource,
            )


def reason(revision: int, tags: Sequence[str]) -> str:
    """Return why a segment that is not visible now stays."""
    if tags:
        return f"tag '{min(tags)}' at revision {revision}"
    return f"revision {revision} is retained"


def parse_at(at: int | str) -> int | str:
    """Return a revision as an int, everything else stripped.

    Raises:
        Invalid: The revision is empty, negative, too large, or something else.
    """
    if isinstance(at, bool) or not isinstance(at, int | str):
        raise Invalid(
            f"{at!r} is no revision; give its number, or a tag or a time (2013-01-31T18:30:00Z) as text"
        )
    if isinstance(at, int):
        if at < 0:
            raise Invalid(f"revision {at} is negative; revisions count from 0")
        if at > WHOLE_MAX:
            raise Invalid(f"revision {short(at)} is out of range; the largest is {WHOLE_MAX}")
        return at
    text = at.strip()
    if not text:
        raise Invalid("a revision, a tag or a time is needed, not an empty text")
    if text.isascii() and text.isdecimal():
        digits = text.lstrip("0") or "0"
        if len(digits) > len(str(WHOLE_MAX)):
            raise Invalid(f"revision {cut(digits, 30)} is out of range; the largest is {WHOLE_MAX}")
        return parse_at(int(digits))
    return text


def find_instant(text: str) -> int | None:
    """Return the epoch milliseconds of a time; None if it is none."""
    try:
        return parse_instant(text)
    except Invalid:
        return None


def no_such_revision(revision: int, newest: int, below: int | None, above: int | None) -> NotFound:
    """Return the error for a revision that is not retained, which says what is."""
    if revision > newest:
        return NotFound(
            f"there is no revision {revision} yet; the newest is {newest}", revision=revision
        )
    near = " and ".join(str(one) for one in (below, above) if one is not None)
    return NotFound(
        f"revision {revision} was trimmed; the nearest retained are {near}", revision=revision
    )


def require_whole(commits: Sequence[Commit], after: int, newest: int) -> tuple[Commit, ...]:
    """Return the commits after a revision if none is missing.

    Raises:
        NotFound: A commit has been trimmed, or there is no such revision yet.
    """
    if after > newest:
        raise no_such_revision(after, newest, None, None)
    for expected, commit in enumerate(commits, start=after + 1):
        if commit.revision != expected:
            raise NotFound(
                f"the changes after revision {after} are not whole any more: commits were trimmed (the next retained "
                f"is {commit.revision}); read the newest revision anew and follow from there",
                after=after,
            )
    return tuple(commits)


def no_such_name(text: str, tags: Iterable[str]) -> NotFound:
    """Return the error for what is neither a revision, nor a tag, nor a time."""
    names = first_of([f"'{tag}'" for tag in sorted(tags)], 10)
    there = f"; the tags are {names}" if names else ""
    return NotFound(
        f"'{text}' is neither a revision, nor a tag, nor a time like 2013-01-31T18:30:00Z{there}",
        at=text,
    )


def resolve_time(at_ms: int, created: Head, retained: Sequence[RetainedRevision]) -> Head:
    """Return the last revision published at or before a time; revision 0 before the first.

    Args:
        retained: At least: the last one at or before the time, and the first one after it, if there are such.

    Raises:
        NotFound: That revision was trimmed, or the store did not exist yet.
    """
    earlier = [one for one in retained if one.at_ms <= at_ms]
    later = [one for one in retained if one.at_ms > at_ms]
    if earlier:
        found = earlier[-1]
        if found.until_ms is None or at_ms < found.until_ms:
            return found.head()
        raise NotFound(
            f"the revision of {format_ms(at_ms)} was trimmed; the nearest retained are {found.revision} and "
            f"{later[0].revision}"
        )
    if at_ms < created.at_ms:
        raise NotFound(
            f"the store was created at {format_ms(created.at_ms)}, after {format_ms(at_ms)}"
        )
    if later and later[0].revision != 1:
        raise NotFound(
            f"nothing is retained from {format_ms(at_ms)} or before; the oldest retained revision is "
            f"{later[0].revision}"
        )
    return created


def require_base(base_revision: int | None, newest: int) -> None:
    """Refuse a publication from the future.

    Raises:
        Invalid: There is no such revision yet.
    """
    if base_revision is not None and base_revision > newest:
        raise Invalid(
            f"the publication was made from revision {base_revision}, but the newest is {newest}"
        )


def no_writer_lease(lease_id: str) -> Revoked:
    """Return the error for a publication whose lease is gone."""
    return Revoked(
        f"writer lease {lease_id} has expired or was released, so its files may be gone; nothing was published: run the"
        " job again",
        lease_id=lease_id,
    )


def cannot_come_back(segment_id: str, datasource: str) -> NotFound:
    """Return the error for a segment whose file is, or will be, deleted."""
    return NotFound(
        f"segment {segment_id} of {datasource} cannot come back into sight: its history was trimmed and its file is "
        f"being removed",
        segment_id=segment_id,
    )
