"""A rollout over a network, small enough to try every order of events.

Three historicals, two brokers, a coordinator whose leadership may pass to another, and up to four segments. The leader
decides by `decide_rollout`, each broker by `BrokerRevisions`; the rest is the network between them. In any state any of
these may come next: a commit is published; a historical loads, is heard by the leader (and hears its fence), is silent
until it counts as gone, carries out an order however late, and once more, crashes, starts again with its files; the
leader decides, tells, is succeeded by another; a broker reads the told revision, announces itself, plans, follows, says
what it may read, ends a query and starts another, crashes, is forgotten. A message that is lost never comes.

A balancer may be hostile: it wants to drop every copy of everything.

States are one state if they differ only in which server, which broker or which of two segments it is that are published
and replaced together, or in an order that will be refused, or change nothing, whenever it comes. A state is left alone
if it was met with more faults to come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from carnac.core.balancing.live.picture import ServerView
from carnac.core.invariants import check
from carnac.core.rollout.model import Broker, BrokerRevisions, RolloutState, Surplus
from tests.support.laws.rollout import check_at_rest, check_read, check_rollout, check_told
from tests.support.rollout_states import (
    ANNOUNCED,
    BASE,
    DOWN,
    NONE,
    READ,
    SEGMENTS,
    UP,
    BrokerState,
    Log,
    Protocol,
    Server,
    State,
    bits_of,
    names_of,
)
from tests.support.rollouts import view_of


@dataclass
class Model:
    """One log under one protocol, and how far faults may go.

    Attributes:
        copies: Most copies of a segment that servers load.
        crashes: Crashes of servers and brokers together.
        successions: Times that leadership passes to another coordinator.
        is_hostile: Whether the balancer is.
    """

    log: Log
    protocol: Protocol = field(default_factory=Protocol)
    servers: int = 3
    brokers: int = 2
    copies: int = 1
    crashes: int = 0
    successions: int = 0
    is_hostile: bool = False

    def __post_init__(self) -> None:
        self._needs = self.log.needs()
        self._lives = [self.log.lives(head) for head in range(self.log.last + 1)]
        self._swap = self._swapped_bits()
        self._decided: dict[object, tuple[int, tuple[int, ...]]] = {}
        self._read: set[tuple[int, int, int]] = set()

    def first(self) -> State:
        """One server has everything, everybody has heard of everything."""
        empty = Server(True, 0, True, 0, 0, 0, 0, 0)
        full = empty._replace(disk=self._needs[BASE], seen=self._needs[BASE])
        up = BrokerState(UP, NONE, BASE, BASE, BASE)
        return State(
            BASE,
            BASE,
            NONE,
            tuple(sorted((full, *[empty] * (self.servers - 1)))),
            (up,) * self.brokers,
            self.crashes,
            self.successions,
        )

    @property
    def title(self) -> str:
        """The explored model in a few words."""
        faults = f"{self.crashes} crashes, {self.successions} successions"
        return f"{self.log.name}: {self.servers} servers, {self.brokers} brokers, {faults}"

    # ------------------------------------------------------------------------------------------- what may come next

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        """Yield what may come next, and the state after it, in a form that equal states share.

        Raises:
            InvariantError: A law does not hold.
        """
        for what, after in self._all_steps(state):
            servers = tuple(
                sorted(self._without_dead(one, after.successions) for one in after.servers)
            )
            if self._swap is not None:
                servers = min(servers, tuple(sorted(map(self._swapped, servers))))
            yield what, after._replace(servers=servers, brokers=tuple(sorted(after.brokers)))

    def _without_dead(self, server: Server, successions: int) -> Server:
        """Lose orders of which it is sure that they are refused, or change nothing, whenever they come."""
        if server.old_orders and server.has_heard and self.protocol.keeps_fence:
            server = server._replace(old_orders=0)
        if self.protocol.numbers_orders and not successions:  # to load is a newer order
            server = server._replace(late=server.late & server.disk)
        return server

    def _swapped_bits(self) -> dict[int, int] | None:
        """Return each set of segments with twins in each other's place; None if there are none."""
        twins = self.log.twins()
        if twins is None:
            return None
        one, other = twins
        swap = {NONE: NONE}
        for bits in range(1 << len(SEGMENTS)):
            both = (bits & one and other) | (bits & other and one)
            swap[bits] = bits & ~(one | other) | both
        return swap

    def _swapped(self, server: Server) -> Server:
        swap = self._swap or {}
        up, disk, heard, *others = server
        return Server(up, swap[disk], heard, *(swap[one] for one in others))

    def with_more_faults(self, state: State) -> Iterator[State]:
        """Yield the state, and those that differ from it in that more faults may still happen."""
        for crashes in range(state.crashes, self.crashes + 1):
            for successions in range(state.successions, self.successions + 1):
                yield state._replace(crashes=crashes, successions=successions)

    def _all_steps(self, state: State) -> Iterator[tuple[str, State]]:
        if state.head < self.log.last:
            yield "publish", state._replace(head=state.head + 1)
        yield from self._steps_of_leader(state)
        for at, server in enumerate(state.servers):
            for what, after in self._steps_of_server(state, server):
                yield f"h{at} {what}", _with_server(state, at, after, what)
        for at, broker in enumerate(state.brokers):
            for what, one in self._steps_of_broker(state, broker):
                brokers = (*state.brokers[:at], one, *state.brokers[at + 1 :])
                crashes = state.crashes - (what == "crashes")
                yield f"b{at} {what}", state._replace(brokers=brokers, crashes=crashes)

    def _steps_of_leader(self, state: State) -> Iterator[tuple[str, State]]:
        for order in (NONE, 0, 1) if self.is_hostile else (NONE,):
            after = self._decide(state, order)
            if after != state:
                yield "leader decides", after
        if state.to_tell != NONE:
            told = state.to_tell if not self.protocol.never_back else max(state.told, state.to_tell)
            check_told((state.told, 1), (told, 1))
            self._check_loaded(state, told, "told")
            yield "leader tells", state._replace(told=told, to_tell=NONE)
        if state.successions:
            servers = tuple(self._succeeded(one) for one in state.servers)
            yield (
                "another leads",
                state._replace(servers=servers, to_tell=NONE, successions=state.successions - 1),
            )

    def _succeeded(self, server: Server) -> Server:
        old = server.old_orders | server.orders | server.late
        seen = NONE if self.protocol.hears_first else server.disk
        return server._replace(
            has_heard=False, seen=seen, marks=0, orders=0, late=0, old_orders=old
        )

    def _steps_of_server(self, state: State, server: Server) -> Iterator[tuple[str, Server]]:
        if server.seen != NONE:  # it is silent, dead or alive; orders may be on their way yet
            late = server.late | server.orders
            yield "counts as gone", server._replace(seen=NONE, marks=0, orders=0, late=late)
        if not server.is_up:
            heard = server.has_heard and self.protocol.keeps_fence
            marks = server.marks if self.protocol.keeps_marks_over_starts else 0
            yield "starts again", server._replace(is_up=True, has_heard=heard, marks=marks)
            return
        heard = server._replace(has_heard=True, seen=server.disk, marks=server.marks & server.disk)
        if server.seen == NONE and self.protocol.numbers_orders:  # a greeting is an order, too
            heard = heard._replace(late=0)
        if heard != server:
            yield "is heard", heard
        for bit in self._loads(state, server):
            late = server.late & ~bit if self.protocol.numbers_orders else server.late
            yield f"loads {_name(bit)}", server._replace(disk=server.disk | bit, late=late)
        for bit in _each(server.orders):
            self._check_unload(state, server, bit)
            done = server._replace(orders=server.orders & ~bit, disk=server.disk & ~bit)
            late = server.late | bit
            yield f"unloads {_name(bit)}", done._replace(has_heard=True, late=late)
        for bit in _each(server.late & server.disk):
            self._check_unload(state, server, bit)
            again = server._replace(disk=server.disk & ~bit, has_heard=True)
            yield f"unloads {_name(bit)} once more", again
        for bit in _each(server.old_orders):
            left = server._replace(old_orders=server.old_orders & ~bit)
            if server.has_heard:
                yield f"refuses to unload {_name(bit)}", left
            else:
                self._check_unload(state, server, bit)
                yield (
                    f"unloads {_name(bit)} for an old leader",
                    left._replace(disk=server.disk & ~bit),
                )
        if state.crashes:
            yield "crashes", server._replace(is_up=False)

    def _loads(self, state: State, server: Server) -> Iterator[int]:
        wanted = self._needs[state.head] & ~server.disk & ~server.marks
        for bit in _each(wanted):
            if sum(bool(one.disk & bit) for one in state.servers) < self.copies:
                yield bit

    def _steps_of_broker(
        self, state: State, broker: BrokerState
    ) -> Iterator[tuple[str, BrokerState]]:
        if broker.phase == DOWN:
            if broker.said == NONE:
                yield "reads what is told", broker._replace(phase=READ, read=state.told)
            else:
                yield "is forgotten", broker._replace(said=NONE)
            return
        if broker.phase == READ:
            yield "announces itself", broker._replace(phase=ANNOUNCED, said=broker.read)
        elif broker.phase == ANNOUNCED:
            revisions = BrokerRevisions(planning=broker.read)
            if self.protocol.reads_again:
                revisions = revisions.follow(state.told, state.head)
            at = revisions.planning
            plans = broker._replace(phase=UP, read=NONE, planning=at, query=at)
            yield "plans and starts a query", self._checked(state, plans)
        else:
            yield from self._steps_of_planning_broker(state, broker)
        if state.crashes:
            yield "crashes", BrokerState(DOWN, NONE, broker.said, NONE, NONE)

    def _steps_of_planning_broker(
        self, state: State, broker: BrokerState
    ) -> Iterator[tuple[str, BrokerState]]:
        revisions = BrokerRevisions(planning=broker.planning, running={broker.query: 1})
        followed = revisions.follow(state.told, state.head)
        if followed != revisions:
            yield "follows", self._checked(state, broker._replace(planning=followed.planning))
        said = revisions.oldest if self.protocol.says_oldest else revisions.planning
        if said != broker.said:
            yield "says what it may read", broker._replace(said=said)
        self._check_query(state, broker)
        begun = revisions.end(broker.query).begin()
        if begun != revisions:
            yield "ends its query and starts another", broker._replace(query=begun.oldest)

    # ------------------------------------------------------------------------------------------- the leader

    def _decide(self, state: State, order: int) -> State:
        """Return the state after a decision; `order`: in which servers the balancer wants copies dropped, or `NONE`."""
        key = (
            state.head,
            state.told,
            order,
            tuple((one.seen, one.marks) for one in state.servers),
            tuple(one.said for one in state.brokers),
        )
        found = self._decided.get(key)
        if found is None:
            found = self._decided[key] = self._ask(state, order)
        tell, unloads = found
        servers = tuple(
            server._replace(orders=server.orders | bits, marks=server.marks | bits)
            for server, bits in zip(state.servers, unloads, strict=True)
        )
        return state._replace(
            servers=servers, to_tell=tell if tell != state.told else state.to_tell
        )

    def _ask(self, state: State, order: int) -> tuple[int, tuple[int, ...]]:
        known = [(at, one) for at, one in enumerate(state.servers) if one.seen != NONE]
        historicals = [self._view(at, server) for at, server in known]
        surplus = [
            Surplus(server_id=one.server_id, segment_id=segment, why="surplus")
            for one in (historicals[::-1] if order == 1 else historicals)
            for segment in sorted(one.loaded)
        ]
        facts = RolloutState(
            now_ms=0,
            told_revision=state.told,
            lives=self._lives[state.head],
            historicals=historicals,
            brokers=[
                Broker(
                    broker_id=f"b{at}",
                    planning_revision=one.said,
                    oldest_revision=one.said,
                    heartbeat_at_ms=0,
                    lease_ms=1,
                )
                for at, one in enumerate(state.brokers)
                if one.said != NONE
            ],
            surplus=[] if order == NONE else surplus,
        )
        rollout = self.protocol.decide(facts)
        if self.protocol.checks:
            check_rollout(facts, rollout)
        unloads = [0] * len(state.servers)
        for one in rollout.unloads:
            unloads[int(one.server_id[1:])] |= bits_of(one.segment_id)
        return rollout.tell_revision, tuple(unloads)

    def _view(self, at: int, server: Server) -> ServerView:
        marks = server.marks if self.protocol.keeps_marks else 0
        return view_of(
            f"h{at}",
            loaded=names_of(server.seen & ~marks),
            unloading=names_of(marks),
        )

    # ------------------------------------------------------------------------------------------- laws

    def _disks(self, state: State) -> int:
        disks = 0
        for server in state.servers:
            disks |= server.disk
        return disks

    def _check_loaded(self, state: State, revision: int, who: str) -> None:
        """All that a revision needs is on some disk, of a server that is up or was and comes back."""
        missing = self._needs[revision] & ~self._disks(state)
        check(
            "RO-3", not missing, f"revision {revision} is {who}, and {names_of(missing)} is nowhere"
        )

    def _checked(self, state: State, broker: BrokerState) -> BrokerState:
        self._check_loaded(state, broker.planning, "planned on")
        return broker

    def _check_query(self, state: State, broker: BrokerState) -> None:
        """A query reads what its revision needs, each once, from where it is loaded, and that revision's lookups."""
        disks = self._disks(state)
        key = (broker.query, broker.planning, disks)
        if key in self._read:
            return
        asked = broker.query if self.protocol.pins_segments else broker.planning
        read = [(asked, name) for name in names_of(self._needs[asked] & disks)]
        lookups = broker.query if self.protocol.pins_lookups else broker.planning
        check_read(broker.query, names_of(self._needs[broker.query]), read, lookups_at=lookups)
        self._read.add(key)

    def _check_unload(self, state: State, server: Server, bit: int) -> None:
        """A segment that a broker plans on, a query reads or that is told is on another disk too."""
        if not server.disk & bit or sum(bool(one.disk & bit) for one in state.servers) > 1:
            return
        in_use = {state.told}
        for broker in state.brokers:
            in_use |= {broker.planning, broker.query} - {NONE}
        for revision in in_use:
            check(
                "RO-4",
                not self._needs[revision] & bit,
                f"the last copy of {_name(bit)} is unloaded, and revision {revision} is in use",
            )

    # ------------------------------------------------------------------------------------------- rest

    def settle(self, state: State) -> None:
        """Check RO-7: let everything go well until nothing changes any more.

        Raises:
            InvariantError: A law does not hold, or it does not come to rest as it should.
        """
        for _ in range(MAX_ROUNDS):
            before = state
            state = self._go_well(state)
            if state == before:
                break
        check_at_rest(self._facts_at_rest(state))
        check("RO-7", state == before, "it does not come to rest")
        for broker in state.brokers:
            check("RO-7", broker.planning == state.head, f"a broker plans on {broker.planning}")

    def _go_well(self, state: State) -> State:
        servers = []
        for server in state.servers:
            disk = server.disk & ~server.orders & ~server.late
            if not server.has_heard:
                disk &= ~server.old_orders
            servers.append(Server(True, disk, True, disk, 0, 0, 0, 0))
        missing = self._needs[state.head]
        for server in servers:
            missing &= ~server.disk
        loaded = servers[0].disk | missing
        servers[0] = servers[0]._replace(disk=loaded, seen=loaded)
        brokers = []
        for broker in state.brokers:
            planning = max(broker.planning, state.told)
            brokers.append(BrokerState(UP, NONE, planning, planning, planning))
        after = state._replace(servers=tuple(servers), brokers=tuple(brokers))
        after = self._decide(after, NONE)
        told = max(after.told, after.to_tell)
        return after._replace(told=told, to_tell=NONE)

    def _facts_at_rest(self, state: State) -> RolloutState:
        return RolloutState(
            now_ms=0,
            told_revision=state.told,
            lives=self._lives[state.head],
            historicals=[self._view(at, one) for at, one in enumerate(state.servers)],
        )


MAX_ROUNDS = 12
"""Rounds in which all goes well, after which nothing may change any more."""


def _with_server(state: State, at: int, server: Server, what: str) -> State:
    servers = (*state.servers[:at], server, *state.servers[at + 1 :])
    return state._replace(servers=servers, crashes=state.crashes - (what == "crashes"))


def _each(bits: int) -> Iterator[int]:
    while bits:
        bit = bits & -bits
        yield bit
        bits ^= bit


def _name(bit: int) -> str:
    return SEGMENTS[bit.bit_length() - 1]


@dataclass(frozen=True)
class Explored:
    """How far an exploration went.

    Attributes:
        states: Number of different states.
        steps: Number of steps from one to another; all are tried.
        is_whole: Nothing was left out.
    """

    states: int
    steps: int
    is_whole: bool


def explore(model: Model, *, limit: int, settle_every: int = 1) -> Explored:
    """Try everything that can happen, few faults first and nearest first, and check the laws at each step.

    A state with more faults to come leads to all that the same state with fewer leads to. So a state is left alone that
    was met with more faults to come.

    Args:
        limit: Number of states after which no new ones are taken up.
        settle_every: RO-7 is checked from one state of so many.

    Raises:
        InvariantError: A law does not hold; a note says by which steps.
    """
    first = model.first()
    came: dict[State, tuple[State, str] | None] = {first: None}
    waiting = [deque[State]() for _ in range(model.crashes + model.successions + 1)]
    waiting[-1].append(first)
    steps = 0
    is_whole = True
    while any(waiting):
        state = next(queue for queue in reversed(waiting) if queue).popleft()
        try:
            if len(came) % settle_every == 0:
                model.settle(state)
            for what, after in model.steps(state):
                steps += 1
                if any(one in came for one in model.with_more_faults(after)):
                    continue
                if len(came) >= limit:
                    is_whole = False
                    continue
                came[after] = (state, what)
                waiting[after.crashes + after.successions].append(after)
        except Exception as error:
            error.add_note(story(came, state))
            raise
    return Explored(len(came), steps, is_whole)


def story(came: dict[State, tuple[State, str] | None], state: State) -> str:
    """Return how a state came about, a step a line."""
    lines = [str(state)]
    at: State | None = state
    while at is not None and (before := came[at]) is not None:
        at = before[0]
        lines.append(before[1])
    return "\n".join(reversed(lines))
