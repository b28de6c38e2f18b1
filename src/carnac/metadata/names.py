"""Small rules that the stores share: names of tags, leases, how long batches are known, whether locks agree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from carnac.core import invariants
from carnac.core.locks.model import Lock
from carnac.core.tasks.laws import check_tasks
from carnac.core.tasks.model import Attempt, Task
from carnac.errors import CarnacError, Invalid
from carnac.ports import Lease

BATCH_RETENTION_MS = 400 * 86_400_000
"""How long `(writer, batch)` is remembered: far longer than any history, since replays may come late."""


def require_tag_name(name: str) -> None:
    """Refuse names that `at=` would read as something else.

    Raises:
        Invalid: It is empty, only digits, or has a space at an end.
    """
    if not name or name != name.strip() or name.isdecimal():
        raise Invalid(
            f"'{name}' cannot be the name of a tag: it must not be empty, only digits, or begin or end with a space",
            tag=name,
        )


def renewed(lease: Lease, expires_at_ms: int, revision: int | None) -> Lease:
    """Return a lease prolonged, and moved if a revision is given.

    Raises:
        Invalid: The revision is older than the lease's: what was there may be gone.
    """
    if revision is not None and revision < lease.revision:
        raise Invalid(
            f"lease {lease.lease_id} cannot go back from revision {lease.revision} to {revision}",
            lease_id=lease.lease_id,
        )
    return replace(
        lease,
        revision=lease.revision if revision is None else revision,
        expires_at_ms=max(lease.expires_at_ms, expires_at_ms),
    )


def find_lock_problems(locks: Iterable[Lock]) -> Iterator[str]:
    """Yield a sentence if the locks of a store contradict one another."""
    try:
        invariants.check_locks(locks)
    except CarnacError as error:
        yield error.message


def find_task_problems(tasks: Iterable[Task], attempts: Iterable[Attempt]) -> Iterator[str]:
    """Yield a sentence if the tasks of a store contradict one another."""
    by_task: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        by_task[attempt.task_id].append(attempt)
    try:
        check_tasks(tasks, by_task)
    except CarnacError as error:
        yield error.message
