"""Ingestion and deletion: from what a person asks for to a publication."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from carnac.core.commits import Change, CommitKind, Drop, Publication
from carnac.core.entries import VisibleSegment
from carnac.core.granularity import parse_granularity
from carnac.core.intervals import MAX_MS, MIN_MS, Interval, IntervalSet, format_ms, interval_set
from carnac.core.segments import Segment
from carnac.errors import Conflict, Invalid, NotFound, Revoked
from carnac.ports import (
    ChunkLayout,
    DataPipeline,
    DeepStorage,
    JobProgress,
    JobReport,
    MetadataStore,
    Published,
    SegmentInput,
)
from carnac.store.leases import LeaseKeeper

if TYPE_CHECKING:
    from carnac.specs.ingest import IngestSpec

ProgressListener: TypeAlias = Callable[[JobProgress], None]
DELETE_ATTEMPTS_MAX = 10
"""A delete reads and publishes in milliseconds; so many conflicts in a row mean that something else is wrong."""
EMPTY = IntervalSet()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOutcome:
    """What a write did.

    Attributes:
        revision: Of its commit, or of the first commit of the same `(writer, batch)`; None if there was nothing to
            publish.
        is_replay: The batch had been published before; nothing was done.
        report: None for deletions by interval and replays.
        segments_added: New segments.
        segments_dropped: Segments of which something was taken out of sight.
        rows_deleted: Rows that a predicate delete took out; None for other writes.
    """

    revision: int | None
    is_replay: bool = False
    report: JobReport | None = None
    segments_added: int = 0
    segments_dropped: int = 0
    rows_deleted: int | None = None


class Writer:
    """Runs data jobs and publishes what they wrote."""

    def __init__(
        self,
        metadata: MetadataStore,
        deep_storage: DeepStorage,
        pipeline: Callable[[], DataPipeline],
        leases: LeaseKeeper,
    ) -> None:
        self._metadata = metadata
        self._deep_storage = deep_storage
        self._pipeline = pipeline
        self._leases = leases

    def run_ingest(
        self,
        spec: IngestSpec,
        *,
        rows: object | None = None,
        message: str = "",
        on_progress: ProgressListener | None = None,
    ) -> WriteOutcome:
        """Run the spec and publish its segments in one commit.

        Raises:
            Conflict: A replacement's inputs were changed meanwhile. The written files are removed.
            Invalid, NotFound, Unavailable: As the pipeline says; nothing was published.
        """
        replay = self._find_replay(spec)
        if replay is not None:
            return replay
        base = self._metadata.head().revision
        if spec.mode == "replace":
            self._check_aligned(spec.datasource, spec.intervals, base)
        layout, newest_ms = self._layout(spec)
        with self._leases.writing() as lease:
            result = self._pipeline().run_ingest(
                spec, layout, rows=rows, newest_before_ms=newest_ms, on_progress=on_progress
            )
            covers = self._covers(spec, result.segments)
            dropped = self._visible(spec.datasource, base, covers) if covers else {}
            if not result.segments and not dropped and spec.writer is None:
                return WriteOutcome(revision=None, report=result.report)
            change = Change(
                datasource=spec.datasource,
                adds=result.segments,
                drops=_drops(dropped, covers),
                takes_over=spec.mode == "replace" and bool(result.segments),
                covers=covers,
                segment_granularity=str(spec.granularity.segment_granularity),
            )
            published = self._publish(
                Publication(
                    kind=CommitKind.REPLACE if spec.mode == "replace" else CommitKind.APPEND,
                    changes=(change,),
                    writer=spec.writer,
                    batch=spec.batch,
                    base_revision=base,
                    message=message,
                    lease_id=lease.lease_id,
                )
            )
        self._remember_granularity(spec)
        return WriteOutcome(
            revision=published.revision,
            is_replay=published.is_replay,
            report=result.report,
            segments_added=len(result.segments),
            segments_dropped=len(dropped),
        )

    def delete_interval(
        self, datasource: str, interval: Interval, *, message: str = ""
    ) -> WriteOutcome:
        """Delete what is visible in the interval: metadata only.

        Raises:
            NotFound: There is no such datasource.
            Invalid: The interval is not aligned to the query granularity of rolled-up segments that it cuts.
        """
        covers = IntervalSet((interval,))
        for attempt in range(1, DELETE_ATTEMPTS_MAX + 1):
            base = self._metadata.head().revision
            self._require_datasource(datasource, base)
            self._check_aligned(datasource, covers, base)
            dropped = self._visible(datasource, base, covers)
            if not dropped:
                return WriteOutcome(revision=None)
            change = Change(datasource=datasource, drops=_drops(dropped, covers), covers=covers)
            try:
                published = self._metadata.publish(
                    Publication(
                        kind=CommitKind.DELETE,
                        changes=(change,),
                        base_revision=base,
                        message=message or f"delete {interval}",
                    )
                )
            except Conflict:
                if attempt == DELETE_ATTEMPTS_MAX:
                    raise
                continue
            return WriteOutcome(revision=published.revision, segments_dropped=len(dropped))
        raise AssertionError("unreachable")

    def delete_where(
        self,
        datasource: str,
        predicate: str,
        *,
        interval: Interval | None = None,
        message: str = "",
        on_progress: ProgressListener | None = None,
    ) -> WriteOutcome:
        """Delete the rows for which the SQL predicate is true: rewrites the segments that hold any, and no others.

        Raises:
            NotFound: There is no such datasource.
            Invalid: The predicate is not SQL over the datasource's columns.
            Conflict: One of the rewritten segments was changed meanwhile. The written files are removed.
        """
        base = self._metadata.head().revision
        self._require_datasource(datasource, base)
        visible = self._visible_whole(datasource, base, interval)
        inputs = [
            SegmentInput(segment=segment, visible=shown) for segment, shown in visible.values()
        ]
        if interval is not None:
            start, end = format_ms(interval.start_ms), format_ms(interval.end_ms)
            predicate = f"({predicate}) AND __time >= TIMESTAMPTZ '{start}' AND __time < TIMESTAMPTZ '{end}'"
        with self._leases.writing() as lease:
            rewrites = self._pipeline().run_delete_where(
                datasource, inputs, predicate, on_progress=on_progress
            )
            if not rewrites:
                return WriteOutcome(revision=None, rows_deleted=0)
            adds = tuple(segment for rewrite in rewrites for segment in rewrite.replacements)
            change = Change(
                datasource=datasource,
                adds=adds,
                drops=tuple(
                    Drop(
                        segment_id=rewrite.source.segment.segment_id,
                        expected=rewrite.source.visible,
                    )
                    for rewrite in rewrites
                ),
                segment_granularity=self.segment_granularity(datasource),
            )
            published = self._publish(
                Publication(
                    kind=CommitKind.DELETE,
                    changes=(change,),
                    base_revision=base,
                    message=message or f"delete where {predicate}",
                    lease_id=lease.lease_id,
                )
            )
        return WriteOutcome(
            revision=published.revision,
            segments_added=len(adds),
            segments_dropped=len(rewrites),
            rows_deleted=sum(rewrite.rows_deleted for rewrite in rewrites),
        )

    def segment_granularity(self, datasource: str) -> str:
        """Return the granularity for rows that fall where no chunk is: that of the last ingestion."""
        return self._metadata.settings().get(_granularity_key(datasource), "day")

    def _find_replay(self, spec: IngestSpec) -> WriteOutcome | None:
        if spec.writer is None or spec.batch is None:
            return None
        revision = self._metadata.find_batch(spec.writer, spec.batch)
        return None if revision is None else WriteOutcome(revision=revision, is_replay=True)

    def _layout(self, spec: IngestSpec) -> tuple[ChunkLayout, int | None]:
        chunks = self._metadata.chunks(spec.datasource)
        newest_ms = self._newest_ms(spec.datasource, chunks[-1].interval) if chunks else None
        is_replace = spec.mode == "replace"
        layout = ChunkLayout(
            segment_granularity=str(spec.granularity.segment_granularity),
            existing=() if is_replace else tuple(chunk.interval for chunk in chunks),
            within=spec.intervals if is_replace and spec.intervals else None,
        )
        return layout, newest_ms

    def _newest_ms(self, datasource: str, last_chunk: Interval) -> int | None:
        visible = self._metadata.visible(datasource, intervals=IntervalSet((last_chunk,)))
        ends = [piece.end_ms for found in visible for piece in found.entry.visible]
        return max(ends) - 1 if ends else None

    def _covers(self, spec: IngestSpec, segments: Sequence[Segment]) -> IntervalSet:
        if spec.mode != "replace":
            return EMPTY
        if spec.replace_scope == "intervals":
            return spec.intervals
        return interval_set(segment.chunk for segment in segments)

    def _visible(
        self, datasource: str, revision: int, intervals: IntervalSet | None
    ) -> dict[str, tuple[Segment, IntervalSet]]:
        """Return the segments with an entry that shows something within `intervals`, and what those entries show."""
        found = self._metadata.visible(datasource, revision=revision, intervals=intervals)
        shown: dict[str, IntervalSet] = defaultdict(IntervalSet)
        segments: dict[str, Segment] = {}
        for item in found:
            segments[item.segment.segment_id] = item.segment
            shown[item.segment.segment_id] = shown[item.segment.segment_id].union(
                item.entry.visible
            )
        return {
            segment_id: (segment, shown[segment_id]) for segment_id, segment in segments.items()
        }

    def _visible_whole(
        self, datasource: str, revision: int, interval: Interval | None
    ) -> dict[str, tuple[Segment, IntervalSet]]:
        """Return the segments that show something within `interval`, with all that they show anywhere."""
        if interval is None:
            return self._visible(datasource, revision, None)
        inside = self._visible(datasource, revision, IntervalSet((interval,)))
        spans = interval_set(segment.span for segment, _ in inside.values())
        around = self._visible(datasource, revision, spans) if spans else {}
        return {segment_id: around[segment_id] for segment_id in inside}

    def _publish(self, publication: Publication) -> Published:
        """Publish, or remove the files that were written for it."""
        try:
            published = self._metadata.publish(publication)
        except (Conflict, Invalid, Revoked):
            # Certainly not published. After any other failure the commit may be there: gc decides.
            self._remove_files(publication)
            raise
        if published.is_replay:
            self._remove_files(publication)
        return published

    def _remove_files(self, publication: Publication) -> None:
        for change in publication.changes:
            for segment in change.adds:
                self._deep_storage.delete(segment.path)

    def _require_datasource(self, datasource: str, revision: int) -> None:
        names = [info.name for info in self._metadata.datasources(revision)]
        if datasource not in names:
            raise NotFound(
                f"there is no datasource '{datasource}'; there are {', '.join(names) or 'none yet'}",
                datasource=datasource,
            )

    def _check_aligned(self, datasource: str, covers: IntervalSet, revision: int) -> None:
        """Rolled-up rows stand for a whole bucket: an interval must not cut one."""
        for interval in covers:
            for edge_ms in (interval.start_ms, interval.end_ms):
                if edge_ms in {MIN_MS, MAX_MS}:
                    continue
                around = IntervalSet((Interval(edge_ms - 1, edge_ms + 1),))
                for found in self._metadata.visible(
                    datasource, revision=revision, intervals=around
                ):
                    _check_edge(found, edge_ms, interval)

    def _remember_granularity(self, spec: IngestSpec) -> None:
        key, value = _granularity_key(spec.datasource), str(spec.granularity.segment_granularity)
        if self._metadata.settings().get(key) != value:
            self._metadata.put_settings({key: value})


def _check_edge(found: VisibleSegment, edge_ms: int, interval: Interval) -> None:
    text = found.segment.query_granularity
    granularity = parse_granularity(text)
    if granularity.bucket(edge_ms).start_ms != edge_ms:
        raise Invalid(
            f"interval {interval} cuts rows of {found.segment.datasource} that stand for a whole {text}; "
            f"align it to the query granularity, for example to {granularity.bucket(edge_ms)}",
            interval=str(interval),
        )


def _drops(
    visible: dict[str, tuple[Segment, IntervalSet]], covers: IntervalSet
) -> tuple[Drop, ...]:
    return tuple(
        Drop(segment_id=segment_id, expected=shown.intersect(covers), within=covers)
        for segment_id, (_, shown) in visible.items()
    )


def _granularity_key(datasource: str) -> str:
    return f"segment_granularity:{datasource}"
