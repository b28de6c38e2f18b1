"""Compaction: groups are looked up, rewritten on Spark, proved, and published one by one.

A group conflicts only if one of its own inputs is no longer what it read. The publication carries forward segments that
were appended meanwhile. While groups run, new commits are watched. A group whose input has vanished is cancelled at
once, and only that one. Its files are removed and reported as wasted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from carnac.core.compaction.plan.groups import (
    CompactionGroup,
    CompactionTarget,
    GroupKind,
    whole_intervals,
)
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.errors import Invalid, NotFound
from carnac.ports import JobProgress, WriteGuard
from carnac.store.compacting.reports import CompactionReport, GroupReport
from carnac.store.compacting.run import CompactionRun
from carnac.store.compacting.store_view import CompactionStore

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore

ProgressListener: TypeAlias = Callable[[JobProgress], None]


def run_groups(
    store: CompactionStore,
    groups: Sequence[CompactionGroup],
    *,
    guard: WriteGuard | None,
    batch: tuple[str, str] | None,
    message: str,
    on_group: Callable[[GroupReport], None] | None,
    on_progress: ProgressListener | None,
) -> CompactionReport:
    """Run groups and publish what they became; each commits alone, as soon as it is done.

    Args:
        guard: The locks of the task that runs them.
        batch: Writer and batch of the whole; a group that was published under them before is not run again.
        on_group: Called for each group when it has ended, from any thread.

    Raises:
        Invalid: Two groups share an id.
        Revoked: The right to publish is gone: stop.
        Unavailable: Spark or the metadata store does not answer.
    """
    if len({group.group_id for group in groups}) != len(groups):
        raise Invalid("two compaction groups share an id; give each its own")
    started_ms = store.clock.now_ms()
    with store.leases.reading(None) as reading, store.leases.writing() as lease:
        run = CompactionRun(
            store,
            base=reading.head.revision,
            lease=lease,
            guard=guard,
            batch=batch,
            message=message,
            on_group=on_group,
        )
        jobs = [job for group in groups if (job := run.prepare(group)) is not None]
        if jobs:
            store.pipeline().run_rewrites(
                jobs,
                on_end=run.end,
                find_cancel_reason=run.find_cancel_reason,
                on_waste=run.note_waste,
                on_progress=on_progress,
            )
    reports = run.reports
    return CompactionReport(
        groups=tuple(reports[group.group_id] for group in groups),
        seconds=(store.clock.now_ms() - started_ms) / 1000,
    )


def plan_interval(
    metadata: MetadataStore,
    datasource: str,
    interval: Interval | None,
    segments: Sequence[str] | None,
    target: CompactionTarget,
) -> tuple[CompactionGroup, ...]:
    """Return one group for each time chunk: major, or minor if segments are named.

    Raises:
        NotFound: There is no such datasource, or a segment is not visible.
    """
    metadata.require_datasource(datasource)
    where = None if interval is None else IntervalSet((interval,))
    found = metadata.visible(datasource, intervals=where)
    chosen: dict[Interval, list[str]] = defaultdict(list)
    if segments is None:
        chunks = sorted({item.entry.chunk for item in found})
        chosen.update((piece, []) for piece in whole_intervals(chunks, target.segment_granularity))
    else:
        wanted = set(segments)
        missing = sorted(wanted - {item.segment.segment_id for item in found})
        if missing:
            raise NotFound(f"segment {', '.join(missing)} of {datasource} is not visible there")
        for item in found:
            if item.segment.segment_id in wanted:
                chosen[item.entry.chunk].append(item.segment.segment_id)
    return tuple(
        CompactionGroup(
            group_id=f"{datasource}/{piece}",
            datasource=datasource,
            kind=GroupKind.MAJOR if segments is None else GroupKind.MINOR,
            interval=piece,
            segment_ids=tuple(ids),
            target=target,
        )
        for piece, ids in sorted(chosen.items())
    )
