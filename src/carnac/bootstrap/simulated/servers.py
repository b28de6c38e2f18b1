"""Servers: historicals, coordinators and brokers, put together as `carnac serve` does, and their clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from carnac.bootstrap.engines import make_engine
from carnac.bootstrap.serving.broker import limits_of, tools_of
from carnac.bootstrap.simulated.audit import NUMBER
from carnac.bootstrap.simulated.audit_copies import Watched
from carnac.bootstrap.simulated.clients import DATASOURCES, HOURS, START_MS, Script
from carnac.bootstrap.simulated.world import SETTINGS, Host
from carnac.broker import Broker
from carnac.broker.cluster import Cluster
from carnac.broker.distributed import DistributedExecutor
from carnac.broker.membership import Membership
from carnac.broker.waiting import QueryQueue
from carnac.coordinator.coordinator import Coordinator, CoordinatorSettings
from carnac.core.time.intervals import Interval
from carnac.errors import CarnacError, InvariantError, NotFound
from carnac.historical import Historical
from carnac.historical.presence import Presence
from carnac.historical.server import SEGMENTS_FOLDER
from carnac.ports.answers import ANYBODY, OnMissing, Statement
from carnac.ports.serving import Role, ServerRecord
from carnac.query.intact import IntactFiles
from carnac.simulation.cluster.network import Line
from carnac.store.leases import LeaseKeeper

if TYPE_CHECKING:
    from carnac.bootstrap.simulated.world import World
    from carnac.broker.answer import BrokerAnswer
    from carnac.ports.answers import AnswerFacts

LEASE_MS = SETTINGS.lease_ttl_ms
HALF_HOUR_MS = 1_800_000
MISSING = (OnMissing.ERROR, OnMissing.ERROR, OnMissing.PREVIOUS, OnMissing.PARTIAL)


def _record(host: Host, server_id: str, role: Role, url: str) -> ServerRecord:
    return ServerRecord(
        server_id=server_id,
        role=role,
        url=url,
        holder=host.process.name,
        tier="_default_tier" if role is Role.HISTORICAL else "",
        capacity_bytes=1 << 30 if role is Role.HISTORICAL else 0,
        started_at_ms=host.clock.now_ms(),
        lease_ms=LEASE_MS,
    )


def run_historical(host: Host) -> None:
    """Serve segments."""
    name, copies = host.process.name, host.world.copies
    folder = host.world.folder / name
    copies.begin(name)
    engine = make_engine(host.files, SETTINGS, folders=[folder / SEGMENTS_FOLDER])
    host.world.left.callback(engine.close)
    historical = Historical(
        folder,
        host.files,
        engine,
        clock=host.clock,
        ids=host.ids,
        capacity_bytes=1 << 30,
        checks=IntactFiles(threads=1),
        store_id=host.metadata.store_id,
        load_threads=2,
    )
    host.world.left.callback(historical.close)
    url = f"simulated://{host.process.name}/{host.number}"
    copies.check_memory(name, historical.inventory())
    host.world.network.listen(url, host.process, Watched(name, historical, copies))
    record = _record(host, historical.server_id, Role.HISTORICAL, url)
    presence = Presence(historical, record, host.metadata, host.clock, grace_ms=1_000)
    presence.say()
    presence.loop.start()


def run_coordinator(host: Host) -> None:
    """Say which historical holds what."""
    network = host.world.network
    Coordinator(
        host.metadata,
        host.clock,
        leader_id=f"coordinator-{host.ids.new_id()}",
        holder=host.process.name,
        connect=lambda record: Line(network, record.url, record.server_id),
        settings=CoordinatorSettings(lease_ms=LEASE_MS, period_ms=1_500, patience_ms=20_000),
    ).start()


def open_broker(host: Host) -> tuple[Broker, Membership]:
    """Return a broker that has joined the cluster."""
    network = host.world.network
    leases = LeaseKeeper(host.metadata, clock=host.clock, holder=host.process.name, ttl_ms=LEASE_MS)
    record = _record(host, f"broker-{host.ids.new_id()}", Role.BROKER, "http://broker")
    membership = Membership(host.metadata, leases.reading, record, host.clock)
    membership.start()
    cluster = Cluster(host.metadata, lambda one: Line(network, one.url, one.server_id))
    cluster.start()
    engine = make_engine(host.files, SETTINGS)
    host.world.left.callback(engine.close)
    broker = Broker(
        store_id=host.metadata.store_id,
        executor=DistributedExecutor(
            tools_of(engine, host.metadata, membership, cluster, SETTINGS.query_part_bytes)
        ),
        queue=QueryQueue(limits_of(SETTINGS)),
        clock=host.clock,
        timeout_ms=60_000,
    )
    return broker, membership


@dataclass(frozen=True, slots=True)
class _Told:
    """The content of an answer."""

    rows: int
    total: int
    facts: AnswerFacts
    missing: OnMissing


def rows_of(answer: BrokerAnswer) -> list[dict[str, int]]:
    """Return the rows of an answer."""
    found: list[dict[str, int]] = []
    for batch in answer.batches():
        found.extend(batch.to_pylist())  # type: ignore[attr-defined]
    return found


class AskingScript(Script):
    """A broker and a client that asks it; every answer is audited.

    Attributes:
        is_fresh: Whether an answer came from the newest revision since faults have stopped.
    """

    def __init__(self, world: World, name: str, seed: str, count: int) -> None:
        super().__init__(world, name, seed, count)
        self.is_fresh = False

    @property
    def is_over(self) -> bool:
        """Whether all is asked, and the newest revision was answered once nothing fails any more."""
        return self.left <= 0 and (self.is_fresh or self.world.faults.is_on)

    def run(self, host: Host) -> None:
        """Ask for ever."""
        broker, _ = open_broker(host)
        seen = 0
        while not (self.is_over and self.is_fresh):
            host.kernel.pause(500, 12_000 if self.world.faults.is_on else 2_000)
            self.left -= 1
            seen = max(seen, self._ask(host, broker, seen))

    def _ask(self, host: Host, broker: Broker, seen: int) -> int:
        """Ask one statement; return the revision that was read."""
        rng, name = self.rng, self.rng.choice(DATASOURCES)
        first = rng.randrange(HOURS)
        within = Interval(
            START_MS + first * 2 * HALF_HOUR_MS,
            START_MS + rng.randint(first * 2 + 1, HOURS * 2) * HALF_HOUR_MS,
        )
        missing = OnMissing.PARTIAL if self.world.swarm.is_partial else rng.choice(MISSING)
        where = f"__time >= epoch_ms({within.start_ms}) AND __time < epoch_ms({within.end_ms})"
        statement = Statement(
            sql=f"SELECT count(*) AS n, coalesce(sum({NUMBER}), 0)::BIGINT AS s FROM {name} WHERE {where}",
            query_id=host.ids.new_id(),
            client=ANYBODY,
            on_missing=missing,
        )
        note = self.world.kernel.note
        try:
            answer = cast("BrokerAnswer", broker.run(statement))
            rows = rows_of(answer)
        except InvariantError as error:
            self.world.kernel.violate("laws", error.message)
            return seen
        except CarnacError as error:
            if isinstance(error, NotFound) and not self.world.auditor.oracle.rows(name):
                self.is_fresh = not self.world.faults.is_on  # that is the answer: all was reverted
            note(f"query of {name}: {type(error).__name__}: {error.message[-160:]}")
            return seen
        self._audit(name, within, _Told(rows[0]["n"], rows[0]["s"], answer.facts, missing), seen)
        return answer.facts.revision

    def _audit(self, name: str, within: Interval, told: _Told, seen: int) -> None:
        world, facts = self.world, told.facts
        oracle = world.auditor.oracle
        wanted = oracle.sum_of(name, facts.revision, within)
        text = f"{told.rows} rows of {name} at {facts.revision}"
        world.kernel.note(f"answer: {text}{'' if facts.is_complete else ', incomplete'}")
        world.answers += 1
        if facts.is_complete and (told.rows, told.total) != (wanted.rows, wanted.total):
            world.kernel.violate(
                "answers", f"a complete answer has {text}, and there are {wanted.rows}"
            )
        elif told.rows > wanted.rows:
            world.kernel.violate("answers", f"an answer has {text}, and there are {wanted.rows}")
        elif not facts.is_complete and told.missing is not OnMissing.PARTIAL:
            world.kernel.violate("answers", f"an answer of {text} is incomplete, unasked")
        if facts.revision < seen and told.missing is not OnMissing.PREVIOUS:
            world.kernel.violate(
                "revisions", f"a broker answered at {seen} before, now at {facts.revision}"
            )
        if not world.faults.is_on and facts.revision == oracle.revision:
            self.is_fresh = True
