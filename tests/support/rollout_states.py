"""The states of the model of a rollout, the rules that a mutant may break, and what is published.

States that differ only in which server or which broker it is are one state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from carnac.core.rollout.deciding import decide_rollout
from carnac.core.rollout.lives import SegmentLives
from carnac.core.rollout.model import Rollout, RolloutState
from tests.support.rollouts import commit_of

SEGMENTS = "ABCD"
NONE = -1
BASE = 1
"""The revision that everybody begins with: loaded, told and confirmed."""


class Server(NamedTuple):
    """A historical; sets of segments are bits.

    Attributes:
        disk: Segments on its disk; a crash takes nothing away.
        has_heard: It has heard the fence of the present leader, and obeys no earlier one.
        seen: Segments that it holds in the leader's view; `NONE`: the leader knows nothing of it.
        marks: Segments that the leader has ordered it to unload, and has not seen gone.
        orders: Those of `marks` whose orders it has not carried out.
        late: Orders of the leader that may come once more, since they were given up and sent again, or doubled.
        old_orders: Orders of earlier leaders that may still come.
    """

    is_up: bool
    disk: int
    has_heard: bool
    seen: int
    marks: int
    orders: int
    late: int
    old_orders: int


DOWN, READ, ANNOUNCED, UP = range(4)


class BrokerState(NamedTuple):
    """A broker, and what the metadata store has of it.

    Attributes:
        phase: `DOWN`; `READ`: it has read the told revision; `ANNOUNCED`; `UP`: it plans.
        read: The told revision when it started.
        said: The oldest revision that it may read, as kept in the store; `NONE`: none is kept.
        planning: The revision that it plans on; `NONE` before it plans.
        query: The revision that its running query reads. A broker that plans and has no query is one whose query was
            planned on this very revision: both keep the same in use.
    """

    phase: int
    read: int
    said: int
    planning: int
    query: int


class State(NamedTuple):
    """The whole state of a model.

    Attributes:
        head: Newest revision of the log.
        told: The told revision.
        to_tell: The revision that the leader has decided to tell and has not told; `NONE`: none.
        crashes: Number of crashes that may still happen.
        successions: Number of times that leadership may still pass on.
    """

    head: int
    told: int
    to_tell: int
    servers: tuple[Server, ...]
    brokers: tuple[BrokerState, ...]
    crashes: int
    successions: int


Decide = Callable[[RolloutState], Rollout]


@dataclass(frozen=True)
class Protocol:
    """The rules, each of which a mutant may break.

    Attributes:
        decide: The decision of the leader.
        checks: Whether each decision is checked by the laws of decisions too.
        hears_first: A leader counts on the holdings of a server only after that has heard its fence.
        keeps_marks: A segment that was ordered to go does not count as a copy.
        numbers_orders: A server takes no order that is older than one that it has taken.
        keeps_marks_over_starts: It does not count either when the server was started again.
        keeps_fence: A server knows the fence after it was started again.
        reads_again: A broker reads what is told after it has announced itself.
        says_oldest: A broker says which revision its running query reads.
        never_back: The store takes no lower revision.
        pins_segments: A query reads the segments of the revision that it was planned on.
        pins_lookups: It joins with the lookups of that revision.
    """

    decide: Decide = decide_rollout
    checks: bool = True
    hears_first: bool = True
    keeps_marks: bool = True
    numbers_orders: bool = True
    keeps_marks_over_starts: bool = True
    keeps_fence: bool = True
    reads_again: bool = True
    says_oldest: bool = True
    never_back: bool = True
    pins_segments: bool = True
    pins_lookups: bool = True


@dataclass(frozen=True)
class Log:
    """The commits: adds and drops of each revision, from the first; `BASE` is there at the beginning."""

    name: str
    commits: tuple[tuple[str, str], ...]

    @property
    def last(self) -> int:
        return len(self.commits)

    def needs(self) -> tuple[int, ...]:
        """The segments that each revision needs, by revision, as bits."""
        found = [0]
        for adds, drops in self.commits:
            found.append((found[-1] | bits_of(adds)) & ~bits_of(drops))
        return tuple(found)

    def twins(self) -> tuple[int, int] | None:
        """Return the first two segments, as bits, that are added together and dropped together; None: none are."""
        told = {
            one: [(one in adds, one in drops) for adds, drops in self.commits] for one in SEGMENTS
        }
        for at, one in enumerate(SEGMENTS):
            for other in SEGMENTS[at + 1 :]:
                if told[one] == told[other] and any(map(any, told[one])):
                    return bits_of(one), bits_of(other)
        return None

    def lives(self, head: int) -> SegmentLives:
        lives = SegmentLives()
        for revision, (adds, drops) in enumerate(self.commits[:head], start=1):
            lives.apply(commit_of(revision, adds, drops))
        return lives


def bits_of(segments: str) -> int:
    return sum(1 << SEGMENTS.index(one) for one in segments)


@cache
def names_of(bits: int) -> frozenset[str]:
    return frozenset(one for at, one in enumerate(SEGMENTS) if bits >> at & 1)


LOGS = (
    Log("ingestion, then compaction", (("AB", ""), ("C", ""), ("D", "AB"))),
    Log("compaction, then ingestion", (("AB", ""), ("C", "AB"), ("D", ""))),
    Log("replacement by nothing", (("AB", ""), ("", "AB"))),
    Log("replacement, undone", (("A", ""), ("B", "A"), ("A", "B"))),
)
MOVES = Log("nothing is published", (("AB", ""),))
SWITCH = Log("a replacement, and a hostile balancer", (("A", ""), ("B", "A")))
