"""The auditor of locks: rules for locks beside one another, without the lockbox's code, and for publications."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

from carnac.core.locks.model import Lock, LockState
from carnac.core.tasks.model import parse_lock_owner

if TYPE_CHECKING:
    from carnac.core.log.commits import Commit
    from carnac.metadata.store import MetadataStore
    from carnac.simulation.cluster.kernel import Kernel, Process

BESIDE = ({"SHARED"}, {"APPEND"}, {"APPEND", "REPLACE"})
"""Types of locks of two tasks that may be on the same rows."""


@dataclass
class Attempts:
    """The processes of attempts, which outlive the overlord that started them.

    Attributes:
        running: Processes by handle.
        owners: Name under which each process holds its locks.
    """

    running: dict[str, Process] = field(default_factory=dict)
    owners: dict[Process, str] = field(default_factory=dict)


class LockAuditor:
    """Looks at the locks after each commit.

    Args:
        metadata: Metadata store that reads the database itself, past all faults.
    """

    def __init__(self, kernel: Kernel, metadata: MetadataStore, attempts: Attempts) -> None:
        self._kernel, self._metadata, self._attempts = kernel, metadata, attempts

    def look(self, commits: tuple[Commit, ...]) -> None:
        """Check the locks that are held now, and the right of tasks that have just published."""
        if not self._attempts.owners:
            return
        held = [lock for lock in self._metadata.locks() if lock.state is LockState.HELD]
        for one, other in combinations(held, 2):
            if _collide(one, other):
                self._kernel.violate(
                    "locks",
                    f"{one.task_id} and {other.task_id} both hold {one.datasource} {one.interval}",
                )
        here = self._kernel.here()
        owner = None if here is None else self._attempts.owners.get(here.process)
        if owner is not None:
            for commit in commits:
                self._check_right(owner, commit, held)

    def _check_right(self, owner: str, commit: Commit, held: list[Lock]) -> None:
        own = [lock for lock in held if lock.task_id == owner]
        for change in commit.changes:
            for entry in (*change.adds, *change.drops):
                if not any(
                    lock.datasource == change.datasource and lock.interval.overlaps(entry.chunk)
                    for lock in own
                ):
                    self._kernel.violate(
                        "fences",
                        f"{owner} published revision {commit.revision} without a lock on {entry.chunk}",
                    )
                    return
        task = parse_lock_owner(owner)
        live = {
            (one.task_id, one.number)
            for one in self._metadata.live_attempts()
            if not one.state.is_over
        }
        if task not in live:
            self._kernel.violate(
                "fences", f"{owner} published revision {commit.revision} after it was given up"
            )

    def leaked(self) -> list[str]:
        """Return what is held or waited for by a task that is no more."""
        live = {one.lock_owner for one in self._metadata.live_attempts() if not one.state.is_over}
        return [
            f"lock {lock.lock_id} of {lock.task_id} is {lock.state} still, and its attempt is over"
            for lock in self._metadata.locks()
            if lock.state in {LockState.HELD, LockState.WAITING} and lock.task_id not in live
        ]


def _collide(one: Lock, other: Lock) -> bool:
    """Whether two tasks hold what only one of them may."""
    if one.group_id == other.group_id or one.datasource != other.datasource:
        return False
    if {one.type.name, other.type.name} in BESIDE:
        return False
    if one.interval.end_ms <= other.interval.start_ms:
        return False
    if other.interval.end_ms <= one.interval.start_ms:
        return False
    if one.partitions is None or other.partitions is None:
        return True
    return bool({*_ids(one)} & {*_ids(other)})


def _ids(lock: Lock) -> list[int]:
    return [] if lock.partitions is None else list(lock.partitions)
