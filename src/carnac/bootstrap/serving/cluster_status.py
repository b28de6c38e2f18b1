"""The status of a cluster, asked from outside: the servers of a store, and what its historicals say that they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from carnac.bootstrap.serving.coordinator import connect
from carnac.bootstrap.store import open_records
from carnac.coordinator.rules import Rules
from carnac.core.access import server_token
from carnac.errors import CarnacError
from carnac.ports.serving import HoldState, Role

if TYPE_CHECKING:
    from carnac.config import Settings
    from carnac.core.balancing.live.picture import LiveSegment, ServerView
    from carnac.core.balancing.plan.rules import RuleSet
    from carnac.metadata.store import MetadataStore
    from carnac.ports import Clock
    from carnac.ports.serving import Inventory, ServerRecord

ASKED_AT_ONCE = 16
"""Historicals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """A server, and its answer when it was asked.

    Attributes:
        inventory: Inventory of a historical; None for other servers, and for historicals that did not answer.
        trouble: Reason why a historical did not answer; empty if it did.
    """

    record: ServerRecord
    inventory: Inventory | None = None
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """A cluster at a moment.

    Attributes:
        revision: Newest revision.
        servers: Servers that are alive, by id.
        live: Segments that the newest revision needs.
        rules: Load rules in force.
    """

    revision: int
    servers: Sequence[ServerStatus]
    live: Sequence[LiveSegment]
    rules: RuleSet

    def views(self) -> list[ServerView]:
        """Return the historicals that answered, as the planner sees them."""
        return [view_of(one.record, one.inventory) for one in self.servers if one.inventory]


def load_server_status(
    settings: Settings,
    clock: Clock,
    *,
    asks: bool = True,
) -> list[ServerStatus]:
    """Return the servers that are alive, by role and id.

    Args:
        asks: Whether historicals are asked what they hold.

    Raises:
        NotFound, Invalid, Unavailable: As `carnac.open`.
    """
    with open_records(settings=settings, clock=clock) as metadata:
        return _ask_all(metadata, asks=asks)


def load_cluster_status(settings: Settings, clock: Clock) -> ClusterStatus:
    """Return servers, segments and rules of a cluster.

    Raises:
        NotFound, Invalid, Unavailable: As `carnac.open`.
    """
    from carnac.coordinator.following import live_segments

    with open_records(settings=settings, clock=clock) as metadata:
        live: list[LiveSegment] = []
        for info in metadata.datasources():
            live += live_segments(info.name, metadata.visible(info.name))
        return ClusterStatus(
            revision=metadata.head().revision,
            servers=_ask_all(metadata, asks=True),
            live=live,
            rules=Rules(metadata, clock, settings.tier_aliases).current(),
        )


def view_of(record: ServerRecord, inventory: Inventory) -> ServerView:
    """Return a historical as the planner sees it."""
    from carnac.core.balancing.live.picture import ServerView

    ids: Mapping[HoldState, list[str]] = {state: [] for state in HoldState}
    for one in inventory.holdings:
        ids[one.state].append(one.segment_id)
    return ServerView(
        server_id=record.server_id,
        tier=record.tier,
        capacity_bytes=inventory.capacity_bytes,
        is_decommissioning=record.is_decommissioning,
        is_draining=record.is_draining,
        loaded=frozenset(ids[HoldState.LOADED]),
        loading=tuple(ids[HoldState.LOADING]),
        failed=frozenset(ids[HoldState.FAILED]),
        sizes={one.segment_id: one.size_bytes for one in inventory.holdings},
    )


def _ask_all(metadata: MetadataStore, *, asks: bool) -> list[ServerStatus]:
    records = sorted(metadata.servers(), key=lambda one: (str(one.role), one.server_id))
    if not asks:
        return [ServerStatus(record=record) for record in records]
    token = server_token(metadata.accounts().key)
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        return list(pool.map(partial(_ask, metadata.store_id, token), records))


def _ask(store_id: str, token: str, record: ServerRecord) -> ServerStatus:
    if record.role is not Role.HISTORICAL:
        return ServerStatus(record=record)
    server = connect(store_id, record, token=lambda: token)
    try:
        return ServerStatus(record=record, inventory=server.inventory())
    except CarnacError as error:
        return ServerStatus(record=record, trouble=error.message)
    finally:
        server.close()
