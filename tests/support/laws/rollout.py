"""The laws of rollouts: one name and one definition each. Tests and the model check call these.

| id | law |
|---|---|
| RO-1 | a query reads segments and lookups of one revision: each entry that it needs, once |
| RO-2 | the told revision never goes backwards, and no leader moves it once a later one has |
| RO-3 | a revision is told once all that it adds is loaded on a server that is counted on, or is cold for a reason |
| RO-4 | nothing is unloaded as replaced that a revision in use needs: a told one, or one that a broker may still read |
| RO-5 | the last loaded copy of what is wanted and in use is never dropped, nor all copies at once |
| RO-6 | nothing is waited for longer than the limit that has a name |
| RO-7 | when nothing happens any more, the newest revision is told and nothing is held that it does not need |

They are written from the definition, revision by revision, and share no code with the decision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set

from carnac.core.invariants import check
from carnac.core.rollout.model import REPLACED, Rollout, RolloutState


def check_read(
    revision: int, needed: Iterable[str], read: Iterable[tuple[int, str]], lookups_at: int | None
) -> None:
    """Check RO-1 for a query that is over.

    Args:
        revision: The revision that the query was planned on.
        needed: Segments that it needs there, by the log.
        read: Reports of leaves: the revision that they were asked for, and the segment that was read.
        lookups_at: The revision of the lookups that it joined with; None: it joined with none.
    """
    wanted = Counter((revision, one) for one in needed)
    found = Counter(read)
    check("RO-1", found == wanted, f"a query on revision {revision} read {found}, not {wanted}")
    check(
        "RO-1",
        lookups_at in (None, revision),
        f"a query on revision {revision} joined with lookups of {lookups_at}",
    )


def check_told(before: tuple[int, int] | None, after: tuple[int, int]) -> None:
    """Check RO-2 for a change of what is told.

    Args:
        before: The revision and the fence of who told it; None: nothing was told.
        after: The same afterwards.
    """
    if before is not None:
        check("RO-2", after[0] >= before[0], f"{after[0]} is told after {before[0]}")
        check(
            "RO-2",
            after == before or after[1] >= before[1],
            f"fence {after[1]} tells a revision after fence {before[1]} has",
        )


def check_rollout(state: RolloutState, rollout: Rollout) -> None:
    """Check RO-2 to RO-6 for a decision."""
    if state.told_revision is not None:
        check_told((state.told_revision, 0), (rollout.tell_revision, 0))
        check_readiness(state, rollout)
        check_waiting(state, rollout)
    check_unloads(state, rollout)


def check_readiness(state: RolloutState, rollout: Rollout) -> None:
    """Check RO-3: segments that the revision needs and the last told one does not are loaded, or cold for a reason."""
    told = state.told_revision or 0
    added = _needed_at(state, rollout.tell_revision) - _needed_at(state, told)
    for segment_id in added:
        homes = [s.server_id for s in state.historicals if s.counts and segment_id in s.loaded]
        check(
            "RO-3",
            bool(homes) or segment_id in rollout.cold,
            f"revision {rollout.tell_revision} is told, and {segment_id} is loaded nowhere",
        )


def check_unloads(state: RolloutState, rollout: Rollout) -> None:
    """Check RO-4 and RO-5: of all orders together."""
    lives = state.lives
    told = lives.head if state.told_revision is None else state.told_revision
    check("RO-4", state.told_revision is not None or not rollout.unloads, "nothing is told yet")
    oldest = min([told, *(broker.floor for broker in state.counted_brokers)])
    in_use = range(max(oldest, lives.base), lives.head + 1)
    needed = {one for revision in in_use for one in _needed_at(state, revision)}
    for one in rollout.unloads:
        if one.why == REPLACED:
            check(
                "RO-4",
                oldest >= lives.base and one.segment_id not in needed,
                f"{one.server_id} is to unload {one.segment_id}, which a revision from {oldest} on needs",
            )
    ordered = {(one.server_id, one.segment_id) for one in rollout.unloads}
    for segment_id in {one.segment_id for one in rollout.unloads} & needed - state.unwanted:
        loaded = [s for s in state.historicals if segment_id in s.loaded]
        takes = [s.server_id for s in loaded if (s.server_id, segment_id) in ordered]
        stays = [s.server_id for s in loaded if s.counts and s.server_id not in takes]
        check(
            "RO-5",
            not takes or bool(stays),
            f"{segment_id} is wanted, and {takes} have its last loaded copies",
        )


def check_waiting(state: RolloutState, rollout: Rollout) -> None:
    """Check RO-6, and that nothing else keeps a revision back."""
    for one in rollout.waiting:
        waited_ms = abs(state.now_ms - (one.until_ms - state.patience_ms))
        check(
            "RO-6", waited_ms < state.patience_ms, f"{one.segment_id} was waited for {waited_ms} ms"
        )
    waiting = {one.segment_id for one in rollout.waiting}
    if rollout.tell_revision < state.lives.head:
        check(
            "RO-6", bool(waiting), f"{rollout.tell_revision} is told, and nothing keeps the newest"
        )


def check_at_rest(state: RolloutState) -> None:
    """Check RO-7 for a cluster in which nothing happens any more and no broker reads an older revision."""
    head = state.lives.head
    check(
        "RO-7", state.told_revision == head, f"{state.told_revision} is told, the newest is {head}"
    )
    for server in state.historicals:
        held = {*server.loaded, *server.loading, *server.unloading}
        extra = held - _needed_at(state, head)
        check("RO-7", not extra, f"{server.server_id} holds {sorted(extra)}, which nothing needs")


def _needed_at(state: RolloutState, revision: int) -> Set[str]:
    lives = state.lives
    return {
        segment_id
        for segment_id in lives.live | lives.ended
        if any(life.holds(revision) for life in lives.of(segment_id))
    }
