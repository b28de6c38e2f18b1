"""Segment versions, and compact sets of partition ids: the words of the overshadow view.

A segment version is never a release and never a revision. Its major part is the time at which a chunk was last taken
over as a whole; its minor part counts replacements of some segments of the chunk under the same major version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from carnac.core.time.intervals import format_ms


@dataclass(frozen=True, slots=True, order=True)
class SegmentVersion:
    """`(major, minor)`, ordered; a higher one overshadows a lower one where they name the same rows.

    `major_ms` is written as ISO 8601 with milliseconds and `Z`, so that string order is time order (the source's
    `hh` is a slip).
    """

    major_ms: int
    minor: int = 0

    def __str__(self) -> str:
        return f"{format_ms(self.major_ms)}_{self.minor}"


@dataclass(frozen=True, slots=True)
class IdRanges:
    """A set of partition ids as sorted, disjoint, inclusive ranges, so that a set of 100,000 costs what one does.

    Source: segment locking proposal, "these two sets can be improved by encoding consecutive ids as a range".
    """

    ranges: tuple[tuple[int, int], ...] = ()

    def __iter__(self) -> Iterator[int]:
        for first, last in self.ranges:
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges)

    def __contains__(self, item: object) -> bool:
        return isinstance(item, int) and any(first <= item <= last for first, last in self.ranges)

    def __str__(self) -> str:
        return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in self.ranges)

    def intersects(self, other: IdRanges) -> bool:
        """Whether an id is in both; one sweep over the two."""
        mine, theirs = self.ranges, other.ranges
        i = j = 0
        while i < len(mine) and j < len(theirs):
            if mine[i][1] < theirs[j][0]:
                i += 1
            elif theirs[j][1] < mine[i][0]:
                j += 1
            else:
                return True
        return False

    def contains(self, other: IdRanges) -> bool:
        """Whether all ids of `other` are in this one; one sweep over the two."""
        i = 0
        for first, last in other.ranges:
            while i < len(self.ranges) and self.ranges[i][1] < last:
                i += 1
            if i == len(self.ranges) or first < self.ranges[i][0]:
                return False
        return True


def id_ranges(ids: Iterable[int]) -> IdRanges:
    """Return the set of `ids`, which may repeat and come in any order."""
    ranges: list[tuple[int, int]] = []
    for item in sorted(set(ids)):
        if ranges and item == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], item)
        else:
            ranges.append((item, item))
    return IdRanges(tuple(ranges))


def parse_id_ranges(text: str) -> IdRanges:
    """Return the set that `str` wrote."""
    ranges: list[tuple[int, int]] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        ranges.append((int(first), int(last or first)))
    return IdRanges(tuple(ranges))
