"""The store as a run of compaction groups sees it: inputs of groups, publication and removal of their outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from carnac.core.compaction.plan.groups import CHUNKS_MAX, CompactionGroup, GroupKind
from carnac.core.log.entries import VisibleSegment
from carnac.core.segments.segment import Segment
from carnac.core.time.granularity import parse_granularity
from carnac.core.time.intervals import Interval, IntervalSet, interval_text
from carnac.errors import CarnacError, Conflict, Invalid
from carnac.ports import Clock, DeepStorage
from carnac.store.leases import LeaseKeeper

if TYPE_CHECKING:
    from carnac.jobs.pipeline import SparkPipeline
    from carnac.metadata.store import MetadataStore


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStore:
    """Looks up inputs of groups, publishes their outputs, removes outputs that are not published.

    Attributes:
        segment_granularity: Segment granularity of a datasource, for rows that fall where no chunk is.
    """

    metadata: MetadataStore
    deep_storage: DeepStorage
    pipeline: Callable[[], SparkPipeline]
    leases: LeaseKeeper
    clock: Clock
    segment_granularity: Callable[[str], str]

    def inputs(self, group: CompactionGroup, base: int) -> tuple[VisibleSegment, ...]:
        """Return the entries of the group's inputs.

        Raises:
            Conflict: One of the named segments is not visible in the interval any more.
        """
        found = self.metadata.visible(
            group.datasource, revision=base, intervals=IntervalSet((group.interval,))
        )
        if not group.segment_ids:
            return tuple(found)
        wanted = set(group.segment_ids)
        chosen = tuple(item for item in found if item.segment.segment_id in wanted)
        missing = sorted(wanted - {item.segment.segment_id for item in chosen})
        if missing:
            rest = f"and {len(missing) - 1} more are" if len(missing) > 1 else "is"
            raise Conflict(
                f"segment {missing[0]} of {group.datasource} {rest} no longer visible in "
                f"{interval_text(group.interval)}; plan again",
                datasource=group.datasource,
                segment_id=missing[0],
            )
        return chosen

    def chunks(
        self, group: CompactionGroup, entries: Sequence[VisibleSegment]
    ) -> tuple[Interval, ...]:
        """Return the time chunks that the group's outputs are written for; none: the few of very many that have rows.

        Args:
            entries: Entries of its inputs. Their chunks are kept if the target names no granularity.

        Raises:
            Invalid: The interval is no whole number of buckets of the target's granularity, or no bucket of it if only
                some of its segments are read.
        """
        text = group.target.segment_granularity
        granularity = None if text is None else parse_granularity(text)
        if group.kind is GroupKind.MINOR:
            if granularity is not None and not granularity.is_bucket(group.interval):
                raise Invalid(
                    f"segments that are named stay in their time chunk, {interval_text(group.interval)}, which is none "
                    f"of {text}; name an interval in place of segments, or leave segmentGranularity out",
                    group_id=group.group_id,
                )
            return (group.interval,)
        if granularity is None:
            inside = {item.entry.chunk.intersect(group.interval) for item in entries}
            return tuple(sorted(piece for piece in inside if piece is not None))
        if not granularity.is_aligned(group.interval):
            raise Invalid(
                f"interval {interval_text(group.interval)} of group {group.group_id} is no whole "
                f"number of buckets of {text};"
                f" align it",
                group_id=group.group_id,
            )
        if granularity.nominal_ms * CHUNKS_MAX < group.interval.duration_ms:
            return ()
        return tuple(granularity.buckets(group.interval))

    def remove_files(self, segments: Sequence[Segment]) -> None:
        """Remove files that will not be published; garbage collection deletes those that cannot be removed now."""
        for segment in segments:
            with suppress(CarnacError):
                self.deep_storage.delete(segment.path)
