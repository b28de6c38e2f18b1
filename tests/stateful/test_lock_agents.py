"""Random tasks that take locks one after the other, in orders of their own: each of them is done in the end.

A task that is refused, or whose lock is taken away, gives back all that it has and starts anew after a pause that
doubles, as the overlord has it. Whose turn it is to do something is chosen at random.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import hypothesis.strategies as st
from hypothesis import example, given

from carnac.core.locks.events import (
    BeginPublish,
    EndPublish,
    Granted,
    LockEvent,
    LockReply,
    Refused,
    ReleaseLocks,
    RequestLock,
    Waits,
)
from carnac.core.locks.laws import check_locks
from carnac.core.locks.model import LockState, LockType
from carnac.core.tasks.model import RetryPolicy
from carnac.core.time.intervals import Interval
from tests.locks import Box, hours, wants
from tests.support.laws import locks as laws

STEP_MS = 10
STEPS_MAX = 20_000
"""Far more than any of these runs needs: who is not done by then never will be."""
PAUSES = RetryPolicy(delay_ms=2 * STEP_MS, longest_delay_ms=200 * STEP_MS)
PLACES = (hours(0), hours(1), hours(2), hours(0, 2), hours(1, 3), hours(0, 3))
KINDS = (LockType.EXCLUSIVE, LockType.EXCLUSIVE, LockType.REPLACE, LockType.APPEND, LockType.SHARED)

Want = tuple[Interval, LockType]
wanted = st.lists(
    st.tuples(st.sampled_from(PLACES), st.sampled_from(KINDS)), min_size=1, max_size=4
)
crowds = st.lists(st.tuples(st.sampled_from((25, 50, 50, 50, 75)), wanted), min_size=2, max_size=7)


@dataclass
class Agent:
    """A task: what it wants, in its order, and how far it is."""

    name: str
    priority: int
    wants: list[Want]
    got: list[int] = field(default_factory=list)
    failures: int = 0
    wakes_ms: int = 0
    is_publishing: bool = False
    is_done: bool = False

    def request(self) -> RequestLock:
        """The same lock asked for twice is one lock, so that every want is granted once."""
        where, kind = self.wants[len(self.got)]
        return wants(
            self.name, where, type=kind, priority=self.priority, timeout_ms=STEPS_MAX * STEP_MS
        )


class Crowd:
    """Agents over one lockbox, whose leases never end: nobody dies here."""

    def __init__(self, agents: list[Agent]) -> None:
        self.box = Box()
        self.agents = agents

    def send(self, event: LockEvent) -> LockReply:
        before = list(self.box.table)
        reply = self.box(event)
        after = list(self.box.table)
        check_locks(after)
        laws.check_grants(before, after)
        for lock in after:
            if lock.state is LockState.WAITING:
                laws.check_waits(after, lock, self.box.at_ms)
        return reply

    def act(self, agent: Agent) -> None:
        self.box.at_ms += 1
        if agent.wakes_ms > self.box.at_ms:
            return
        if agent.is_publishing:
            self.send(EndPublish(task_id=agent.name, lock_ids=tuple(agent.got)))
            self.send(ReleaseLocks(task_id=agent.name))
            agent.is_done = True
        elif len(agent.got) == len(agent.wants):
            self.publish(agent)
        else:
            self.ask(agent)

    def ask(self, agent: Agent) -> None:
        reply = self.send(agent.request())
        if isinstance(reply, Granted):
            agent.got.append(reply.lock.lock_id)
        elif not isinstance(reply, Waits):
            if isinstance(reply, Refused):
                assert reply.circle[0] == agent.name
            self.start_anew(agent)

    def publish(self, agent: Agent) -> None:
        self.send(BeginPublish(task_id=agent.name, lock_ids=tuple(set(agent.got))))
        mine = {lock.lock_id: lock for lock in self.box.table.of_task(agent.name)}
        if all(one in mine and mine[one].is_publishing for one in agent.got):
            agent.is_publishing = True
        else:
            self.start_anew(agent)

    def start_anew(self, agent: Agent) -> None:
        self.send(ReleaseLocks(task_id=agent.name))
        agent.got.clear()
        agent.failures += 1
        agent.wakes_ms = self.box.at_ms + PAUSES.pause_ms(agent.failures)


CROSSED = [
    (50, [(hours(0), KINDS[0]), (hours(1), KINDS[0])]),
    (50, [(hours(1), KINDS[0]), (hours(0), KINDS[0])]),
]


@given(crowd=crowds, seed=st.integers(0, 2**32))
@example(crowd=CROSSED, seed=0)
def test_everybody_is_done_in_the_end(crowd: list[tuple[int, list[Want]]], seed: int) -> None:
    agents = [
        Agent(f"t{number}", priority, list(what)) for number, (priority, what) in enumerate(crowd)
    ]
    running = Crowd(agents)
    rng = random.Random(seed)
    for _ in range(STEPS_MAX):
        left = [agent for agent in agents if not agent.is_done]
        if not left:
            break
        running.act(rng.choice(left))
    assert all(agent.is_done for agent in agents)
    assert len(running.box.table) == 0
