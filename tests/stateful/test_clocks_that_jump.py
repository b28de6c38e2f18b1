"""Overlords whose clocks are set forwards and back, by seconds and by days, and who are killed, over one store.

Whatever was said meanwhile: at most one leader's orders are taken, and once nobody meddles any more, whoever is left
leads and has all that the dead held, within one lease and `SLACK_MS`.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from carnac.core.locks.events import Granted
from carnac.core.tasks.events import Dispatched
from carnac.core.tasks.model import is_lost
from carnac.metadata import open_metadata
from carnac.metadata.store import MetadataStore
from carnac.overlord.loop import LoopSettings, OverlordLoop
from carnac.ports import LeaseKind
from tests.locks import hours
from tests.locks import wants as wants_lock
from tests.support.clock import DEFAULT_START_MS, FakeClock, SequentialIds
from tests.support.databases import lay_database
from tests.support.tasks import FakeRunner
from tests.tasks import LEASE_MS, dispatch, wants

NODES = 3
PERIOD_MS = 1_000
DAY_MS = 86_400_000
SLACK_MS = LEASE_MS + PERIOD_MS
"""How much longer than a lease it takes at most: as far as a clock was ahead that is believed, and a round."""
JUMPS = (500, 6_000, LEASE_MS - 1, LEASE_MS, 3 * LEASE_MS, DAY_MS, 2 * DAY_MS, 400 * DAY_MS)


@dataclass
class Node:
    """A machine with a clock of its own, and the overlord that runs on it."""

    clock: FakeClock
    metadata: MetadataStore
    loop: OverlordLoop | None = None
    starts: int = 0
    fences: set[int] = field(default_factory=set)

    def start(self, name: str) -> None:
        self.starts += 1
        self.loop = OverlordLoop(
            self.metadata,
            self.clock,
            leader_id=f"{name}.{self.starts}",
            holder=f"overlord {name}",
            runners={"fake": FakeRunner()},
            settings=LoopSettings(
                runner="fake",
                capacity=2,
                lease_ms=LEASE_MS,
                start_lease_ms=LEASE_MS,
                period_ms=PERIOD_MS,
                upkeep_period_ms=400 * 400 * DAY_MS,
            ),
        )


class ClockMachine(RuleBasedStateMachine):
    """`meddling` ends in `teardown`, where the law of progress is checked."""

    @initialize()
    def open_nodes(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        url = lay_database(self.folder / "metadata.db", created_at_ms=DEFAULT_START_MS)
        self.nodes = []
        for number in range(NODES):
            clock = FakeClock()
            ids = SequentialIds(f"n{number}-")
            self.nodes.append(Node(clock, open_metadata(url, clock=clock, ids=ids)))
            self.nodes[-1].start(str(number))
        self.nodes[0].metadata.change_tasks(wants("a", retries=1_000))

    @rule(by_ms=st.sampled_from((PERIOD_MS, LEASE_MS // 2, LEASE_MS)))
    def pass_time(self, by_ms: int) -> None:
        for node in self.nodes:
            node.clock.advance_ms(by_ms)

    @rule(number=st.integers(0, NODES - 1), by_ms=st.sampled_from(JUMPS), is_back=st.booleans())
    def set_clock(self, number: int, by_ms: int, is_back: bool) -> None:
        self.nodes[number].clock.advance_ms(-by_ms if is_back else by_ms)

    @rule(number=st.integers(0, NODES - 1))
    def go_round(self, number: int) -> None:
        node = self.nodes[number]
        if node.loop is not None:
            node.loop.run_round()
            leader = node.metadata.leader("overlord")
            if leader is not None and leader.leader_id == node.loop.leader_id:
                node.fences.add(leader.fence)

    @rule(number=st.integers(0, NODES - 1))
    def kill(self, number: int) -> None:
        self.nodes[number].loop = None

    @rule(number=st.integers(0, NODES - 1))
    def start(self, number: int) -> None:
        if self.nodes[number].loop is None:
            self.nodes[number].start(str(number))

    @rule(number=st.integers(0, NODES - 1), kind=st.sampled_from(LeaseKind))
    def hold(self, number: int, kind: LeaseKind) -> None:
        metadata = self.nodes[number].metadata
        metadata.change_locks(wants_lock(f"of {number}", hours(0)))
        metadata.acquire_lease(kind, holder=str(number), ttl_ms=LEASE_MS)

    @invariant()
    def one_fence_is_accepted(self) -> None:
        if not hasattr(self, "nodes"):
            return
        metadata = self.nodes[0].metadata
        fences = sorted(set().union(*(node.fences for node in self.nodes)))
        taken = [
            fence
            for fence in fences
            if isinstance(metadata.change_tasks(dispatch(fence, capacity=0)), Dispatched)
        ]
        assert taken == fences[-1:], "the last leader's orders are taken, and nobody else's"
        owners = [sum(fence in node.fences for node in self.nodes) for fence in fences]
        assert owners == [1] * len(fences), "each fence is one leader's"

    def teardown(self) -> None:
        if not hasattr(self, "nodes"):
            return
        survivor = self.nodes[0]
        if survivor.loop is None:
            survivor.start("0")
        assert survivor.loop is not None
        metadata, leads, is_alone, has_lock = survivor.metadata, False, False, False
        for _ in range((LEASE_MS + SLACK_MS) // PERIOD_MS):
            survivor.clock.advance_ms(PERIOD_MS)
            self.go_round(0)
            leads = survivor.loop.is_leader
            is_alone |= metadata.leases() == ()
            asked = wants_lock("new", hours(0), timeout_ms=2 * (LEASE_MS + SLACK_MS))
            has_lock |= isinstance(metadata.change_locks(asked), Granted)
        assert (leads, is_alone, has_lock) == (True, True, True)
        now_ms = survivor.clock.now_ms()
        assert not any(is_lost(one, now_ms) for one in survivor.metadata.live_attempts())
        for node in self.nodes:
            node.metadata.close()
        shutil.rmtree(self.folder)


TestClocks = ClockMachine.TestCase
TestClocks.settings = settings(max_examples=max(5, settings().max_examples // 3))
