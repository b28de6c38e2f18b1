"""The inputs of a decision about a rollout, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from carnac.core.rollout.lives import SegmentLives
from carnac.core.time.leases import is_over

if TYPE_CHECKING:
    from carnac.core.balancing.live.picture import ServerView

LOAD_PATIENCE_MS = 10 * 60 * 1000
"""How long a segment that is not loaded yet keeps a revision from being told. After it, queries read it cold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A broker as its last heartbeat says.

    Attributes:
        broker_id: Of the broker.
        planning_revision: New queries were planned on it, or will be on a later one.
        oldest_revision: The oldest that a running query read; no later one reads an older.
        heartbeat_at_ms: When it said so, epoch milliseconds, UTC, by the clock of the store.
        lease_ms: How long after it the broker is counted on; it answers no query longer than that without a heartbeat.
    """

    broker_id: str
    planning_revision: int
    oldest_revision: int
    heartbeat_at_ms: int
    lease_ms: int

    @property
    def floor(self) -> int:
        """The oldest revision that a query of it may read."""
        return min(self.planning_revision, self.oldest_revision)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surplus:
    """A copy that is not needed where it is: another one is enough, or no rule or revision wants it any more.

    Attributes:
        why: The word for it in reports.
    """

    server_id: str
    segment_id: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutState:
    """All that a decision depends on.

    Attributes:
        now_ms: The present by the clock of the store, epoch milliseconds, UTC.
        told_revision: Revision that brokers are told now, read before `brokers`; None: none yet, they plan on the
            newest.
        lives: The log as the leader has followed it to its head, from the told revision or before, if that is kept.
        historicals: Those that are alive.
        brokers: All that are known; those whose lease is over do not count.
        leading_since_ms: Since when this leader leads: nothing is given up before it had time to load it.
        unwanted: Segments that no load rule wants on any server: they are read cold.
        unplaced: Segments that no server can take, and why.
        surplus: Copies that may go if enough others are loaded, the first of them first.
        patience_ms: How long a segment is waited for; > 0.
    """

    now_ms: int
    told_revision: int | None
    lives: SegmentLives
    historicals: Sequence[ServerView] = ()
    brokers: Sequence[Broker] = ()
    leading_since_ms: int = 0
    unwanted: Set[str] = frozenset()
    unplaced: Mapping[str, str] = field(default_factory=dict)
    surplus: Sequence[Surplus] = ()
    patience_ms: int = LOAD_PATIENCE_MS

    @property
    def counted_brokers(self) -> tuple[Broker, ...]:
        """Brokers that may answer queries: those whose lease is not over, silent or not."""
        return tuple(
            broker
            for broker in self.brokers
            if not is_over(broker.heartbeat_at_ms, broker.lease_ms, self.now_ms)
        )


class Cold(StrEnum):
    """Why a revision is told although a segment that it needs is loaded nowhere."""

    UNWANTED = "unwanted"
    """No load rule wants it on a server."""
    UNPLACED = "unplaced"
    """No server can take it: no room, or none is there."""
    FAILED = "failed"
    """It could not be loaded, and no server is trying."""
    LATE = "late"
    """It was waited for as long as is allowed (`LOAD_PATIENCE_MS`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A segment that keeps revisions from being told.

    Attributes:
        segment_id: Of the segment.
        revision: The first that needs it.
        until_ms: When waiting ends, epoch milliseconds, UTC.
        loading_on: Servers that load it now; empty: none was asked yet.
    """

    segment_id: str
    revision: int
    until_ms: int
    loading_on: tuple[str, ...] = ()


REPLACED = "replaced"
"""Why a copy is unloaded: no revision in use needs the segment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """The decisions about a rollout.

    Attributes:
        tell_revision: Revision to tell brokers; never less than the one that they are told already.
        waiting: Segments that keep a later revision from being told, in order of their ids.
        cold: Segments that the revision adds to the one told before and no server has loaded, and why the revision is
            told all the same.
        floor: The oldest revision in use; None while nothing is told: then nothing is unloaded.
        holders: Ids of the brokers that keep the floor below the told revision, silent ones included; sorted.
        unloads: Copies that servers are to forget, loaded or not, by server in the order of the state.
        kept: Surplus that has to stay for now, and why.
    """

    tell_revision: int
    waiting: tuple[Waiting, ...] = ()
    cold: Mapping[str, Cold] = field(default_factory=dict)
    floor: int | None = None
    holders: tuple[str, ...] = ()
    unloads: tuple[Surplus, ...] = ()
    kept: Mapping[Surplus, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRevisions:
    """The revisions of one broker: which it plans on, and which it still reads. Each change is a new value.

    A broker that starts announces itself before it reads the told revision, and plans on nothing older. So a leader
    that decides to unload after telling a revision either sees the broker, or the broker has read that revision. A
    broker whose lease is over by its own clock answers nothing until it has been heard again.

    Attributes:
        planning: New queries are planned on it; it never decreases.
        running: How many queries that were planned on a revision are not over yet, by revision; > 0 each.
    """

    planning: int
    running: Mapping[int, int] = field(default_factory=dict)

    @property
    def oldest(self) -> int:
        """The oldest revision that a running query reads; the planning revision if that is older, or none runs."""
        return min(self.planning, *self.running) if self.running else self.planning

    def follow(self, told: int | None, head: int) -> BrokerRevisions:
        """Plan on what is told, or on the newest revision while nothing is; never on an older one than before.

        Args:
            told: The told revision, None if no coordinator has told one.
            head: The newest revision that the broker knows of.
        """
        return replace(self, planning=max(self.planning, head if told is None else told))

    def begin(self, revision: int | None = None) -> BrokerRevisions:
        """Count a query in, before it is looked up which segments it needs. None: on the planning revision."""
        at = self.planning if revision is None else revision
        return replace(self, running={**self.running, at: self.running.get(at, 0) + 1})

    def end(self, revision: int) -> BrokerRevisions:
        """Count a query out that was planned on a revision."""
        left = {**self.running, revision: self.running.get(revision, 0) - 1}
        return replace(self, running={at: count for at, count in left.items() if count > 0})
