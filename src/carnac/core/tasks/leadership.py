"""The leader of a role: one process at a time, for as long as it is heard of within its lease.

Orders of a leader carry its fence, which grows with each change of leader. So a leader that was paused and comes back
can order nothing any more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from carnac.core.texts import KEY_MAX, check_name
from carnac.core.time.leases import is_over


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """The leader of a role.

    Attributes:
        role: In what it leads, such as `overlord`.
        leader_id: Of the process that leads: random, new with each start.
        fence: Grows with each change of leader.
        holder: Process and machine, for people.
        url: Where its HTTP interface is; empty if it has none.
        since_ms: Since when, epoch milliseconds, UTC.
        heartbeat_at_ms: Its last sign of life.
        lease_ms: How long after it nobody else takes over; 0 once it has resigned.
    """

    role: str
    leader_id: str
    fence: int
    holder: str
    url: str = ""
    since_ms: int
    heartbeat_at_ms: int
    lease_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidacy:
    """A process wants to lead, or to go on leading.

    Attributes:
        lease_ms: How long it leads without another sign of life; > 0.
        above: A fence that somebody has heard; one that leads gets a higher one. A database that was restored to an
            earlier time has forgotten it.
    """

    role: str
    leader_id: str
    holder: str
    url: str = ""
    lease_ms: int
    above: int = 0

    def __post_init__(self) -> None:
        """Refuse texts that cannot be shown or kept."""
        for text, what in ((self.holder, "the holder of a leadership"), (self.url, "its address")):
            check_name(text, what, limit=KEY_MAX)


def decide_leader(now: Leadership | None, candidacy: Candidacy, *, at_ms: int) -> Leadership:
    """Return the leader after a candidacy: the candidate if it led already, or if nobody leads any more."""
    if now is not None and now.leader_id == candidacy.leader_id and now.lease_ms > 0:
        return replace(
            now,
            fence=now.fence if now.fence > candidacy.above else candidacy.above + 1,
            url=candidacy.url,
            heartbeat_at_ms=at_ms,
            lease_ms=candidacy.lease_ms,
        )
    if now is not None and not is_over(now.heartbeat_at_ms, now.lease_ms, at_ms):
        return now
    return Leadership(
        role=candidacy.role,
        leader_id=candidacy.leader_id,
        fence=max(0 if now is None else now.fence, candidacy.above) + 1,
        holder=candidacy.holder,
        url=candidacy.url,
        since_ms=at_ms,
        heartbeat_at_ms=at_ms,
        lease_ms=candidacy.lease_ms,
    )


def decide_resignation(now: Leadership | None, leader_id: str) -> Leadership | None:
    """Return the leadership without its lease, if it is this process that leads."""
    if now is None or now.leader_id != leader_id:
        return now
    return replace(now, lease_ms=0)
