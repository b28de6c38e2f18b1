"""The revisions that are kept: rules by age, by count and one for each day, combined by "or"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRules:
    """A revision is kept if one of these holds.

    Attributes:
        age_ms: It was the newest at some time within this long before now.
        count: It is one of so many newest; >= 1.
        daily: It is the last one of its day (UTC), within so many days before today.
    """

    age_ms: int
    count: int
    daily: int


def plan_retention(
    revisions: Sequence[tuple[int, int]], rules: RetentionRules, *, now_ms: int
) -> frozenset[int]:
    """Return the revisions that the rules keep.

    Args:
        revisions: (revision, published at, epoch ms), oldest first.
        rules: Rules for the revisions to keep.
        now_ms: The present.
    """
    kept = {revision for revision, _ in revisions[-rules.count :]}
    today = now_ms // DAY_MS
    last_of_day: dict[int, int] = {}
    for index, (revision, at_ms) in enumerate(revisions):
        ended_ms = revisions[index + 1][1] if index + 1 < len(revisions) else now_ms
        if ended_ms >= now_ms - rules.age_ms:
            kept.add(revision)
        last_of_day[at_ms // DAY_MS] = revision
    kept.update(revision for day, revision in last_of_day.items() if day > today - rules.daily)
    return frozenset(kept)
