"""The laws of the house: one name and one definition each. Code, tests and the simulator call these.

| id | law |
|---|---|
| SG-1 | (datasource, chunk, version, partition id) is unique among live entries |
| RV-1 | revision n is revision n - 1 plus adds minus drops, and every drop exists in n - 1 |
| CH-1 | the live time chunks of a datasource are disjoint |
| CH-2 | the live entries of a time chunk share one major version |
| EN-1 | what an entry shows lies in its segment's span and in its chunk |
| EN-2 | no instant of a segment is visible through two entries |
| CN-1 | a rewrite's output holds the rows of its input |
| TL-1 .. TL-4 | what a timeline shows: defined and checked in `core/timeline/laws.py` |
| CP-1 .. CP-5 | what compaction may plan, and when it rests: defined and checked in `core/compaction/laws.py` |
| BL-1 .. BL-4 | what balancing may plan, and when it rests: defined and checked in `core/balancing/laws.py` |
| LK-1 | locks of different groups that are held on one (time, partition id) are of types that may stand side by side |
| LK-2 | nobody preempts a lock in its publishing section |
| LK-3 | nobody preempts a lock of equal or higher priority: who came first stays |
| LK-4 | no tasks wait for one another in a circle |
| LK-5 | nobody waits for a task that was not heard of for a whole lease |
| LK-6 | what is published under a lock is published while the lock is held |
| LK-7 | nobody waits who need not: a held lock keeps them out that they may not preempt, or somebody is before them |

What LK-1, LK-2 and LK-3, LK-5, LK-6 mean is one predicate each of `core/locks/model.py`: `may_share`, `may_preempt`,
`is_due`, `may_publish`; the lockbox decides by the same ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from carnac.core.commits import ConservationProof
from carnac.core.entries import Entry
from carnac.core.intervals import Interval, IntervalSet, interval_set
from carnac.core.locks.model import Lock, LockState, is_due, may_preempt, may_share
from carnac.core.locks.waits import find_any_circle, waits_for
from carnac.errors import InvariantError


def check(law: str, holds: bool, detail: str) -> None:
    """Raise unless the law holds; unlike `assert`, `-O` cannot remove it.

    Raises:
        InvariantError: `holds` is false.
    """
    if not holds:
        raise InvariantError(f"{law} does not hold: {detail}; this is a bug in Carnac", law=law)


def check_entries(datasource: str, live: Iterable[Entry]) -> None:
    """Check SG-1, CH-1, CH-2, EN-1 and EN-2 for all live entries of a datasource."""
    entries = list(live)
    places = {(entry.chunk, entry.version, entry.partition_id) for entry in entries}
    check("SG-1", len(places) == len(entries), f"two entries of {datasource} share one place")
    check_chunks(datasource, {entry.chunk for entry in entries})
    majors: dict[Interval, set[int]] = defaultdict(set)
    shown: dict[str, list[IntervalSet]] = defaultdict(list)
    for entry in entries:
        majors[entry.chunk].add(entry.version.major_ms)
        shown[entry.segment_id].append(entry.visible)
        check_entry(datasource, entry)
    for chunk, versions in majors.items():
        check(
            "CH-2",
            len(versions) == 1,
            f"chunk {chunk} of {datasource} has major versions {versions}",
        )
    for segment_id, sets in shown.items():
        check("EN-2", are_disjoint(sets), f"segment {segment_id} of {datasource} shows rows twice")


def check_chunks(datasource: str, chunks: Iterable[Interval]) -> None:
    """Check CH-1."""
    for left, right in pairwise(sorted(chunks)):
        check(
            "CH-1",
            left.end_ms <= right.start_ms,
            f"chunks {left} and {right} of {datasource} overlap",
        )


def check_entry(datasource: str, entry: Entry) -> None:
    """Check EN-1."""
    visible = entry.visible.span()
    check(
        "EN-1",
        visible is not None and entry.span.contains(visible) and entry.chunk.contains(visible),
        f"entry {entry.entry_id} of {datasource} shows {visible}, outside of its chunk {entry.chunk} "
        f"or its segment's span {entry.span}",
    )


def are_disjoint(sets: Iterable[IntervalSet]) -> bool:
    """Whether no instant is in two of the sets."""
    pieces = [piece for one in sets for piece in one]
    return sum(piece.duration_ms for piece in interval_set(pieces)) == sum(
        piece.duration_ms for piece in pieces
    )


def conserves(proof: ConservationProof) -> bool:
    """CN-1: whether a rewrite's proof says that the rows are the same (sums to 1e-9, relative)."""
    return (
        proof.rows_in == proof.rows_out
        and proof.row_hash_in == proof.row_hash_out
        and proof.sums_in.keys() == proof.sums_out.keys()
        and all(
            abs(value - proof.sums_out[name]) <= 1e-9 * max(abs(value), 1.0)
            for name, value in proof.sums_in.items()
        )
    )


def check_locks(locks: Iterable[Lock]) -> None:
    """Check LK-1 and LK-4 for all locks of a store."""
    known = list(locks)
    held = sorted(
        (lock for lock in known if lock.state is LockState.HELD),
        key=lambda lock: (lock.datasource, lock.interval.start_ms),
    )
    for place, lock in enumerate(held):
        for other in held[place + 1 :]:
            if other.datasource != lock.datasource or (
                other.interval.start_ms >= lock.interval.end_ms
            ):
                break
            check(
                "LK-1",
                may_share(lock, other),
                f"locks {lock.lock_id} of {lock.task_id} and {other.lock_id} of {other.task_id} are held at once",
            )
    circle = find_any_circle(known)
    check("LK-4", not circle, f"tasks {', '.join(circle)} wait for one another")


def check_preemption(request: Lock, victim: Lock) -> None:
    """Check LK-2 and LK-3.

    Args:
        victim: As it was before.
    """
    check(
        "LK-2",
        not victim.is_publishing,
        f"lock {request.lock_id} preempted {victim.lock_id}, which was publishing",
    )
    check(
        "LK-3",
        may_preempt(request, victim),
        f"lock {request.lock_id} of priority {request.priority} preempted {victim.lock_id} of {victim.priority}",
    )


def check_waits(locks: Iterable[Lock], request: Lock, at_ms: int) -> None:
    """Check LK-5 and LK-7 of a request that was told at `at_ms` to wait."""
    blockers = waits_for(list(locks)).get(request.lock_id, ())
    for blocker in blockers:
        check(
            "LK-5",
            not is_due(blocker, at_ms),
            f"request {request.lock_id} waits for {blocker.lock_id}, whose lease is over",
        )
    check(
        "LK-7",
        any(
            blocker.state is LockState.WAITING or not may_preempt(request, blocker)
            for blocker in blockers
        ),
        f"request {request.lock_id} waits though nothing keeps it out",
    )
