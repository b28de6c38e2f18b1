"""The concentration of a seed on few kinds of faults, which often reach states that all kinds together seldom reach.

Each seed switches kinds of faults and of work on and off, and the fewer are left, the more often they happen. So one
seed has little but processes that stand still, another nothing but deletes that are reverted and compacted.
"""

from __future__ import annotations

import random
from collections.abc import Set
from dataclasses import dataclass, fields, replace

from carnac.simulation.cluster.faults import KINDS, LONG_STALLS_MS, STALLS_MS, Rates

EVERYTHING = 0.3
"""Of the seeds, those in which all kinds of faults happen, and all kinds of work are done."""
FORCE_MAX = 4.0
"""How much more often the only kind of fault happens than it would beside all others."""
RATE_MAX = 0.4
"""No fault befalls more of its calls."""
ONE_MACHINE = 0.5
"""Of the seeds without servers, those whose processes are on one machine, and whose database tells no time."""
USUAL = (12, 2, 3, 1, 4, 1, 1)
"""How often writers append, replace, delete, delete where, revert, tag and undo."""
CUTS = 10
"""Factor by which a server is cut off from all others more often if queries take a partial answer."""
BREAKS = (0.0, 0.9)
"""See `Swarm`."""
STALLS = (1, 1, 10)
"""See `Swarm`."""
LONG_STALLS = 0.2
"""Of the seeds, those in which each stall is long."""
BEHIND_MS = (0, 120_000, 3_600_000)
"""See `Swarm`."""
PATIENCE = (1, 1, 1, 8)
"""How many times longer than usual a reader takes for a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swarm:
    """The faults and the work of one seed.

    Attributes:
        kinds: Faults that happen at all.
        force: Factor by which these happen more often than usual.
        verbs: See `USUAL`.
        patience: See `PATIENCE`.
        is_partial: Queries take a partial answer whenever something cannot be read.
        breaks: How often an operator breaks a lock under which somebody publishes, when he looks.
        stalls: Factor, on top of `force`, by which processes stand still more often before they write.
        has_long_stalls: Processes stand still until their leases have ended.
        is_one_machine: All processes share one clock, which is set wrong. Leases go by it, and all processes end at
            once when the machine does.
        storage_behind_ms: Delay of the clock of deep storage, which is another machine's.
    """

    kinds: frozenset[str]
    force: float = 1.0
    verbs: tuple[int, ...] = USUAL
    patience: int = 1
    is_partial: bool = False
    breaks: float = 0.0
    stalls: int = 1
    has_long_stalls: bool = False
    is_one_machine: bool = False
    storage_behind_ms: int = 0

    @property
    def stalls_ms(self) -> tuple[int, ...]:
        """For how long a process stands still before it writes."""
        return LONG_STALLS_MS if self.has_long_stalls else STALLS_MS

    def rates(self) -> Rates:
        """Return how often calls fail."""
        usual = Rates()
        cuts = CUTS if self.is_partial else 1
        usual = replace(usual, stalled=usual.stalled * self.stalls, cut=usual.cut * cuts)
        return replace(
            usual,
            **{
                one.name: min(RATE_MAX, getattr(usual, one.name) * self.force)
                for one in fields(usual)
            },
        )


def draw_swarm(rng: random.Random, kinds: Set[str], *, may_be_one_machine: bool) -> Swarm:
    """Return what a seed concentrates on, of the kinds of faults that may happen."""
    allowed = [kind for kind in KINDS if kind in kinds]
    chosen = allowed
    if rng.random() >= EVERYTHING and allowed:
        chosen = [kind for kind in allowed if rng.random() < 0.5] or [rng.choice(allowed)]
    verbs: tuple[int, ...] = USUAL
    if rng.random() >= EVERYTHING:
        verbs = (
            rng.choice((4, 12)),
            *(usual * rng.choice((0, 1, 4)) for usual in USUAL[1:]),
        )
    drawn = Swarm(
        kinds=frozenset(chosen),
        force=min(FORCE_MAX, len(allowed) / max(1, len(chosen))),
        verbs=verbs,
        patience=rng.choice(PATIENCE),
        stalls=rng.choice(STALLS),
        breaks=rng.choice(BREAKS),
        is_partial=rng.random() < 0.3,
        is_one_machine=may_be_one_machine and rng.random() < ONE_MACHINE,
        has_long_stalls=rng.random() < LONG_STALLS,
    )
    if "clock" not in chosen or drawn.is_one_machine:
        return drawn
    return replace(drawn, storage_behind_ms=rng.choice(BEHIND_MS))
