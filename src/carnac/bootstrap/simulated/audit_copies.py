"""The auditor of historicals: they know again what they acknowledged, and the last copy of what is wanted stays."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carnac.historical import journal
from carnac.historical.server import JOURNAL_NAME, SEGMENTS_FOLDER
from carnac.ports.serving import Role

if TYPE_CHECKING:
    from carnac.core.segments.segment import Segment
    from carnac.historical import Historical
    from carnac.metadata.store import MetadataStore
    from carnac.ports.serving import Inventory
    from carnac.simulation.cluster.kernel import Kernel


NEW_MS = 60_000
"""An order may come as long after it was decided."""


class LocalDisk:
    """The `os` of a journal: a crash of its process is a power cut, which leaves what was synced."""

    def __init__(self) -> None:
        self._synced: dict[int, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fdatasync(self, handle: int) -> None:
        """Have the bytes of a file outlive a power cut."""
        status = os.fstat(handle)
        self._synced[status.st_ino] = status.st_size

    fsync = fdatasync

    def cut(self, path: Path) -> None:
        """Take from a file what was not synced."""
        if path.exists():
            os.truncate(path, self._synced.get(path.stat().st_ino, 0))

    @contextmanager
    def mounted(self) -> Iterator[None]:
        """Have journals written here."""
        module: Any = journal
        was, module.os = module.os, self
        try:
            yield
        finally:
            module.os = was


class CopyAuditor:
    """Knows the orders that each historical got and acknowledged.

    Args:
        folder: Folder that holds the folder of each historical, under its name.
        metadata: Metadata store that reads the database itself, past all faults.
        woke_at_ms: Says when a broker stood still last, and went on: also one that another has followed.
    """

    def __init__(
        self,
        kernel: Kernel,
        metadata: MetadataStore,
        folder: Path,
        woke_at_ms: Callable[[], int],
    ) -> None:
        self._kernel, self._metadata, self._folder = kernel, metadata, folder
        self._woke_at_ms = woke_at_ms
        self.disk = LocalDisk()
        self.held: dict[str, set[str]] = defaultdict(set)
        self.unsure: dict[str, set[str]] = defaultdict(set)

    def begin(self, name: str) -> None:
        """Let a historical begin; entries of its journal that were not synced are gone."""
        self.disk.cut(self._folder / name / JOURNAL_NAME)

    def check_memory(self, name: str, inventory: Inventory) -> None:
        """Check that a historical that has begun knows again what it has acknowledged."""
        known = {one.segment_id for one in inventory.holdings}
        forgotten = self.held[name] - known - self.unsure[name]
        returned = known - self.held[name] - self.unsure[name]
        if forgotten or returned:
            self._kernel.violate(
                "journal",
                f"{name} has begun anew: {len(forgotten)} segments that it had taken are forgotten, "
                f"{len(returned)} that it had let go are back",
            )
        self.held[name] = known
        self.unsure[name].clear()

    def copies(self, segment_id: str) -> list[str]:
        """Return the historicals that have a segment on their disks, and know that they have."""
        return [
            name
            for name, held in sorted(self.held.items())
            if segment_id in held and self._has_file(name, segment_id)
        ]

    def _has_file(self, name: str, segment_id: str) -> bool:
        folder = self._folder / name / SEGMENTS_FOLDER
        return any(segment_id in one.name for one in folder.rglob("*") if one.is_file())

    def check_drop(self, name: str, segment_ids: Sequence[str], before: set[str]) -> None:
        """Check that segments that a historical has just dropped are held elsewhere, or needed by nobody.

        Args:
            before: Segments among them that the historical had.
        """
        last = [one for one in segment_ids if one in before and not self.copies(one)]
        if not last:
            return
        wanted = self._wanted()
        for segment_id in last:
            if segment_id in wanted:
                self._kernel.violate(
                    "copies",
                    f"{name} lets {segment_id} go: revision {wanted[segment_id]} shows it, nobody else has it",
                )

    def _wanted(self) -> dict[str, int]:
        """Return segments that are visible in the newest revision, in the told one, or in one that brokers read now.

        Segments that a revert has just brought back are not among them, nor those of a broker that stood still and is
        back, since the order to drop them was given before.
        """
        told, now_ms = self._metadata.told(), self._kernel.now_ms
        head = self._metadata.head().revision
        revisions = {head} | (set() if told is None else {told.revision})
        for one in self._metadata.servers(Role.BROKER):
            is_heard = abs(now_ms - one.heartbeat_at_ms) < one.lease_ms // 2
            if is_heard and self._woke_at_ms() <= now_ms - NEW_MS:
                revisions |= {one.planning_revision or 0, one.oldest_revision or 0} - {0}
        new = [
            one.revision for one in self._metadata.log(limit=1_000) if one.at_ms > now_ms - NEW_MS
        ]
        before = min([head + 1, *new]) - 1
        shown = {one: self._visible(one) for one in {*revisions, *new, before} if one}
        return {
            segment_id: revision
            for revision in sorted(revisions & shown.keys())
            for segment_id in shown[revision]
            if all(segment_id in shown[one] for one in shown if before <= one <= revision)
        }

    def _visible(self, revision: int) -> set[str]:
        return {
            item.segment.segment_id
            for info in self._metadata.datasources(revision)
            for item in self._metadata.visible(info.name, revision=revision)
        }


class Watched:
    """A historical whose orders are audited (port `SegmentServer`)."""

    def __init__(self, name: str, historical: Historical, auditor: CopyAuditor) -> None:
        self._name, self._historical, self._auditor = name, historical, auditor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._historical, name)

    def assign(self, segments: Sequence[Segment], *, fence: int, number: int) -> None:
        """Let it load segments."""
        ids = {one.segment_id for one in segments}
        self._auditor.unsure[self._name] |= ids
        self._historical.assign(segments, fence=fence, number=number)
        self._auditor.held[self._name] |= ids
        self._auditor.unsure[self._name] -= ids

    def unassign(self, segment_ids: Sequence[str], *, fence: int, number: int) -> None:
        """Let it forget segments."""
        auditor, ids = self._auditor, set(segment_ids)
        had = {one for one in ids if self._name in auditor.copies(one)}
        auditor.unsure[self._name] |= ids
        self._historical.unassign(segment_ids, fence=fence, number=number)
        auditor.held[self._name] -= ids
        auditor.unsure[self._name] -= ids
        auditor.check_drop(self._name, segment_ids, had)
