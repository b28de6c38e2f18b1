"""The rollout, carried out: brokers are told the revision, and segments that may go are unloaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from carnac.core.rollout.deciding import decide_rollout
from carnac.core.rollout.model import LOAD_PATIENCE_MS, Broker, Rollout, RolloutState
from carnac.core.time.leases import is_over
from carnac.ports.serving import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from carnac.coordinator.fleet import Fleet
    from carnac.coordinator.following import LogView
    from carnac.coordinator.planner import Planner
    from carnac.core.balancing.live.picture import ServerView
    from carnac.metadata.store import MetadataStore
    from carnac.ports import Clock
    from carnac.ports.serving import ServerRecord

LOOK_AGAIN_MS = 1_000
"""Where nothing has changed, a decision is taken again after this: waiting ends with time."""


class Rolling:
    """Decides and carries out.

    Args:
        patience_ms: How long a revision waits for segments that are not loaded.

    Attributes:
        told: The revision that brokers are told; None: none yet.
        last: The last decision; None before the first one.
    """

    def __init__(
        self,
        metadata: MetadataStore,
        log: LogView,
        fleet: Fleet,
        planner: Planner,
        clock: Clock,
        *,
        patience_ms: int = LOAD_PATIENCE_MS,
    ) -> None:
        self._metadata, self._log, self._fleet = metadata, log, fleet
        self._planner, self._clock = planner, clock
        self._patience_ms = patience_ms
        self.told: int | None = None
        self.last: Rollout | None = None
        self._since_ms = 0
        self._looked_at_ms: int | None = None
        self._seen: object = None

    def restart(self) -> None:
        """Begin to lead: read the told revision."""
        told = self._metadata.told()
        self.told = None if told is None else told.revision
        self.last = None
        self._since_ms = self._clock.now_ms()
        self._looked_at_ms = None

    def run_round(self, fence: int) -> None:
        """Decide once, if anything is other than before, and carry it out.

        Raises:
            Revoked: Another coordinator leads.
        """
        brokers = self._metadata.servers(Role.BROKER)
        if not len(self._fleet):
            self._tell_newest(fence)
            return
        now_ms = self._clock.now_ms()
        seen = self._sight(brokers)
        is_soon = self._looked_at_ms is not None and not is_over(
            self._looked_at_ms, LOOK_AGAIN_MS, now_ms
        )
        if is_soon and seen == self._seen:
            return
        self._seen, self._looked_at_ms = seen, now_ms
        views = self._fleet.views()
        rollout = self.last = decide_rollout(self._state(views, brokers, now_ms))
        self._unload(rollout, fence)
        if rollout.floor is not None:
            self._log.lives.forget(rollout.floor)
        self._tell(rollout.tell_revision, fence)

    def _sight(self, brokers: Sequence[ServerRecord]) -> object:
        """Return what a decision depends on, beside time."""
        memory = self._planner.memory
        return (
            self.told,
            self._log.lives.head,
            self._fleet.number,
            [(one.server_id, one.planning_revision, one.oldest_revision) for one in brokers],
            id(memory.unplaced),
            id(memory.surplus),
            len(memory.moves),
            len(self._planner.retries),
        )

    def _state(
        self, views: Sequence[ServerView], brokers: Sequence[ServerRecord], now_ms: int
    ) -> RolloutState:
        memory = self._planner.memory
        return RolloutState(
            now_ms=now_ms,
            told_revision=self.told,
            lives=self._log.lives,
            historicals=views,
            brokers=[broker_of(one) for one in brokers],
            leading_since_ms=self._since_ms,
            unwanted=memory.unwanted,
            unplaced=memory.unplaced,
            surplus=self._planner.surplus(views),
            patience_ms=self._patience_ms,
        )

    def _unload(self, rollout: Rollout, fence: int) -> None:
        by_server: dict[str, list[str]] = {}
        for one in rollout.unloads:
            by_server.setdefault(one.server_id, []).append(one.segment_id)
            self._planner.note_let_go(one.server_id, one.segment_id)
        for server_id, segment_ids in by_server.items():
            self._fleet.unload(server_id, segment_ids, fence=fence)

    def _tell(self, revision: int, fence: int) -> None:
        if self.told is None or revision > self.told:
            self.told = self._metadata.tell(revision, fence=fence).revision

    def _tell_newest(self, fence: int) -> None:
        """Without a historical all is read cold, and brokers need wait for nothing; an untold one plans on it."""
        self.last = None
        if self.told is not None:
            self._tell(self._metadata.head().revision, fence)


def broker_of(record: ServerRecord) -> Broker:
    """Return a broker as the rollout sees it; one that has not said what it plans on may plan on anything."""
    planning = record.planning_revision or 0
    return Broker(
        broker_id=record.server_id,
        planning_revision=planning,
        oldest_revision=planning if record.oldest_revision is None else record.oldest_revision,
        heartbeat_at_ms=record.heartbeat_at_ms,
        lease_ms=record.lease_ms,
    )
