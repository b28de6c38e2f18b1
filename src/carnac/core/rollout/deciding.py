"""One decision about a rollout: the revision to tell, the segments to wait for, the copies to unload.

Source 3's steps are not kept as a state: a revision is *published* once the log has it, *loaded* once its segments are,
*told* once the store says so, *confirmed* once no broker counts with an older one. So a new leader, or one that was
away, goes on wherever things stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from carnac.core.rollout.lives import Life
from carnac.core.rollout.model import (
    REPLACED,
    Cold,
    Rollout,
    RolloutState,
    Surplus,
    Waiting,
)
from carnac.core.time.leases import is_over

LAST_COPY = "the last loaded copy of what is wanted"
"""Why a surplus copy stays: no other server that is counted on has the segment loaded."""


def decide_rollout(state: RolloutState) -> Rollout:
    """Return the revision to tell brokers, and the copies that may be unloaded now.

    The revision that this very decision tells unloads nothing. It raises the floor only once it is told, and brokers
    that started meanwhile have been seen.
    """
    head, told = state.lives.head, state.told_revision
    if told is None:
        # a broker that starts plans on the newest; to tell less would take rows out of sight
        return Rollout(tell_revision=head)
    if head < told:
        # the log that was read is older than the told revision: nothing can be said of it
        return Rollout(tell_revision=told)
    cold, waiting = _look_at_news(state, told)
    missing = (life for one in waiting for life in state.lives.of(one.segment_id))
    newest = newest_whole(missing, newest=head, oldest=told)
    is_known = newest is not None and newest >= state.lives.base
    tell_revision = newest if newest is not None and is_known else told
    floor = min([told, *(broker.floor for broker in state.counted_brokers)])
    replaced = tuple(_unload_replaced(state, floor))
    surplus, kept = _unload_surplus(state, floor)
    return Rollout(
        tell_revision=tell_revision,
        waiting=waiting,
        cold={
            segment_id: why
            for segment_id, why in cold.items()
            if any(life.holds(tell_revision) for life in state.lives.of(segment_id))
        },
        floor=floor,
        holders=tuple(sorted(one.broker_id for one in state.counted_brokers if one.floor < told)),
        unloads=(*replaced, *surplus),
        kept=kept,
    )


def newest_whole(missing: Iterable[Life], *, newest: int, oldest: int) -> int | None:
    """Return the newest revision of `[oldest, newest]` that needs nothing of what is missing; None if there is none.

    Args:
        missing: Lives of what is missing; those that end before `oldest` or begin after `newest` do not matter.
    """
    found = newest
    for life in sorted(missing, key=_by_end, reverse=True):
        if life.holds(found):
            found = life.added - 1
    return found if found >= oldest else None


def _by_end(life: Life) -> float:
    return float("inf") if life.dropped is None else life.dropped


def _look_at_news(state: RolloutState, told: int) -> tuple[dict[str, Cold], tuple[Waiting, ...]]:
    """Return the segments that revisions after the told one need and no server has loaded: cold ones, and waiting ones.

    A segment that the told revision needs already is neither: brokers read it there, from a server or cold, and would
    read it the same way in the next one.
    """
    news = [
        life
        for life in state.lives.since(told)
        if not any(one.holds(told) for one in state.lives.of(life.segment_id))
    ]
    ids = {life.segment_id for life in news}
    loaded: set[str] = set()
    loading: dict[str, list[str]] = {}
    failed: set[str] = set()
    for server in state.historicals:
        if server.counts:
            loaded |= ids & server.loaded
        for segment_id in ids.intersection(server.loading):
            loading.setdefault(segment_id, []).append(server.server_id)
        failed |= ids & server.failed
    cold: dict[str, Cold] = {}
    waiting: dict[str, Waiting] = {}
    for life in news:
        segment_id = life.segment_id
        if segment_id in loaded:
            continue
        since_ms = max(life.added_at_ms, state.leading_since_ms)
        if segment_id in state.unwanted:
            cold[segment_id] = Cold.UNWANTED
        elif segment_id in state.unplaced:
            cold[segment_id] = Cold.UNPLACED
        elif segment_id in failed and segment_id not in loading:
            cold[segment_id] = Cold.FAILED
        elif is_over(since_ms, state.patience_ms, state.now_ms):
            cold[segment_id] = Cold.LATE
        elif segment_id not in waiting:
            waiting[segment_id] = Waiting(
                segment_id=segment_id,
                revision=life.added,
                until_ms=since_ms + state.patience_ms,
                loading_on=tuple(loading.get(segment_id, ())),
            )
    return cold, tuple(waiting[segment_id] for segment_id in sorted(waiting))


def _unload_replaced(state: RolloutState, floor: int) -> Iterator[Surplus]:
    """Yield an order for each copy of a segment that no revision from the floor on needs, queued loads included."""
    lives = state.lives
    if floor < lives.base:  # older revisions are in use than are remembered
        return
    for server in state.historicals:
        gone = {
            segment_id
            for held in (server.loaded, server.loading, server.failed)
            for segment_id in lives.not_live(held)
            if not lives.is_needed(segment_id, floor)
        }
        for segment_id in sorted(gone - server.unloading):
            yield Surplus(server_id=server.server_id, segment_id=segment_id, why=REPLACED)


def _unload_surplus(
    state: RolloutState, floor: int
) -> tuple[tuple[Surplus, ...], dict[Surplus, str]]:
    """Return an order for each surplus copy that may go, and why others stay.

    One copy of each segment that is wanted and in use stays loaded on a server that is counted on, even a surplus one.
    """
    servers = {server.server_id: server for server in state.historicals}
    copies = {one.segment_id: 0 for one in state.surplus}
    for server in state.historicals:
        if server.counts:
            for segment_id in copies:  # few; a server has many
                copies[segment_id] += segment_id in server.loaded
    unloads: list[Surplus] = []
    kept: dict[Surplus, str] = {}
    for one in state.surplus:
        holder = servers.get(one.server_id)
        if holder is None or not _is_needed(state, one.segment_id, floor):
            continue
        is_loaded = one.segment_id in holder.loaded
        if is_loaded and one.segment_id not in state.unwanted:
            others = copies[one.segment_id] - holder.counts
            if not others:
                kept[one] = LAST_COPY
                continue
            copies[one.segment_id] = others
        elif not (is_loaded or one.segment_id in holder.loading or one.segment_id in holder.failed):
            continue
        unloads.append(one)
    return tuple(unloads), kept


def _is_needed(state: RolloutState, segment_id: str, floor: int) -> bool:
    return floor < state.lives.base or state.lives.is_needed(segment_id, floor)
