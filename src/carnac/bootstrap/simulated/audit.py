"""Auditors: they look at every commit, every file that goes and every answer, and know what they must be."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from carnac.bootstrap.simulated.audit_locks import LockAuditor
from carnac.core.tasks.machine import OVERLORD
from carnac.core.time.leases import is_over
from carnac.errors import NotFound
from carnac.ports import LeaseKind
from carnac.ports.storage import OWNER_FILE
from carnac.simulation.cluster.oracle import Oracle, compare
from carnac.simulation.cluster.storage import ROOT, name_of

if TYPE_CHECKING:
    from carnac.bootstrap.simulated.audit_locks import Attempts
    from carnac.core.log.commits import Commit
    from carnac.core.segments.segment import Segment
    from carnac.metadata.store import MetadataStore
    from carnac.simulation.cluster.kernel import Kernel
    from carnac.simulation.cluster.storage import Disk

NUMBER = "number"
FILES_KEPT = 1_024
"""Files whose rows are remembered, by all of their bytes."""


@lru_cache(maxsize=FILES_KEPT)
def rows_of(data: bytes) -> tuple[tuple[int, int], ...]:
    """Return number and time, in ms, of each row of a file."""
    table = pq.ParquetFile(pa.BufferReader(data)).read(["__time", NUMBER], use_threads=False)
    times = table.column("__time")
    scale = 1000 if "us" in str(times.type) else 1
    numbers = table.column(NUMBER).to_pylist()
    at = times.cast(pa.int64()).to_pylist()
    return tuple((number, one // scale) for number, one in zip(numbers, at, strict=True))


class Auditor:
    """Looks at the log and at the files, without taking time.

    Args:
        metadata: Metadata store that reads the database itself, past all faults.
        attempts: Attempts whose processes hold locks.
    """

    def __init__(
        self, kernel: Kernel, metadata: MetadataStore, disk: Disk, attempts: Attempts
    ) -> None:
        self.oracle = Oracle(kernel.violate)
        self._kernel, self._metadata, self._disk = kernel, metadata, disk
        self._rows: dict[str, tuple[tuple[int, int], ...]] = {}
        self._locks = LockAuditor(kernel, metadata, attempts)
        disk.on_delete = self._check_delete

    def look(self) -> None:
        """Take in what has been committed since the last look, and compare what is there with what must be."""
        with self._metadata.one_state():
            self._look()

    def _look(self) -> None:
        commits: tuple[Commit, ...] = ()
        if self._metadata.head().revision != self.oracle.revision:
            commits = self._metadata.changes(after=self.oracle.revision)
        self._locks.look(commits)
        self._check_readers()
        if not commits:
            return
        for commit in commits:
            self._kernel.note(
                f"revision {commit.revision}: {commit.kind} {commit.message}"
                + (f" batch {commit.batch}" if commit.batch else "")
            )
            self.oracle.take(commit)
        self.check_newest()

    def _check_readers(self) -> None:
        """Check that what a living reader's lease keeps is there."""
        held = {
            one.revision: one.holder
            for one in self._metadata.leases()
            if one.kind is LeaseKind.READER and one.revision < self.oracle.revision
        }
        for revision, holder in held.items():
            try:
                self._metadata.resolve(revision)
            except NotFound:
                self._kernel.violate(
                    "leases", f"revision {revision} is forgotten, and {holder} holds it still"
                )

    def check_newest(self) -> None:
        """Compare the rows of the newest revision with those that must be there."""
        for info in self._metadata.datasources():
            self._check(info.name, None)
        for name in self.oracle.names():
            if self.oracle.rows(name) and not self._metadata.visible(name):
                self._kernel.violate(
                    "completeness", f"{name} is empty at revision {self.oracle.revision}"
                )

    def _check(self, datasource: str, revision: int | None) -> None:
        found: Counter[int] = Counter()
        for one in self._metadata.visible(datasource, revision=revision):
            rows = self._rows_of(one.segment)
            if rows is None:
                self._kernel.violate(
                    "files",
                    f"segment {one.segment.path} of {datasource} is visible, and its file is not there",
                )
                return
            clip = one.entry.clip
            found.update(number for number, at_ms in rows if clip is None or clip.holds(at_ms))
        at = self.oracle.revision if revision is None else revision
        told = compare(self.oracle.rows(datasource, revision), found)
        if told is not None:
            self._kernel.violate(told[0], f"{datasource} at revision {at}: {told[1]}")

    def _rows_of(self, segment: Segment) -> tuple[tuple[int, int], ...] | None:
        if segment.path not in self._rows:
            held = self._disk.files.get(f"{ROOT}/{segment.path}")
            if held is None:
                return None
            self._rows[segment.path] = rows_of(held[0])
        return self._rows[segment.path]

    def _check_delete(self, path: str) -> None:
        """Refuse that a file goes which a retained revision names."""
        name = path.removeprefix(f"{ROOT}/")
        after = ""
        while page := self._metadata.segments(after=after):
            for one in page:
                if one.path == name:
                    self._kernel.violate(
                        "files", f"{name} is deleted, and a retained revision names it"
                    )
            after = page[-1].segment_id

    def conclude(self) -> None:
        """Look once more at all that is retained, when everything has come to rest."""
        self.look()
        for problem in self._metadata.check():
            self._kernel.violate("metadata", problem)
        for summary in self._metadata.log(limit=1000):
            for info in self._metadata.datasources(summary.revision):
                self._check(info.name, summary.revision)
        self.oracle.conclude()
        for auditor, text in self.leftovers():
            self._kernel.violate(auditor, text)

    def leftovers(self) -> list[tuple[str, str]]:
        """Return files without a record, locks of nobody, a lead that nobody takes, each with its auditor."""
        files = [
            ("garbage", f"{name_of(path)} has no record, and is there still")
            for path in self._garbage()
        ]
        return [
            *files,
            *(("locks", text) for text in self._locks.leaked()),
            *(("liveness", text) for text in self._unled()),
        ]

    def _unled(self) -> list[str]:
        leader = self._metadata.leader(OVERLORD)
        if leader is None or not is_over(
            leader.heartbeat_at_ms, leader.lease_ms, self._kernel.now_ms
        ):
            return []
        at_s = (leader.heartbeat_at_ms - self._kernel.now_ms) // 1_000
        return [
            f"no overlord leads: {leader.holder} gave its last sign of life {at_s} s from now, and is no more"
        ]

    def _garbage(self) -> list[str]:
        known = {f"{ROOT}/{path}" for path in (OWNER_FILE, *self._metadata.known_paths())}
        now_ms = self._kernel.now_ms
        # files that were written when the clock was ahead are kept until then
        return sorted(
            path
            for path, (_, _, at_ms) in self._disk.files.items()
            if at_ms <= now_ms and path not in known
        )
