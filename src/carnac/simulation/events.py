"""Events of the servers of a tier, computed before anything runs: the same for every strategy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from carnac.simulation.arrivals import Ints
from carnac.simulation.scenario import Scenario, Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change to some servers of a tier, in the hour that begins at `at_hour`."""

    at_hour: int
    kind: Literal["add", "fail", "replace", "decommission"]
    servers: Ints


def plan_changes(scenario: Scenario, tier: Tier, draw: np.random.Generator) -> tuple[Change, ...]:
    """Return the changes of a tier in order of time; which servers are hit is drawn, new ones take the next numbers."""
    up = np.ones(tier.servers, np.bool_)
    changes = []
    for event in sorted(scenario.events, key=lambda e: e.at_hour):
        if event.tier != tier.name:
            continue
        if event.kind == "add":
            servers = np.arange(len(up), len(up) + event.servers)
            up = np.concatenate([up, np.ones(event.servers, np.bool_)])
        else:
            servers = np.sort(draw.choice(np.flatnonzero(up), event.servers, replace=False))
            up[servers] = event.kind == "replace"
        changes.append(Change(at_hour=event.at_hour, kind=event.kind, servers=servers))
    return tuple(changes)
