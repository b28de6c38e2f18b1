"""Historicals that a test holds in its hands: they load when they are told to, and hang, fail and die at will.

The real one loads in threads of its own, in an order that no test decides (port `SegmentServer`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from carnac.core.segments.segment import Segment
from carnac.errors import CarnacError, Conflict, Invalid, Revoked, TimedOut, Unavailable
from carnac.metadata.store import MetadataStore
from carnac.ports.queries import LeafReport, LeafRequest
from carnac.ports.serving import Holding, HoldState, Inventory, Role, ServerRecord

CAPACITY_BYTES = 1_000_000


class HandHistorical:
    """A historical without files.

    Attributes:
        is_eager: Whether assigned segments are loaded at once.
        is_down: Whether it does not answer.
        is_slow: Whether orders are on their way for longer than anybody waits, until `arrive`.
        failing: Ids of segments that it cannot load.
        orders: Orders that it took, in turn: `load ID` or `unload ID`.
        order: Fence and number of the newest order.
    """

    def __init__(
        self,
        server_id: str,
        *,
        tier: str = "_default_tier",
        capacity_bytes: int = CAPACITY_BYTES,
        is_eager: bool = True,
    ) -> None:
        self.record = ServerRecord(
            server_id=server_id,
            role=Role.HISTORICAL,
            url=f"grpc+tcp://{server_id}:8083",
            holder=f"host {server_id}",
            tier=tier,
            capacity_bytes=capacity_bytes,
            started_at_ms=1,
            lease_ms=30_000,
        )
        self.is_eager, self.is_down, self.is_slow = is_eager, False, False
        self.failing: set[str] = set()
        self.orders: list[str] = []
        self.order = (0, 0)
        self._late: list[Callable[[], None]] = []
        self._held: dict[str, Holding] = {}
        self._epoch = 1
        self._number = 0
        self._changes: dict[str, int] = {}

    @property
    def server_id(self) -> str:
        """The id of the server."""
        return self.record.server_id

    def beat(self, metadata: MetadataStore) -> None:
        """Give a sign of life."""
        metadata.put_server(self.record)

    def restart(self) -> None:
        """Stop and start again, with the files that it has."""
        self._held = {key: one for key, one in self._held.items() if one.state is HoldState.LOADED}
        self._epoch += 1
        self._number = 0
        self._changes = {}
        self.record = replace(self.record, started_at_ms=self.record.started_at_ms + 1)

    def finish(self, count: int | None = None) -> None:
        """Load the first so many of those that wait (None: all)."""
        waiting = [key for key, one in self._held.items() if one.state is HoldState.LOADING]
        for key in waiting[:count]:
            is_bad = key in self.failing
            state = HoldState.FAILED if is_bad else HoldState.LOADED
            error = "the file is damaged" if is_bad else ""
            self._put(self._held[key]._replace(state=state, error=error))

    def arrive(self) -> list[CarnacError]:
        """Let orders arrive that were on their way; return how those were refused that were."""
        self.is_slow, late, refused = False, self._late, []
        self._late = []
        for order in late:
            try:
                order()
            except CarnacError as error:
                refused.append(error)
        return refused

    def ids(self, state: HoldState | None = HoldState.LOADED) -> set[str]:
        """Return the ids of segments in a state (None: in any)."""
        return {key for key, one in self._held.items() if state in (None, one.state)}

    def assign(self, segments: Sequence[Segment], *, fence: int, number: int) -> None:
        """Let it load segments."""
        self._wait(lambda: self.assign(segments, fence=fence, number=number))
        self._hear(fence, number)
        for one in segments:
            self.orders.append(f"load {one.segment_id}")
            if one.segment_id not in self._held:
                self._put(
                    Holding(
                        segment_id=one.segment_id,
                        datasource=one.datasource,
                        size_bytes=one.size_bytes,
                        state=HoldState.LOADING,
                    )
                )
        if self.is_eager:
            self.finish()

    def unassign(self, segment_ids: Sequence[str], *, fence: int, number: int) -> None:
        """Let it forget segments."""
        self._wait(lambda: self.unassign(segment_ids, fence=fence, number=number))
        self._hear(fence, number)
        for one in segment_ids:
            self.orders.append(f"unload {one}")
            if self._held.pop(one, None) is not None:
                self._number += 1
                self._changes[one] = self._number

    def inventory(self, *, epoch: str = "", since: int = 0, wait_ms: int = 0) -> Inventory:
        """Return what it holds, or what has changed; it never waits."""
        del wait_ms
        self._answer()
        is_whole = epoch != str(self._epoch)
        changed = {key for key, number in self._changes.items() if number > since}
        shown = [one for key, one in self._held.items() if is_whole or key in changed]
        return Inventory(
            server_id=self.server_id,
            epoch=str(self._epoch),
            number=self._number,
            is_whole=is_whole,
            holdings=sorted(shown, key=lambda one: one.segment_id),
            removed=[] if is_whole else sorted(changed - self._held.keys()),
            used_bytes=sum(one.size_bytes for one in self._held.values()),
            capacity_bytes=self.record.capacity_bytes,
            running=0,
        )

    def run(self, request: LeafRequest) -> tuple[Iterator[object], LeafReport]:
        """Refuse: it has no files."""
        raise Invalid(f"{self.server_id} has no files")

    def cancel(self, query_id: str) -> None:
        """Do nothing: it runs nothing."""

    def _put(self, holding: Holding) -> None:
        self._held[holding.segment_id] = holding
        self._number += 1
        self._changes[holding.segment_id] = self._number

    def _answer(self) -> None:
        if self.is_down:
            raise Unavailable(f"{self.server_id} does not answer")

    def _wait(self, order: Callable[[], None]) -> None:
        if self.is_slow:
            self._late.append(order)
            raise TimedOut(f"{self.server_id} has not answered in time")

    def _hear(self, fence: int, number: int) -> None:
        self._answer()
        if fence < self.order[0]:
            raise Revoked(
                f"{self.server_id} has heard fence {self.order[0]}, and not {fence}",
                leading=self.order[0],
            )
        if (fence, number) < self.order:
            raise Conflict(f"{self.server_id} has taken order {self.order[1]} since order {number}")
        self.order = (fence, number)
