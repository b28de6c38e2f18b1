"""The coordinator: one leads, and goes round its duties; the others follow and are ready to.

A duty that fails is logged, and does not keep the others from being done. The leader orders under a fence that grows
with each change of leader, so one that was paused and comes back orders nothing any more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import TYPE_CHECKING

from carnac.coordinator.dropping import Delete, DropRules
from carnac.coordinator.fleet import RESTART_GRACE_MS, Fleet
from carnac.coordinator.following import LogView
from carnac.coordinator.planner import Planner
from carnac.coordinator.rolling import Rolling
from carnac.coordinator.rules import Rules
from carnac.core.balancing.plan.limits import Throttles
from carnac.core.rollout.model import LOAD_PATIENCE_MS
from carnac.core.tasks.leadership import Candidacy, Leadership
from carnac.core.time.leases import is_over
from carnac.errors import CarnacError, Revoked
from carnac.ports.loops import Loop, safely
from carnac.ports.serving import Role, ServerRecord

if TYPE_CHECKING:
    from carnac.core.balancing.live.picture import LiveSegment
    from carnac.metadata.store import MetadataStore
    from carnac.ports import Clock
    from carnac.ports.serving import SegmentServer

RENEWALS_IN_LEASE = 3
ROUND_PERIOD_MS = 100
"""How soon a publish is seen. Loads of servers are seen at once."""
LOOK_PERIOD_MS = 500
"""How often one that does not lead looks whether the one that does has resigned, or died."""
DROP_PERIOD_MS = 10_000
"""Pause between two looks at what drop rules match."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """How a coordinator works.

    Attributes:
        lease_ms: How long leadership outlives its last sign of life.
        url: Where its HTTP interface is; empty if it has none.
        tier_aliases: Tiers by the name that stands for them in rules.
        patience_ms: How long a revision waits for segments that are not loaded.
        throttles: Throttles of runs of the planner.
        restart_grace_ms: How long a historical that has gone is waited for, before copies that others have too are made
            anew.
        period_ms: Pause between rounds.
    """

    lease_ms: int
    url: str = ""
    tier_aliases: Mapping[str, Sequence[str]] = field(default_factory=dict)
    patience_ms: int = LOAD_PATIENCE_MS
    throttles: Throttles = field(default_factory=Throttles)
    restart_grace_ms: int = RESTART_GRACE_MS
    period_ms: int = ROUND_PERIOD_MS


class Coordinator:
    """A coordinator; another one in another process does no harm.

    Args:
        leader_id: Random, new with each start.
        holder: This process, for people.
        connect: Reaches a historical.
        disconnect: Lets go of a connection that `connect` made.
        delete: Deletes what drop rules match; None: nothing is deleted.
        has_threads: Whether it talks to historicals from threads of their own; else in its rounds.

    Attributes:
        loops: Loops that must turn.
    """

    def __init__(
        self,
        metadata: MetadataStore,
        clock: Clock,
        *,
        leader_id: str,
        holder: str,
        connect: Callable[[ServerRecord], SegmentServer],
        settings: CoordinatorSettings,
        disconnect: Callable[[SegmentServer], object] = lambda _: None,
        delete: Delete | None = None,
        has_threads: bool = True,
    ) -> None:
        self._metadata, self._clock = metadata, clock
        self._settings, self._holder = settings, holder
        self.leader_id = leader_id
        self._record = self._make_record()
        self._led: Leadership | None = None
        self._asked_at_ms: int | None = None
        self._looked_at_ms = 0
        self._fence = 0
        self._leading = Lock()
        self._compiling: Thread | None = None
        self._loop = self._loop_of("coordinator", self.run_round, settings.period_ms)
        self.fleet = Fleet(
            connect,
            clock,
            disconnect=disconnect,
            has_threads=has_threads,
            on_news=self._loop.wake,
            grace_ms=settings.restart_grace_ms,
        )
        self.rules = Rules(metadata, clock, settings.tier_aliases)
        self.log = LogView(metadata)
        self.planner = Planner(
            self.log,
            self.fleet,
            self.rules,
            clock,
            throttles=settings.throttles,
        )
        self.rolling = Rolling(
            metadata, self.log, self.fleet, self.planner, clock, patience_ms=settings.patience_ms
        )
        self._drops = (
            None if delete is None else DropRules(metadata, self.rules, clock, delete=delete)
        )
        self._duties = self._make_duties()
        self._lead_loop = self._loop_of(
            "leading", self.lead, settings.lease_ms // RENEWALS_IN_LEASE
        )
        self._drop_loop = self._loop_of("drop rules", self.drop, DROP_PERIOD_MS)
        self.loops = (self._loop, self._lead_loop, self._drop_loop)

    def _make_record(self) -> ServerRecord:
        """Return how it announces itself."""
        return ServerRecord(
            server_id=self.leader_id,
            role=Role.COORDINATOR,
            url=self._settings.url,
            holder=self._holder,
            started_at_ms=self._clock.now_ms(),
            lease_ms=self._settings.lease_ms,
        )

    def _make_duties(self) -> dict[str, Loop]:
        """Return what a round consists of, in order; their threads are never started."""
        duties: tuple[tuple[str, Callable[[], object]], ...] = (
            ("following servers", self._follow_servers),
            ("following the log", self._follow_log),
            ("planning", self._plan),
            ("rollout", self._roll),
        )
        return {name: self._loop_of(name, duty, self._settings.period_ms) for name, duty in duties}

    def _loop_of(self, name: str, duty: Callable[[], object], period_ms: int) -> Loop:
        return Loop(name, duty, log=_log, period_ms=period_ms, clock=self._clock)

    # ------------------------------------------------------------------------------------------- leading

    @property
    def is_leader(self) -> bool:
        """Whether it leads now, as far as it knows."""
        return self.fence is not None

    @property
    def fence(self) -> int | None:
        """The fence under which it may give orders; None: another one leads, or its own lease is over."""
        led, asked_at_ms = self._led, self._asked_at_ms
        if led is None or asked_at_ms is None:
            return None
        if is_over(asked_at_ms, self._settings.lease_ms, self._clock.now_ms()):
            return None
        return led.fence

    def now_ms(self) -> int:
        """Return the present by the clock of the store, epoch milliseconds, UTC."""
        return self._clock.now_ms()

    @property
    def throttles(self) -> Throttles:
        """The operator's limits on the work of a run."""
        return self._settings.throttles

    def live_segments(self) -> list[LiveSegment] | None:
        """Return the segments that the newest revision needs, as of the last round; None: it does not follow the log.

        From any thread.
        """
        if self._fence_in_use() is None or not self.log.is_following:
            return None
        return list(self.log.live.values())

    @property
    def failures(self) -> Mapping[str, str]:
        """Why duties came to nothing in the last round, by name."""
        every = (*self._duties.values(), self._drop_loop)
        return {duty.name: duty.failure for duty in every if duty.failure}

    def lead(self, *, above: int = 0) -> None:
        """Become or remain the leader, if nobody else is.

        Args:
            above: See `Candidacy`.
        """
        with self._leading:
            asked_at_ms = self._clock.now_ms()
            leader = self._metadata.lead(
                Candidacy(
                    role=Role.COORDINATOR,
                    leader_id=self.leader_id,
                    holder=self._holder,
                    url=self._settings.url,
                    lease_ms=self._settings.lease_ms,
                    above=above,
                )
            )
            is_ours = leader.leader_id == self.leader_id
            self._led = leader if is_ours else None
            self._asked_at_ms = asked_at_ms
            self._metadata.put_server(self._record)

    def resign(self) -> None:
        """Stop leading, so that another one takes over at once; the lease ends by itself if that cannot be said."""
        self._led = None
        try:
            self._metadata.resign(Role.COORDINATOR, self.leader_id)
            self._metadata.remove_server(self.leader_id)
        except CarnacError as error:
            _log.warning("could not resign, the lease ends by itself: %s", error.message)

    def _is_to_lead(self) -> bool:
        """Whether it is time for a sign of life, or nobody leads any more."""
        now_ms, part_ms = self._clock.now_ms(), self._settings.lease_ms // RENEWALS_IN_LEASE
        if self._asked_at_ms is None or is_over(self._asked_at_ms, part_ms, now_ms):
            return True
        if self._led is not None or not is_over(self._looked_at_ms, LOOK_PERIOD_MS, now_ms):
            return False
        self._looked_at_ms = now_ms
        leader = self._metadata.leader(Role.COORDINATOR)
        return leader is None or is_over(leader.heartbeat_at_ms, leader.lease_ms, now_ms)

    # ------------------------------------------------------------------------------------------- rounds

    def start(self) -> None:
        """Go round in threads of its own, until `stop`; the planner is compiled beside them when it is needed first."""
        self.planner.is_ready = self._is_compiled
        for loop in self.loops:
            loop.start()

    def _is_compiled(self) -> bool:
        if self._compiling is None:
            self._compiling = Thread(
                target=self._compile_planner, name="carnac-compile", daemon=True
            )
            self._compiling.start()
        return not self._compiling.is_alive()

    def _compile_planner(self) -> None:
        def compile_it() -> None:
            from carnac.core.balancing.live.readiness import compile_all

            compile_all()

        safely(_log, "compiling the planner", compile_it)
        self._loop.wake()

    def stop(self) -> None:
        """Resign, and end all rounds. Idempotent."""
        for loop in reversed(self.loops):
            loop.stop()
        self.resign()
        self.fleet.close()

    def run_round(self) -> None:
        """Go once round all duties; those that fail come again in the next round."""
        if self._is_to_lead():
            self.lead()
        for duty in self._duties.values():
            duty.turn()

    def _follow_servers(self) -> None:
        self.fleet.follow(self._metadata.servers(Role.HISTORICAL))
        self.fleet.exchange()
        if self._fence_in_use() is not None:
            self._ask_who_leads()
        fence = self.fence
        if fence is not None and fence != self._fence:
            self._begin(fence)  # newer than any coordinator's fence that revoked the one before

    def _ask_who_leads(self) -> None:
        """Where a server has refused its fence: order nothing any more, or go on with a fence above the heard one."""
        heard = self.fleet.revoked_by
        if heard is None:
            return
        self._led = None
        self.lead(above=heard)
        if self.is_leader:
            _log.warning(
                "a historical has heard fence %s of a coordinator that the store does not know, as after a restore of "
                "the metadata; %s still leads, and takes a higher one",
                heard,
                self._holder,
            )

    def _begin(self, fence: int) -> None:
        """Begin to lead, or again: nothing that was known of orders counts."""
        _log.info("%s leads now, fence %s", self._holder, fence)
        self.log.restart()
        self.planner.restart()
        self.rolling.restart()
        self.fleet.lead(fence)
        self._fence = fence

    def _fence_in_use(self) -> int | None:
        """Return the fence if it leads and has begun to."""
        fence = self.fence
        return fence if fence == self._fence else None

    def _follow_log(self) -> None:
        if self._fence_in_use() is None or not len(self.fleet):
            self.log.restart()
            return
        self.log.follow(since=None if self.log.is_following else self._oldest_in_use())

    def _oldest_in_use(self) -> int | None:
        """Return the oldest revision that queries may read; None if brokers plan on the newest."""
        told = self.rolling.told
        if told is None:
            return None
        brokers = self._metadata.servers(Role.BROKER)
        floors = [one.oldest_revision for one in brokers if one.oldest_revision is not None]
        return min([told, *floors])

    def _plan(self) -> None:
        fence = self._fence_in_use()
        if fence is not None and self.log.is_current:
            self.planner.run_round(fence)

    def _roll(self) -> None:
        fence = self._fence_in_use()
        if fence is None or (len(self.fleet) and not self.log.is_current):
            return  # servers may hold segments that are newer than the log as known here: none may go
        try:
            self.rolling.run_round(fence)
        except Revoked:
            self._led = None
            raise
        self.fleet.exchange()

    def drop(self) -> None:
        """Delete what drop rules match, if it leads."""
        if self._drops is not None and self.is_leader:
            self._drops.run_round()
