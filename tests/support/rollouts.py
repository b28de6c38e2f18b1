"""A log of named segments, servers that hold them and brokers: states of rollouts for tests, in few words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from carnac.core.balancing.live.picture import ServerView
from carnac.core.log.commits import Commit, CommitKind, DatasourceCommit
from carnac.core.log.entries import ENTRY_BITS, Entry
from carnac.core.rollout.lives import SegmentLives
from carnac.core.rollout.model import Broker, RolloutState
from carnac.core.segments.version import IdRanges, SegmentVersion
from carnac.core.time.intervals import Interval

LEASE_MS = 30_000
CHUNK = Interval(0, 3_600_000)


def entry_of(segment_id: str, revision: int, ordinal: int = 0) -> Entry:
    """An entry of a segment that fills the one chunk."""
    return Entry(
        entry_id=revision << ENTRY_BITS | ordinal,
        segment_id=segment_id,
        chunk=CHUNK,
        span=CHUNK,
        clip=None,
        version=SegmentVersion(1, 0),
        partition_id=ordinal,
        overshadowed_ids=IdRanges(),
        update_group=IdRanges(),
    )


def commit_of(
    revision: int, adds: Iterable[str] = (), drops: Iterable[str] = (), *, at_ms: int = 0
) -> Commit:
    """A commit that adds and drops segments with one entry each."""
    change = DatasourceCommit(
        datasource="events",
        adds=tuple(entry_of(one, revision, at) for at, one in enumerate(adds)),
        drops=tuple(entry_of(one, revision, at) for at, one in enumerate(drops)),
    )
    return Commit(revision=revision, kind=CommitKind.REPLACE, at_ms=at_ms, changes=(change,))


def lives_of(*commits: tuple[str, str]) -> SegmentLives:
    """The lives of a log, whose commits from revision 1 on add and drop segments that are given as words."""
    lives = SegmentLives()
    for adds, drops in commits:
        lives.apply(commit_of(lives.head + 1, adds.split(), drops.split()))
    return lives


def view_of(server_id: str, **what: Any) -> ServerView:
    """A historical of which a rollout asks neither tier nor capacity."""
    return ServerView(server_id=server_id, tier="", capacity_bytes=0, **what)


def historical(server_id: str, loaded: str = "", **what: Any) -> ServerView:
    """A historical; segments that it loads, unloads and failed to load are words, too."""
    sets = {
        name: frozenset(what.pop(name, "").split()) for name in ("loading", "unloading", "failed")
    }
    return view_of(server_id, loaded=frozenset(loaded.split()), **sets, **what)


def broker(
    broker_id: str, planning: int, oldest: int | None = None, *, heartbeat_at_ms: int = 0
) -> Broker:
    """A broker that was heard at `heartbeat_at_ms`."""
    return Broker(
        broker_id=broker_id,
        planning_revision=planning,
        oldest_revision=planning if oldest is None else oldest,
        heartbeat_at_ms=heartbeat_at_ms,
        lease_ms=LEASE_MS,
    )


def rollout_state(
    lives: SegmentLives,
    told: int | None,
    historicals: Sequence[ServerView] = (),
    brokers: Sequence[Broker] = (),
    **fields: Any,
) -> RolloutState:
    """A state at time 0, unless told otherwise."""
    return RolloutState(
        **{"now_ms": 0} | fields,
        told_revision=told,
        lives=lives,
        historicals=historicals,
        brokers=brokers,
    )
