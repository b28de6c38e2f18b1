"""Every order of publishing, loading, hearing, telling, confirming, dropping, crashing and starting again, tried.

And the same with one rule broken, for each of the rules: the laws find it.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from carnac.core.rollout.deciding import decide_rollout
from carnac.core.rollout.model import Rollout, RolloutState
from carnac.errors import InvariantError
from tests.support.rollout_model import Model, explore
from tests.support.rollout_states import LOGS, MOVES, SWITCH, Protocol

PROFILE = os.environ.get("HYPOTHESIS_PROFILE")
LIMIT = 400_000
"""States that an exploration may take up; all of them end before it."""
SETTLE_EVERY = 17
"""RO-7 is checked from one state of so many."""
ROLLOUTS = [Model(log) for log in LOGS]
HOSTILE = [
    Model(MOVES, brokers=1, servers=2, copies=2, is_hostile=True, crashes=1, successions=1),
    Model(SWITCH, brokers=1, servers=2, copies=2, is_hostile=True, crashes=1),
]
if PROFILE != "fast":
    ROLLOUTS += [
        *(Model(log, servers=2, brokers=1, crashes=1, successions=1) for log in LOGS[:2]),
        *(Model(log, servers=2, crashes=1, successions=1) for log in LOGS[2:]),
    ]
    HOSTILE += [Model(MOVES, brokers=1, copies=2, is_hostile=True, successions=1)]
if PROFILE == "nightly":
    ROLLOUTS += [
        *(Model(log, crashes=1, successions=1) for log in LOGS),
        Model(LOGS[2], crashes=2, successions=2),
    ]
    HOSTILE += [
        Model(MOVES, brokers=2, copies=2, is_hostile=True, crashes=1, successions=1),
        Model(SWITCH, brokers=1, copies=2, is_hostile=True, crashes=1),
        Model(SWITCH, brokers=1, servers=2, copies=2, is_hostile=True, crashes=1, successions=1),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("model", ROLLOUTS, ids=lambda model: model.title)
def test_no_order_breaks_a_law_of_rollouts(model: Model) -> None:
    """Two or three servers, one or two brokers, up to four segments: all states, of which none was left out."""
    assert explore(model, limit=LIMIT, settle_every=SETTLE_EVERY).is_whole


@pytest.mark.parametrize("model", HOSTILE, ids=lambda model: model.title)
def test_no_order_breaks_a_law_while_a_balancer_wants_to_drop_everything(model: Model) -> None:
    assert explore(model, limit=LIMIT, settle_every=SETTLE_EVERY).is_whole


def unload_before_confirm(state: RolloutState) -> Rollout:
    return decide_rollout(replace(state, brokers=()))


def tell_before_loaded(state: RolloutState) -> Rollout:
    return replace(decide_rollout(state), tell_revision=state.lives.head)


def ignore_silent_brokers(state: RolloutState) -> Rollout:
    heard = [one for one in state.brokers if one.floor == state.told_revision]
    return decide_rollout(replace(state, brokers=heard))


def drop_the_last_copy(state: RolloutState) -> Rollout:
    rollout = decide_rollout(state)
    return replace(rollout, unloads=(*rollout.unloads, *state.surplus))


def unload_by_what_is_only_being_told(state: RolloutState) -> Rollout:
    rollout = decide_rollout(state)
    later = decide_rollout(replace(state, told_revision=rollout.tell_revision))
    return replace(rollout, unloads=later.unloads)


def forget_what_was_told(state: RolloutState) -> Rollout:
    """What a leader does that takes the log's oldest revision for the told one."""
    return decide_rollout(replace(state, told_revision=1))


COMPACTION, MOVING = LOGS[1], Model(MOVES, brokers=1, copies=2, is_hostile=True, successions=1)
ROLLING = Model(COMPACTION, crashes=1)
MUTANTS = {
    "unload before brokers confirm": (ROLLING, Protocol(decide=unload_before_confirm)),
    "tell before it is loaded": (ROLLING, Protocol(decide=tell_before_loaded)),
    "ignore a silent broker": (ROLLING, Protocol(decide=ignore_silent_brokers)),
    "drop the last copy": (MOVING, Protocol(decide=drop_the_last_copy)),
    "go backwards after a leader changed": (
        ROLLING,
        Protocol(decide=forget_what_was_told, never_back=False),
    ),
    "forget a running query": (ROLLING, Protocol(says_oldest=False)),
    "unload by what is only being told": (
        Model(COMPACTION, servers=2, brokers=1, crashes=1),
        Protocol(decide=unload_by_what_is_only_being_told),
    ),
    "count a copy that was told to go": (MOVING, Protocol(keeps_marks=False)),
    "count on a server that has not heard the fence": (MOVING, Protocol(hears_first=False)),
    "forget the fence when started again": (
        replace(MOVING, servers=2, crashes=1),
        Protocol(keeps_fence=False),
    ),
    "take an order that is older than one that was taken": (
        replace(MOVING, servers=2, successions=0),
        Protocol(numbers_orders=False),
    ),
    "count a copy that was told to go when its server was started again": (
        replace(MOVING, servers=2, successions=0, crashes=1),
        Protocol(keeps_marks_over_starts=False),
    ),
    "read the segments that are planned on now": (ROLLING, Protocol(pins_segments=False)),
    "join with the lookups that are planned on now": (ROLLING, Protocol(pins_lookups=False)),
    "plan on what was read before announcing": (
        Model(COMPACTION, servers=2, brokers=1, crashes=1),
        Protocol(reads_again=False),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_every_broken_rule_is_found(name: str) -> None:
    """By what comes of it: the decisions themselves are not checked here."""
    model, protocol = MUTANTS[name]
    broken = replace(model, protocol=replace(protocol, checks=False))
    with pytest.raises(InvariantError):
        explore(broken, limit=LIMIT, settle_every=LIMIT)
