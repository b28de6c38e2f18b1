"""The coordinator's knowledge for its API: which server holds what, what is loading, why, and for how long.

Safe for threads: objects that the deciding thread changes are copied, all else is read from the metadata store.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from carnac.coordinator.following import live_segments
from carnac.coordinator.planner import Memory
from carnac.coordinator.rules import rules_in_force, rules_text
from carnac.core.texts import short
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.errors import NotFound
from carnac.ports.serving import HoldState, Role

if TYPE_CHECKING:
    from carnac.coordinator.coordinator import Coordinator
    from carnac.coordinator.dropping import Delete
    from carnac.coordinator.links import Link
    from carnac.core.balancing.live.picture import LiveSegment
    from carnac.core.balancing.live.planning import ClusterPlan
    from carnac.core.balancing.plan.limits import CoordinatorLimits
    from carnac.core.log.entries import VisibleSegment
    from carnac.core.rollout.model import Rollout
    from carnac.core.tasks.leadership import Leadership
    from carnac.metadata.store import MetadataStore
    from carnac.ports import DatasourceInfo
    from carnac.ports.serving import RuleChange, ServerRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadingSegment:
    """A segment on its way to a server.

    Attributes:
        why: The word of the reason; empty if another coordinator ordered it.
        since_ms: When it was ordered, epoch milliseconds, UTC; None if another coordinator did.
    """

    segment_id: str
    datasource: str
    size_bytes: int
    why: str
    since_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """A server that holds segments.

    Attributes:
        name: `host:port`, as Druid names servers.
        used_bytes: Bytes of the segments that it holds and is loading.
        loaded: Ids of the segments that it has loaded.
        failed: Why segments could not be loaded, by id.
        left_ms: How long the loads still take at the speed seen; None where nothing was seen yet.
    """

    server_id: str
    name: str
    tier: str
    capacity_bytes: int
    used_bytes: int
    loaded: Container[str]
    loading: Sequence[LoadingSegment] = ()
    unloading: Sequence[str] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    bytes_per_s: float | None = None
    left_ms: int | None = None
    is_draining: bool = False
    is_decommissioning: bool = False


class _Everything:
    """The holdings of a process that reads the files itself."""

    def __contains__(self, item: object) -> bool:
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStatus:
    """How much of a datasource is where rules want it.

    Attributes:
        wanted: Segments that a rule wants on some server.
        missing: Those of them that no server has loaded.
        lacking: Copies that are missing, by tier.
    """

    wanted: int
    missing: int
    lacking: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCounts:
    """The loads of a cluster that are not finished.

    Attributes:
        waiting: Segments that keep a later revision from being told.
        loading: Loads that are under way or wait in a queue.
        failed: Loads that failed.
        moving: Segments that move.
        unplaced: Segments that no server can take.
    """

    waiting: int
    loading: int
    loading_bytes: int
    failed: int
    moving: int
    unplaced: int


class ClusterView:
    """Answers questions about a cluster.

    Args:
        url: URL of this process.
        serves_itself: Whether it answers queries from the files, so that it has everything where no historical lives.
        delete: Deletes an interval of a datasource.
    """

    def __init__(
        self,
        metadata: MetadataStore,
        coordinator: Coordinator,
        *,
        url: str,
        serves_itself: bool,
        delete: Delete,
    ) -> None:
        self._metadata, self._coordinator = metadata, coordinator
        self._url, self._serves_itself, self._delete = url, serves_itself, delete

    # --------------------------------------------------------------------------------------------- leadership

    @property
    def is_leader(self) -> bool:
        """Whether this process leads."""
        return self._coordinator.is_leader

    def leader(self) -> Leadership | None:
        """Return the leader, or the last one; None if there never was one."""
        return self._metadata.leader(Role.COORDINATOR)

    # --------------------------------------------------------------------------------------------- the data

    def datasources(self) -> Sequence[DatasourceInfo]:
        """Return the datasources, by name."""
        return self._metadata.datasources()

    def visible(self, datasource: str, within: Interval | None = None) -> Sequence[VisibleSegment]:
        """Return the entries of a datasource whose time chunks overlap an interval, in order of time; None: all."""
        intervals = None if within is None else IntervalSet((within,))
        return self._metadata.visible(datasource, intervals=intervals)

    def segments(self, datasource: str, within: Interval | None = None) -> Sequence[LiveSegment]:
        """Return the segments of a datasource, each once, whose time chunks overlap an interval; None: all.

        A leader knows them; they are a round old at most.
        """
        known = self._coordinator.live_segments()
        if known is None:
            known = live_segments(datasource, self.visible(datasource, within))
        return [
            one
            for one in known
            if one.datasource == datasource and (within is None or one.chunk.overlaps(within))
        ]

    def delete(self, datasource: str, within: Interval, message: str) -> int:
        """Delete the whole time chunks within an interval; return how many segments are not seen any more."""
        chunks = [
            one
            for one in self._metadata.chunks(datasource, interval=within)
            if within.start_ms <= one.interval.start_ms and one.interval.end_ms <= within.end_ms
        ]
        if not chunks:
            return 0
        where = Interval(chunks[0].interval.start_ms, chunks[-1].interval.end_ms)
        if self._delete(datasource, where, message) is None:
            return 0
        return sum(one.entries for one in chunks)

    # --------------------------------------------------------------------------------------------- servers

    def servers(self) -> Sequence[ServerState]:
        """Return the historicals that are alive, by id; where there is none, this process if it answers queries."""
        fleet = self._coordinator.fleet
        with fleet.mutex:
            found = [_state_of(link) for link in fleet]
        if found or not self._serves_itself:
            return sorted(found, key=lambda one: one.server_id)
        from carnac.core.balancing.plan.cluster import DEFAULT_TIER

        size = sum(info.size_bytes for info in self._metadata.datasources())
        return [
            ServerState(
                server_id=self._coordinator.leader_id,
                name=urlsplit(self._url).netloc,
                tier=DEFAULT_TIER,
                capacity_bytes=size,
                used_bytes=size,
                loaded=_Everything(),
            )
        ]

    def load_status(
        self, segments: Sequence[LiveSegment], *, by_servers: bool = False
    ) -> LoadStatus:
        """Return how much of some segments is loaded.

        Args:
            by_servers: Whether no more copies are wanted than there are servers.
        """
        from carnac.core.balancing.live.planning import wanted_copies

        servers = self.servers()
        hosts: dict[str, int] = {}
        for server in servers:
            hosts[server.tier] = hosts.get(server.tier, 0) + 1
        wanted = wanted_copies(
            segments,
            self._coordinator.rules.current(),
            now_ms=self._coordinator.now_ms(),
            servers=hosts,
            is_limited=by_servers or self._is_alone(servers),
        )
        lacking: dict[str, int] = {}
        missing = asked = 0
        for segment_id, tiers in wanted.items():
            homes = [server.tier for server in servers if segment_id in server.loaded]
            asked += bool(tiers)
            missing += bool(tiers) and not homes
            for tier, count in tiers.items():
                lacking[tier] = lacking.get(tier, 0) + max(0, count - homes.count(tier))
        return LoadStatus(wanted=asked, missing=missing, lacking=lacking)

    def _is_alone(self, servers: Sequence[ServerState]) -> bool:
        return len(servers) == 1 and isinstance(servers[0].loaded, _Everything)

    # --------------------------------------------------------------------------------------------- what operators say

    def throttles(self) -> CoordinatorLimits:
        """Return the limits on the work of a run over the segments of now."""
        from carnac.core.balancing.plan.limits import throttled

        known = self._coordinator.live_segments()
        used = (
            sum(len(self.segments(info.name)) for info in self.datasources())
            if known is None
            else len(known)
        )
        return throttled(self._coordinator.throttles, used)

    def decommissioned(self) -> Sequence[str]:
        """Return the names of the historicals that are to be emptied, those that are away among them."""
        known = self._metadata.servers(Role.HISTORICAL, live_only=False)
        return sorted({name_of(one) for one in known if one.is_decommissioning})

    def decommission_all(self, names: Iterable[str]) -> None:
        """Have these historicals emptied, by name or id, and all others hold segments again.

        Raises:
            NotFound: One of them is not known; nothing is changed.
        """
        alive = {one.server_id for one in self._metadata.servers(Role.HISTORICAL)}
        known = self._metadata.servers(Role.HISTORICAL, live_only=False)
        # Of servers that had one address one after the other, the name means the living.
        the_living_last = sorted(known, key=lambda one: one.server_id in alive)
        by_name: dict[str, str] = {}
        for one in the_living_last:
            by_name |= {name_of(one): one.server_id, one.server_id: one.server_id}
        wanted = set()
        for name in names:
            if name not in by_name:
                there = ", ".join(name_of(one) for one in known) or "none"
                raise NotFound(f"there is no historical {short(name)}; there are {there}")
            wanted.add(by_name[name])
        for one in known:
            if one.is_decommissioning != (one.server_id in wanted):
                self._metadata.decommission(one.server_id, wanted=one.server_id in wanted)

    # --------------------------------------------------------------------------------------------- rules

    def rules(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Return the rules in force as Druid's JSON, by datasource; those that hold for all are `_default`.

        Those that cannot be read are left out, as in a round.
        """
        return rules_in_force(self._metadata.rules(), lambda *_: None)  # a round has said why

    def put_rules(self, datasource: str, rules: object, *, author: str, comment: str) -> None:
        """Set the rules of a datasource or of `_default`; an empty list: it has none of its own.

        Raises:
            Invalid: They are no list of rules.
        """
        text = rules_text(rules)
        self._metadata.put_rules(
            datasource, None if text == "[]" else text, author=author, comment=comment
        )

    def rule_history(
        self, datasource: str | None, *, limit: int, within: Interval
    ) -> Sequence[RuleChange]:
        """Return changes of rules within a time, the newest first; None: of all."""
        return self._metadata.rule_history(datasource, limit=limit, within=within)

    # --------------------------------------------------------------------------------------------- what goes on

    def counts(self) -> LoadCounts:
        """Return how much is on its way; from memory alone."""
        fleet, (rollout, _, memory) = self._coordinator.fleet, self._decided()
        with fleet.mutex:
            states = [_state_of(link) for link in fleet]
        return LoadCounts(
            waiting=0 if rollout is None else len(rollout.waiting),
            loading=sum(len(one.loading) for one in states),
            loading_bytes=sum(item.size_bytes for one in states for item in one.loading),
            failed=sum(len(one.failed) for one in states),
            moving=len(memory.moves),
            unplaced=len(memory.unplaced),
        )

    def _decided(self) -> tuple[Rollout | None, ClusterPlan | None, Memory]:
        """Return what was decided last; nothing of a coordinator that does not lead any more holds."""
        coordinator = self._coordinator
        if not coordinator.is_leader:
            return None, None, Memory()
        return coordinator.rolling.last, coordinator.planner.last, coordinator.planner.memory

    def activity(self) -> dict[str, Any]:
        """Return what the coordinator does now, as JSON: the told revision, waits, moves, blockers and failures."""
        coordinator = self._coordinator
        rollout, plan, memory = self._decided()
        told = self._metadata.told()
        return {
            "isLeader": coordinator.is_leader,
            "fence": coordinator.fence,
            "head": self._metadata.head().revision,
            "told": None if told is None else told.revision,
            "waiting": []
            if rollout is None
            else [
                {
                    "segment": one.segment_id,
                    "revision": one.revision,
                    "untilMs": one.until_ms,
                    "loadingOn": list(one.loading_on),
                }
                for one in rollout.waiting
            ],
            "cold": {} if rollout is None else {key: str(why) for key, why in rollout.cold.items()},
            "floor": None if rollout is None else rollout.floor,
            "heldBy": [] if rollout is None else list(rollout.holders),
            "moves": [
                {
                    "segment": one.segment_id,
                    "from": one.source_id,
                    "to": one.target_id,
                    "why": one.why,
                }
                for one in list(memory.moves)
            ],
            "away": [
                {"server": server_id, "sinceMs": one.since_ms}
                for server_id, one in list(coordinator.fleet.away.items())
            ],
            "unplaced": dict(memory.unplaced),
            "blockers": [] if plan is None else [str(one) for one in plan.blockers],
            "failures": dict(coordinator.failures),
            "servers": [_shown(one) for one in self.servers()],
        }


def _shown(server: ServerState) -> dict[str, Any]:
    return {
        "id": server.server_id,
        "name": server.name,
        "tier": server.tier,
        "capacityBytes": server.capacity_bytes,
        "usedBytes": server.used_bytes,
        "isDraining": server.is_draining,
        "isDecommissioning": server.is_decommissioning,
        "bytesPerSecond": None if server.bytes_per_s is None else round(server.bytes_per_s),
        "leftMs": server.left_ms,
        "loading": [
            {
                "segment": one.segment_id,
                "datasource": one.datasource,
                "sizeBytes": one.size_bytes,
                "why": one.why,
                "sinceMs": one.since_ms,
            }
            for one in server.loading
        ],
        "unloading": list(server.unloading),
        "failed": dict(server.failed),
    }


def _state_of(link: Link) -> ServerState:
    record, holds, asked = link.record, dict(link.holds), dict(link.asked)
    loading: dict[str, LoadingSegment] = {}
    for segment_id, order in asked.items():
        loading[segment_id] = LoadingSegment(
            segment_id=segment_id,
            datasource=order.datasource,
            size_bytes=order.size_bytes,
            why=order.why,
            since_ms=order.at_ms,
        )
    for segment_id, held in holds.items():
        if held.state is HoldState.LOADING and segment_id not in loading:
            loading[segment_id] = LoadingSegment(
                segment_id=segment_id,
                datasource=held.datasource,
                size_bytes=held.size_bytes,
                why="",
                since_ms=None,
            )
    ordered = sum(one.size_bytes for key, one in asked.items() if key not in holds)
    left_bytes = sum(one.size_bytes for one in loading.values())
    rate = link.bytes_per_s
    return ServerState(
        server_id=record.server_id,
        name=name_of(record),
        tier=record.tier,
        capacity_bytes=link.capacity_bytes,
        used_bytes=ordered + sum(one.size_bytes for one in holds.values()),
        loaded=frozenset(key for key, one in holds.items() if one.state is HoldState.LOADED),
        loading=tuple(loading.values()),
        unloading=sorted(link.unloading),
        failed={key: one.error for key, one in holds.items() if one.state is HoldState.FAILED},
        bytes_per_s=rate,
        left_ms=_left_ms(left_bytes, rate),
        is_draining=record.is_draining,
        is_decommissioning=record.is_decommissioning,
    )


def name_of(record: ServerRecord) -> str:
    """Return `host:port`, as Druid names servers."""
    return urlsplit(record.url).netloc


def _left_ms(left_bytes: int, rate: float | None) -> int | None:
    if not left_bytes:
        return 0
    return round(left_bytes * 1000 / rate) if rate else None
