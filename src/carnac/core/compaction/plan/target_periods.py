"""The target of time chunks by age, and the limit for data that is too new."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.compaction.plan.settings import CompactionSettings
from carnac.core.time.granularity import DAY, Granularity, parse_granularity
from carnac.core.time.intervals import MAX_MS, MIN_MS, Interval
from carnac.core.time.periods import Period, add_period


class Extent(Enum):
    """How a target chunk came about.

    `WHOLE` is a bucket, or a live chunk where the target has no granularity; `CUT` what the border of two age rules
    leaves of one; `COARSE` all buckets that lie wholly in a live chunk that is coarser.
    """

    WHOLE = auto()
    CUT = auto()
    COARSE = auto()


# looking up a member of an enumeration takes longer than using it
_WHOLE, _CUT, _COARSE = Extent.WHOLE, Extent.CUT, Extent.COARSE


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPeriod:
    """A target period of time in which all chunks have one target.

    Attributes:
        granularity: Of the target; None: chunks stay as they are.
    """

    interval: Interval
    target: CompactionTarget
    granularity: Granularity | None

    def chunk_at(self, at_ms: int, live: Interval | None) -> tuple[Interval, Extent]:
        """Return the target chunk that holds an instant of the target period, and how it came about.

        Buckets that lie wholly in one live chunk, which is coarser than the target, are one chunk, however many they
        are: the calendar may have more of them than anybody can look at, and buckets without rows do not matter.

        Args:
            live: The live time chunk that holds the instant; None if there is none.
        """
        granularity = self.granularity
        is_coarse = False
        if granularity is None:
            bucket = live or DAY.bucket(at_ms)
        elif live is not None and granularity.is_bucket(live):
            bucket = live
        else:
            bucket = granularity.bucket(at_ms)
            is_coarse = live is not None and live.contains(bucket)
        mine = self.interval
        if mine.start_ms <= bucket.start_ms and bucket.end_ms <= mine.end_ms:
            if is_coarse and granularity is not None and live is not None:
                inside = granularity.buckets_inside(live.intersect(mine) or bucket)
                return inside or bucket, _COARSE
            return bucket, _WHOLE
        piece = bucket.intersect(mine)
        if piece is None:
            raise AssertionError("an instant lies in its target_period and in its bucket")
        return piece, _CUT


def plan_target_periods(settings: CompactionSettings, now_ms: int) -> tuple[TargetPeriod, ...]:
    """Return the target periods of all of time, oldest first.

    A chunk follows an age rule once all of it is so old, so the border of two rules is where a bucket of the older
    rule's granularity begins. Rules of which nothing is left between their neighbours do not show.
    """
    target_periods: list[TargetPeriod] = []
    start_ms = MIN_MS
    for rule in reversed(settings.age_rules):
        granularity = _granularity_of(rule.target)
        border_ms = instant_before(now_ms, rule.older_than)
        if granularity is not None and border_ms < MAX_MS:
            border_ms = granularity.bucket(border_ms).start_ms
        if border_ms > start_ms:
            target_periods.append(
                TargetPeriod(
                    interval=Interval(start_ms, border_ms),
                    target=rule.target,
                    granularity=granularity,
                )
            )
            start_ms = border_ms
    target_periods.append(
        TargetPeriod(
            interval=Interval(start_ms, MAX_MS),
            target=settings.target,
            granularity=_granularity_of(settings.target),
        )
    )
    return tuple(target_periods)


def find_target_period(target_periods: Sequence[TargetPeriod], at_ms: int) -> TargetPeriod:
    """Return the target period that holds the instant."""
    if len(target_periods) == 1:
        return target_periods[0]
    return target_periods[
        bisect_right(target_periods, at_ms, key=lambda one: one.interval.start_ms) - 1
    ]


def first_instant_skipped(settings: CompactionSettings, latest_ms: int | None) -> int:
    """Return the instant behind which chunks are too new; `MAX_MS` if none are.

    Args:
        latest_ms: The end of the newest data; None: there are none.
    """
    if settings.skip_offset is None or latest_ms is None:
        return MAX_MS
    return instant_before(latest_ms, settings.skip_offset)


def instant_before(at_ms: int, period: Period) -> int:
    """Return the instant a period before, counted in UTC, within the time that the store keeps."""
    return max(add_period(at_ms, period, -1), MIN_MS)


def _granularity_of(target: CompactionTarget) -> Granularity | None:
    text = target.segment_granularity
    return None if text is None else parse_granularity(text)
