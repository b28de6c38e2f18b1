"""A cluster in one process: real metadata, coordinators that go round by hand, historicals that a test holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from carnac.coordinator.coordinator import Coordinator, CoordinatorSettings
from carnac.core.balancing.plan.limits import Throttles
from carnac.core.log.commits import CommitKind
from carnac.core.time.intervals import Interval
from carnac.metadata import open_metadata
from carnac.ports.serving import Role, ServerRecord
from tests.logs import append, day, replacement, segment
from tests.support.clock import FakeClock, SequentialIds
from tests.support.hand_historicals import HandHistorical

LEASE_MS = 30_000
ROUNDS_MAX = 40


class LiveCluster:
    """Historicals by id, and the coordinator that goes round.

    Attributes:
        deleted: Deletions by drop rules: datasource, interval, message.
    """

    def __init__(self, *, throttles: Throttles | None = None, restart_grace_ms: int = 0) -> None:
        self.clock = FakeClock()
        self.metadata = open_metadata("memory://", clock=self.clock, ids=SequentialIds())
        self.servers: dict[str, HandHistorical] = {}
        self.deleted: list[tuple[str, Interval, str]] = []
        self.brokers: dict[str, ServerRecord] = {}
        self._throttles = throttles or Throttles()
        self._grace_ms = restart_grace_ms
        self.coordinator = self.another("one")

    def another(
        self, leader_id: str, *, tier_aliases: Mapping[str, Sequence[str]] | None = None
    ) -> Coordinator:
        """Return another coordinator of the same store."""
        return Coordinator(
            self.metadata,
            self.clock,
            leader_id=leader_id,
            holder=f"coordinator {leader_id}",
            connect=self._connect,
            settings=CoordinatorSettings(
                lease_ms=LEASE_MS,
                url=f"http://{leader_id}:8081",
                throttles=self._throttles,
                restart_grace_ms=self._grace_ms,
                tier_aliases=tier_aliases or {},
            ),
            delete=self._delete,
            has_threads=False,
        )

    def close(self) -> None:
        """Close the store."""
        self.metadata.close()

    def _connect(self, record: ServerRecord) -> HandHistorical:
        return self.servers[record.server_id]

    def _delete(self, datasource: str, interval: Interval, message: str) -> int | None:
        self.deleted.append((datasource, interval, message))
        asked = replacement(
            self.metadata, str(interval), kind=CommitKind.DELETE, datasource=datasource
        )
        return self.metadata.publish(replace(asked, message=message)).revision

    def join(self, *server_ids: str, **how: object) -> None:
        """Let servers come."""
        for server_id in server_ids:
            self.servers[server_id] = HandHistorical(server_id, **how)  # type: ignore[arg-type]
            self.servers[server_id].beat(self.metadata)

    def kill(self, server_id: str) -> None:
        """Let a server be gone, and everybody know it."""
        self.servers.pop(server_id).is_down = True
        self.metadata.remove_server(server_id)

    def broker(self, name: str, planning: int, oldest: int | None = None) -> None:
        """Let a broker say on what it plans."""
        self.brokers[name] = ServerRecord(
            server_id=name,
            role=Role.BROKER,
            url=f"http://{name}:8082",
            holder=name,
            started_at_ms=1,
            lease_ms=LEASE_MS,
            planning_revision=planning,
            oldest_revision=planning if oldest is None else oldest,
        )
        self.metadata.put_server(self.brokers[name])

    def publish(self, *names: str, rows: int = 10) -> int:
        """Append segments, each in a day of its own: `e7` is of the seventh."""
        return append(
            self.metadata,
            *(segment(name, day(int(name[1:])), rows=rows) for name in names),
        ).revision

    def turn(self, coordinator: Coordinator | None = None, *, after_ms: int = 100) -> None:
        """Go round once, a while after the last time."""
        self.clock.advance_ms(after_ms)
        for server in self.servers.values():
            server.beat(self.metadata)
        for name, record in self.brokers.items():
            self.metadata.put_server(replace(record, server_id=name))
        acting = coordinator or self.coordinator
        acting.run_round()
        assert acting.failures == {}

    def settle(self, coordinator: Coordinator | None = None, *, after_ms: int = 1_500) -> int:
        """Go round until nobody is told anything any more; return the number of rounds."""
        for number in range(ROUNDS_MAX):
            before = self._orders()
            told = self.metadata.told()
            self.turn(coordinator, after_ms=after_ms)
            if number > 2 and self._orders() == before and self.metadata.told() == told:
                return number
        raise AssertionError(f"the cluster is not at rest after {ROUNDS_MAX} rounds")

    def _orders(self) -> dict[str, int]:
        return {name: len(server.orders) for name, server in self.servers.items()}

    def copies(self) -> dict[str, list[str]]:
        """Return who has loaded which segment."""
        found: dict[str, list[str]] = {}
        for name, server in sorted(self.servers.items()):
            for one in sorted(server.ids()):
                found.setdefault(one, []).append(name)
        return found

    def rules(self, datasource: str, *rules: dict[str, object]) -> None:
        """Set load rules."""
        self.metadata.put_rules(datasource, json.dumps(rules))

    @property
    def told(self) -> int | None:
        """Return what brokers are told."""
        told = self.metadata.told()
        return None if told is None else told.revision


@contextmanager
def live_cluster(
    *server_ids: str, throttles: Throttles | None = None, restart_grace_ms: int = 0
) -> Iterator[LiveCluster]:
    """A cluster with some servers, closed at the end."""
    cluster = LiveCluster(throttles=throttles, restart_grace_ms=restart_grace_ms)
    try:
        cluster.join(*server_ids)
        yield cluster
    finally:
        cluster.close()
