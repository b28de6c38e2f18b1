"""A load whose rows are written by processes that know the store's files alone: begun here, and published here.

Between the two, nobody renews a lease: it is given for as long as the load may take.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from carnac.core.segments.segment import Segment
from carnac.errors import CarnacError
from carnac.ports import ChunkLayout, JobResult, Lease, LeaseKind
from carnac.ports.storage import require_mounted
from carnac.store.writing import declarations, ranges
from carnac.store.writing.chunking import layout_of
from carnac.store.writing.noticing import allowed_for, load_met, with_notes
from carnac.store.writing.outcome import WriteOutcome
from carnac.store.writing.shown import require_aligned
from carnac.store.writing.writer import Writer

if TYPE_CHECKING:
    from carnac.specs.ingest.spec import IngestSpec
    from carnac.store.writing.loading import LoadPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadApart:
    """A load that has begun. Picklable.

    Attributes:
        layout: Time chunks into which its rows go.
        newest_ms: Time of the newest row before it; None: none of its rows can be late.
        base: Revision that it found.
        leases: A writer's lease, and for a replacement a reader's lease on the segments that it replaces.
    """

    plan: LoadPlan
    layout: ChunkLayout
    newest_ms: int | None
    base: int
    leases: tuple[Lease, ...]

    @property
    def spec(self) -> IngestSpec:
        """The spec of the load."""
        return self.plan.spec


class LoadsApart(Writer):
    """Begins and ends loads apart."""

    def begin(self, plan: LoadPlan, *, holder: str, ttl_ms: int) -> LoadApart:
        """Take note of what a load meets, and protect what it will write.

        Raises:
            Invalid: The intervals of the load cut rolled-up segments.
            ReadOnly: The store cannot be written.
            Unavailable: Deep storage is away.
        """
        require_mounted(self._deep_storage)
        lease = self._metadata.acquire_lease(LeaseKind.WRITER, holder=holder, ttl_ms=ttl_ms)
        leases = [lease]
        spec = plan.spec
        try:
            if spec.mode == "replace":
                leases.append(
                    self._metadata.acquire_lease(
                        LeaseKind.READER, holder=holder, ttl_ms=ttl_ms, revision=lease.revision
                    )
                )
                require_aligned(self._metadata, spec.datasource, spec.intervals, lease.revision)
            layout, newest_ms = layout_of(self._metadata, spec)
        except BaseException:
            self._end(leases)
            raise
        return LoadApart(
            plan=plan,
            layout=layout,
            newest_ms=newest_ms,
            base=lease.revision,
            leases=tuple(leases),
        )

    def finish(
        self,
        load: LoadApart,
        spec: IngestSpec,
        result: JobResult,
        *,
        message: str,
        allowed: tuple[bool, bool],
    ) -> WriteOutcome:
        """Publish the written segments, in one commit.

        Args:
            spec: Spec of the load, as another batch perhaps.
            allowed: As of `Writer.load`.

        Raises:
            Invalid, Conflict: As `Writer.load`. The written files are removed.
            Revoked: The load took longer than its lease. The written files are removed, too.
        """
        plan = replace(load.plan, spec=spec)
        may = allowed_for(allowed, is_remembered=load.plan.is_remembered)
        try:
            replay = ranges.find_replay(self._metadata, plan)
            if replay is not None:
                self._remove_files(result.segments)
                return replay
            with self._files_until_published(result.segments):
                met = load_met(self._metadata, spec, load.base)
                result = with_notes(spec, result, met, may)
                outcome = self._publish_ingest(
                    plan,
                    result,
                    base=met.base,
                    lease=load.leases[0],
                    message=message,
                    guard=None,
                )
        finally:
            self._end(load.leases)
        if outcome.revision is not None and not outcome.is_replay:
            declarations.remember(self._metadata, spec, met.settings)
        return outcome

    def abandon(self, load: LoadApart, segments: Sequence[Segment] = ()) -> None:
        """End a load that is not published, and remove those of its files that are known."""
        self._remove_files(segments)
        self._end(load.leases)

    def _end(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            with suppress(CarnacError):  # it ends by itself
                self._metadata.release_lease(lease.lease_id)
