"""Half-open intervals of time, and sets of them.

An interval is `[start_ms, end_ms)` in epoch milliseconds, UTC. An interval set is kept in normal form: sorted,
disjoint, not touching, none empty; so two sets are equal exactly if they cover the same instants.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import attrgetter

from carnac.core.time.periods import add_period, parse_period
from carnac.errors import Invalid

_start_of, _end_of = attrgetter("start_ms"), attrgetter("end_ms")
_by_ends = attrgetter("start_ms", "end_ms")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MIN_MS = -62_135_596_800_000
"""0001-01-01T00:00:00.000Z, the earliest instant that the store keeps."""
MAX_MS = 253_402_300_800_000
"""10000-01-01T00:00:00.000Z, the end of time: exclusive."""

_END_OF_TIME = re.compile(r"10000(-01(-01(T00(:00(:00(\.0+)?)?)?(Z|\+00:00)?)?)?)?")


def format_ms(ms: int) -> str:
    """Return ISO 8601 with milliseconds and `Z`; string order is time order within years 1..9999.

    Instants before `MIN_MS` or after `MAX_MS` are shown as these: a broken clock writes any number, and lists show it.
    """
    if ms >= MAX_MS:
        return "10000-01-01T00:00:00.000Z"
    moment = EPOCH + timedelta(milliseconds=max(ms, MIN_MS))
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z".rjust(24, "0")


@lru_cache(maxsize=1 << 16)  # names of tasks say the same borders again and again
def time_text(at_ms: int) -> str:
    """Return a time for people, ISO 8601 without its zeros: `2026-01-05`, `2026-01-05T07:30Z`."""
    text = format_ms(at_ms)
    return text.removesuffix("T00:00:00.000Z").replace(":00.000Z", "Z").replace(".000Z", "Z")


def interval_text(interval: Interval) -> str:
    """Return an interval for people, ISO 8601 without zeros: `2026-01-05/2026-01-06`, `2026-01-05T07:00Z/…`.

    Texts for people have intervals from here; texts for programs have `str(interval)`, which keeps the zeros.
    """
    return f"{time_text(interval.start_ms)}/{time_text(interval.end_ms)}"


_FAR_OFFSET = re.compile(r"(?>[^T ]*[T ]).*[+-]\d\d:?[6-9]\d", re.DOTALL)
"""Minutes of an offset that are none; Python takes them."""
_FINER_THAN_MS = re.compile(r"[.,]\d{3}\d*[1-9]")


def parse_instant(text: str) -> int:
    """Return the epoch milliseconds of an ISO 8601 date or date-time; no zone means UTC.

    Also takes a shortened date (`2013`, `2013-02`). Digits beyond milliseconds are cut off (towards the past).

    Raises:
        Invalid: `text` is not such a date, or lies outside years 1..9999.
    """
    stripped = text.strip()
    if _END_OF_TIME.fullmatch(stripped):
        return MAX_MS
    if re.fullmatch(r"\d{4}", stripped):
        stripped += "-01-01"
    elif re.fullmatch(r"\d{4}-\d{2}", stripped):
        stripped += "-01"
    try:
        if _FAR_OFFSET.fullmatch(stripped):
            raise ValueError(stripped)
        moment = datetime.fromisoformat(stripped)
    except ValueError:
        raise Invalid(
            f"'{text}' is not an ISO 8601 date or time; write it like 2013-01-31 or 2013-01-31T18:30:00Z",
            text=text,
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    at_ms = (moment - EPOCH) // timedelta(milliseconds=1)
    if not MIN_MS <= at_ms < MAX_MS:
        raise Invalid(f"'{text}' lies outside years 1 to 9999 UTC", text=text)
    return at_ms


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """`[start_ms, end_ms)`, epoch milliseconds, UTC. Never empty.

    Attributes:
        start_ms: First instant inside.
        end_ms: First instant behind it.

    Raises:
        Invalid: The end is not after the start, or an end lies outside years 1..9999.
    """

    start_ms: int
    end_ms: int

    def __post_init__(self) -> None:
        try:
            is_right = MIN_MS <= self.start_ms < self.end_ms <= MAX_MS
        except TypeError:
            raise Invalid(
                f"the ends of an interval are whole numbers, epoch ms, not {self.start_ms!r} and {self.end_ms!r}; "
                "an interval in words is a text, like '2013-01-01/2013-02-01'"
            ) from None
        if not is_right:
            raise Invalid(
                f"interval {self.start_ms}/{self.end_ms} (epoch ms) must end after it starts, within years 1 to 9999"
            )

    # Keys of dictionaries everywhere: these two are several times faster than those that a dataclass would be given.

    def __hash__(self) -> int:
        return hash(self.start_ms)

    def __eq__(self, other: object) -> bool:
        if other.__class__ is Interval:
            return self.start_ms == other.start_ms and self.end_ms == other.end_ms
        return NotImplemented

    def __str__(self) -> str:
        return f"{format_ms(self.start_ms)}/{format_ms(self.end_ms)}"

    def __repr__(self) -> str:
        return f"<Interval {interval_text(self)}>"

    @property
    def duration_ms(self) -> int:
        """Length in milliseconds, > 0."""
        return self.end_ms - self.start_ms

    def holds(self, at_ms: int) -> bool:
        """Whether the instant lies inside."""
        try:
            return self.start_ms <= at_ms < self.end_ms
        except TypeError:
            raise _no_instant(at_ms) from None

    def contains(self, other: Interval) -> bool:
        """Whether all of `other` lies inside."""
        try:
            return self.start_ms <= other.start_ms and other.end_ms <= self.end_ms
        except AttributeError:
            raise _no_interval(other) from None

    def overlaps(self, other: Interval) -> bool:
        """Whether they share an instant; touching is not overlapping."""
        try:
            return self.start_ms < other.end_ms and other.start_ms < self.end_ms
        except AttributeError:
            raise _no_interval(other) from None

    def intersect(self, other: Interval) -> Interval | None:
        """Return what both share; None if nothing."""
        try:
            start, end = max(self.start_ms, other.start_ms), min(self.end_ms, other.end_ms)
        except AttributeError:
            raise _no_interval(other) from None
        return Interval(start, end) if start < end else None

    def minus(self, other: Interval) -> tuple[Interval, ...]:
        """Return what remains of this when `other` is taken out: 0, 1 or 2 intervals, in order."""
        if not self.overlaps(other):
            return (self,)
        left = (Interval(self.start_ms, other.start_ms),) if self.start_ms < other.start_ms else ()
        right = (Interval(other.end_ms, self.end_ms),) if other.end_ms < self.end_ms else ()
        return left + right


ETERNITY = Interval(MIN_MS, MAX_MS)


def parse_interval(text: str) -> Interval:
    """Return the interval written `start/end`, `start/period` or `period/end`, as ISO 8601 has it.

    Ends are as `parse_instant` takes them, but whole milliseconds: no interval is made larger in silence. A period is
    counted in UTC: `2013-02-01/P1M` is February.

    Raises:
        Invalid: `text` is not of that form, the end is not after the start, or an end lies outside years 1..9999.
    """
    if _FINER_THAN_MS.search(text):
        raise Invalid(f"'{text}' must begin and end on whole milliseconds", text=text)
    parts = [part.strip() for part in text.split("/")]
    periods = [part[:1] in {"P", "p"} for part in parts]
    if len(parts) != 2 or not all(parts) or all(periods):
        raise Invalid(
            f"'{text}' is not an interval; write it like 2013-01-01/2013-02-01 or 2013-01-01/P1M",
            text=text,
        )
    if periods[0]:
        end = parse_instant(parts[1])
        start = add_period(end, parse_period(parts[0]), -1)
    else:
        start = parse_instant(parts[0])
        end = add_period(start, parse_period(parts[1])) if periods[1] else parse_instant(parts[1])
    if start >= end:
        raise Invalid(f"interval '{text}' must end after it starts; its end is excluded", text=text)
    if start < MIN_MS or end > MAX_MS:
        raise Invalid(f"interval '{text}' must lie within years 1 to 9999", text=text)
    return Interval(start, end)


def _no_interval(value: object) -> Invalid:
    return Invalid(f"{value!r} is no carnac.Interval")


def _no_instant(value: object) -> Invalid:
    return Invalid(f"{value!r} is no instant; instants are whole numbers, epoch ms")


@dataclass(frozen=True, slots=True)
class IntervalSet:
    """A set of instants as intervals in normal form. Build it with `interval_set`."""

    intervals: tuple[Interval, ...] = ()

    def __iter__(self) -> Iterator[Interval]:
        return iter(self.intervals)

    def __len__(self) -> int:
        return len(self.intervals)

    def __bool__(self) -> bool:
        return bool(self.intervals)

    def holds(self, at_ms: int) -> bool:
        """Whether the instant lies in one of the intervals; O(log n)."""
        index = bisect_right(self.intervals, at_ms, key=_start_of) - 1
        return index >= 0 and self.intervals[index].holds(at_ms)

    def overlaps(self, interval: Interval) -> bool:
        """Whether one of the intervals shares an instant with this one; O(log n)."""
        index = bisect_right(self.intervals, interval.start_ms, key=_end_of)
        return index < len(self) and self.intervals[index].start_ms < interval.end_ms

    def contains(self, interval: Interval) -> bool:
        """Whether one of the intervals holds all of this one; O(log n)."""
        index = bisect_right(self.intervals, interval.start_ms, key=_start_of) - 1
        return index >= 0 and interval.end_ms <= self.intervals[index].end_ms

    def inside(self, interval: Interval) -> IntervalSet:
        """Return the instants that lie in an interval, too; O(log n) besides those that do."""
        first = bisect_right(self.intervals, interval.start_ms, key=_end_of)
        last = bisect_left(self.intervals, interval.end_ms, lo=first, key=_start_of)
        found = self.intervals[first:last]
        return IntervalSet(tuple([piece for one in found if (piece := one.intersect(interval))]))

    def union(self, other: IntervalSet) -> IntervalSet:
        """Return the instants of either."""
        return interval_set((*self.intervals, *other.intervals))

    def intersect(self, other: IntervalSet) -> IntervalSet:
        """Return the instants of both; one sweep over the two."""
        mine, theirs, shared = list(self.intervals), list(other.intervals), []
        i = j = 0
        while i < len(mine) and j < len(theirs):
            piece = mine[i].intersect(theirs[j])
            if piece is not None:
                shared.append(piece)
            if mine[i].end_ms < theirs[j].end_ms:
                i += 1
            else:
                j += 1
        return IntervalSet(tuple(shared))

    def minus(self, other: IntervalSet) -> IntervalSet:
        """Return the instants of this that are not in `other`; one sweep over the two."""
        kept: list[Interval] = []
        j = 0
        for interval in self.intervals:
            while j < len(other.intervals) and other.intervals[j].end_ms <= interval.start_ms:
                j += 1
            rest: Interval | None = interval
            k = j
            while rest is not None and k < len(other.intervals):
                taken = other.intervals[k]
                if taken.start_ms >= rest.end_ms:
                    break
                if rest.start_ms < taken.start_ms:
                    kept.append(Interval(rest.start_ms, taken.start_ms))
                rest = Interval(taken.end_ms, rest.end_ms) if taken.end_ms < rest.end_ms else None
                k += 1
            if rest is not None:
                kept.append(rest)
        return IntervalSet(tuple(kept))

    def span(self) -> Interval | None:
        """Return the smallest interval that holds all of them; None if there are none."""
        if not self.intervals:
            return None
        return Interval(self.intervals[0].start_ms, self.intervals[-1].end_ms)


EMPTY = IntervalSet()


def interval_set(intervals: Iterable[Interval]) -> IntervalSet:
    """Return the set of the instants of all `intervals`, which may overlap, touch and come in any order."""
    merged: list[Interval] = []
    for interval in sorted(intervals, key=_by_ends):
        if merged and interval.start_ms <= merged[-1].end_ms:
            last = merged[-1]
            if interval.end_ms > last.end_ms:
                merged[-1] = Interval(last.start_ms, interval.end_ms)
        else:
            merged.append(interval)
    return IntervalSet(tuple(merged))


def as_interval(value: Interval | str | None) -> Interval | None:
    """Return an interval, or None.

    Raises:
        Invalid: It is neither, nor the text of one.
    """
    if value is None or isinstance(value, Interval):
        return value
    if isinstance(value, str):
        return parse_interval(value)
    raise Invalid(
        f"{value!r} is no interval; write it like '2013-01-01/2013-02-01', or give a carnac.Interval"
    )


def as_moment(at: int | str | datetime | None) -> int | str | None:
    """Return a datetime as ISO 8601 text, cut off to milliseconds, and all else as it is.

    Raises:
        Invalid: The datetime has no time zone, or lies outside years 1 to 9999.
    """
    if not isinstance(at, datetime):
        return at
    if at.tzinfo is None or at.utcoffset() is None:
        raise Invalid(
            f"{at.isoformat(' ')} has no time zone, so it is no one time; give it one: "
            "at.replace(tzinfo=timezone.utc) if it is UTC, at.astimezone() if it is this machine's time"
        )
    ms = (at - EPOCH) // timedelta(milliseconds=1)
    if ms < MIN_MS:
        raise Invalid(f"{at.isoformat(' ')} lies outside years 1 to 9999 UTC")
    return format_ms(ms)
