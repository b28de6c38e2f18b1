"""Coordinators over random days: servers come, go, hang and fail, leaders change, brokers lag; the laws hold."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from carnac.coordinator.coordinator import Coordinator
from carnac.core.invariants import check
from carnac.core.log.commits import CommitKind
from carnac.ports.serving import HoldState
from tests.clusters_live import LEASE_MS, LiveCluster, live_cluster
from tests.logs import day, replacement, segment
from tests.nightly import IS_FAST, IS_NIGHTLY
from tests.support.hand_historicals import HandHistorical

STEPS = 60
SEEDS = 25 if IS_NIGHTLY else 4 if IS_FAST else 8
DAYS = 12


class Days:
    """One cluster, and what was seen of it."""

    def __init__(self, cluster: LiveCluster, seed: int) -> None:
        self.cluster = cluster
        self.draw = random.Random(seed)
        self.acting: Coordinator = cluster.coordinator
        self.made = 0
        self.leaders = 1
        self.told = 0
        self.copies = 2
        self.gone: dict[str, HandHistorical] = {}

    # ----------------------------------------------------------------------------------------- what happens

    def publish(self) -> None:
        self.made += 1
        when = day(self.draw.randint(1, DAYS))
        self.cluster.metadata.publish(
            replacement(self.cluster.metadata, when, segment(f"s{self.made}", when))
        )

    def empty(self) -> None:
        when = day(self.draw.randint(1, DAYS))
        self.cluster.metadata.publish(
            replacement(self.cluster.metadata, when, kind=CommitKind.DELETE)
        )

    def join(self) -> None:
        if len(self.cluster.servers) < 5:
            self.made += 1
            self.cluster.join(f"n{self.made}", is_eager=self.draw.random() < 0.5)

    def kill(self) -> None:
        if self.cluster.servers:
            name = self._server()
            self.gone[name] = self.cluster.servers[name]
            self.cluster.kill(name)

    def come_back(self) -> None:
        """A server that was killed is there again, with its files."""
        for name in self.draw.sample(sorted(self.gone), min(1, len(self.gone))):
            server = self.cluster.servers[name] = self.gone.pop(name)
            server.is_down = False
            server.restart()

    def restart(self) -> None:
        if self.cluster.servers:
            self.cluster.servers[self._server()].restart()

    def hang(self) -> None:
        if self.cluster.servers:
            server = self.cluster.servers[self._server()]
            server.is_down = not server.is_down

    def spoil(self) -> None:
        if self.cluster.servers:
            server = self.cluster.servers[self._server()]
            waiting = sorted(server.ids(HoldState.LOADING))
            server.failing = set(waiting[: self.draw.randint(0, 3)])

    def load(self) -> None:
        for server in self.cluster.servers.values():
            server.finish(self.draw.randint(0, 4))

    def decommission(self) -> None:
        if self.cluster.servers:
            self.cluster.metadata.decommission(self._server(), wanted=self.draw.random() < 0.5)

    def confirm(self) -> None:
        told = self.cluster.told
        if told is not None:
            old = self.draw.choice([told, max(1, told - 1)])
            name = self.draw.choice(["b1", "b2"])
            before = self.cluster.brokers.get(name)
            floor = 0 if before is None else before.oldest_revision or 0
            self.cluster.broker(name, told, oldest=max(old, floor))

    def depose(self) -> None:
        self.leaders += 1
        if self.draw.random() < 0.5:
            self.acting.resign()
        else:
            self.cluster.clock.advance_ms(LEASE_MS)
        self.acting = self.cluster.another(f"leader {self.leaders}")

    def rule(self) -> None:
        self.copies = self.draw.randint(1, 3)
        self.cluster.rules(
            "events",
            {"type": "loadForever", "tieredReplicants": {"_default_tier": self.copies}},
        )

    def _server(self) -> str:
        return self.draw.choice(sorted(self.cluster.servers))

    # ----------------------------------------------------------------------------------------- what must be

    def step(self) -> None:
        """Let something happen, then a round; hold the laws against what it did."""
        actions: list[Callable[[], None]] = [
            self.publish, self.publish, self.empty, self.join, self.kill, self.come_back, self.restart,
            self.hang, self.spoil, self.load, self.load, self.decommission, self.confirm,
            self.confirm, self.depose, self.rule,
        ]  # fmt: skip
        self.draw.choice(actions)()
        before = {name: server.ids() for name, server in self.cluster.servers.items()}
        floor = self._floor()
        self.cluster.turn(self.acting, after_ms=self.draw.choice([100, 1_500, 6_000]))
        self._check_copies(before, floor)
        told = self.cluster.told or 0
        check("RO-2", told >= self.told, f"{told} is told after {self.told}")
        self._check_told(told)
        self.told = told

    def _floor(self) -> int:
        floors = [one.oldest_revision or 0 for one in self.cluster.brokers.values()]
        return min([self.cluster.told or 0, *floors])

    def _check_copies(self, before: dict[str, set[str]], floor: int) -> None:
        """What a revision in use needs is on a server after the round if it was before, of those that live."""
        metadata = self.cluster.metadata
        head = metadata.head().revision
        needed = {
            item.segment.segment_id
            for revision in range(max(1, floor), head + 1)
            for item in metadata.visible("events", revision=revision)
        }
        had = set().union(*before.values()) if before else set()
        has = set().union(*(one.ids() for one in self.cluster.servers.values()), set())
        check("RO-5", not (had - has) & needed, f"{(had - has) & needed} is on no server any more")

    def _check_told(self, told: int) -> None:
        """What is told anew is loaded, or cold for a reason."""
        rolling = self.acting.rolling
        if told == self.told or not self.told or rolling.last is None:
            return
        metadata = self.cluster.metadata

        def needs(revision: int) -> set[str]:
            return {
                item.segment.segment_id for item in metadata.visible("events", revision=revision)
            }

        has = set().union(*(one.ids() for one in self.cluster.servers.values()), set())
        news = needs(told) - needs(self.told) - has - rolling.last.cold.keys()
        check("RO-3", not news, f"{told} is told, and {news} is loaded nowhere")

    def end(self) -> None:
        """Let nothing happen any more: everything that is wanted is where it should be, and nothing else."""
        cluster = self.cluster
        if not cluster.servers:
            cluster.join("last")
        for server in cluster.servers.values():
            server.is_down, server.is_eager, server.failing = False, True, set()
            server.finish()
            cluster.metadata.decommission(server.server_id, wanted=False)
        cluster.brokers.clear()
        cluster.clock.advance_ms(2 * LEASE_MS)
        cluster.settle(self.acting, after_ms=20_000)
        cluster.settle(self.acting, after_ms=20_000)
        head = cluster.metadata.head().revision
        check("RO-7", cluster.told == head, f"{cluster.told} is told, the newest is {head}")
        live = {item.segment.segment_id for item in cluster.metadata.visible("events")}
        copies = {name: len(where) for name, where in cluster.copies().items()}
        wanted = min(self.copies, len(cluster.servers))
        assert copies == dict.fromkeys(live, wanted)
        for server in cluster.servers.values():
            assert server.ids(None) <= live


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_laws_hold_over_random_days(seed: int) -> None:
    grace_ms = (0, 60_000)[seed % 2]
    with live_cluster("h1", "h2", "h3", restart_grace_ms=grace_ms) as cluster:
        days = Days(cluster, seed)
        cluster.publish("e1", "e2", "e3")
        cluster.settle()
        for _ in range(STEPS):
            days.step()
        days.end()
