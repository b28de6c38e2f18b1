"""The laws of the house: one name and one definition each. Code, tests and the simulator call these.

| id | law |
|---|---|
| SG-1 | (datasource, chunk, version, partition id) is unique among live entries |
| RV-1 | revision n is revision n - 1 plus adds minus drops, and every drop exists in n - 1 |
| CH-1 | the live time chunks of a datasource are disjoint |
| CH-2 | the live entries of a time chunk share one major version |
| EN-1 | the instants that an entry shows lie in its segment's span and in its chunk |
| EN-2 | no instant of a segment is visible through two entries |
| CN-1 | a rewrite's output holds the rows of its input, a deletion's all but those that it deleted |
| PO-1 | each offset range of a writer begins where the one before it in the same source ended |
| TL-1 .. TL-4 | the entries that a timeline shows: checked by `tests/support/laws/timeline.py` |
| TL-6 | a timeline and the log show the same: tests, and of live entries `find_disagreements` of `core/timeline` |
| CP-1 .. CP-5 | plans of compaction, and when it rests: checked by `tests/support/laws/compaction.py` |
| BL-1 .. BL-5 | plans of balancing, and when it rests: checked by `tests/support/laws/balancing.py` |
| RO-1 .. RO-7 | revisions told, copies unloaded, and when a rollout rests: checked by `tests/support/laws/rollout.py` |
| AN-1, AN-2 | claims of an answer about itself: defined and checked in `core/answers/laws.py` |
| AN-3 | which queries wait: checked by `tests/support/laws/answers.py` |
| LK-1 | locks of different groups that are held on one (time, partition id) are of types that may stand side by side |
| LK-2 | nobody preempts a lock in its publishing section |
| LK-3 | nobody preempts a lock of equal or higher priority: the one that came first stays |
| LK-4 | no tasks wait for one another in a circle |
| LK-5 | nobody waits for a task that was not heard of for a whole lease |
| LK-6 | a publication under a lock happens while the lock is held |
| LK-7 | no request waits in vain: a held lock keeps it out that it may not preempt, or another one is before it |
| LK-8 | nobody is granted past one that is before it, unless that waits for its task, or its group holds the same |

LK-1, LK-2 and LK-3, LK-5, LK-6 are one predicate each of `core/locks/model.py`: `may_share`, `may_preempt`, `is_due`,
`may_publish`. The lockbox decides by the same ones.
"""

from __future__ import annotations

from carnac.errors import InvariantError


def check(law: str, holds: bool, detail: str) -> None:
    """Raise unless the law holds; unlike `assert`, `-O` cannot remove it.

    Raises:
        InvariantError: `holds` is false.
    """
    if not holds:
        raise InvariantError(f"{law} does not hold: {detail}; this is a bug in Carnac", law=law)
