"""A store that several historicals serve in this process, with a line to each that can break."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import carnac
from carnac.bootstrap.serving.broker import BrokerHandle, BrokerHost, open_broker
from carnac.clock import RandomIds, StoreClock, SystemClock
from carnac.config import SecretUrl, Settings
from carnac.core.segments.segment import Segment
from carnac.deep_storage import open_deep_storage
from carnac.errors import Unavailable
from carnac.historical import Historical
from carnac.ports.queries import LeafReport, LeafRequest
from carnac.ports.serving import Inventory, Role, ServerRecord
from carnac.query import QueryEngine
from carnac.query.intact import IntactFiles
from carnac.query.keeping.store import KeptResults

LEASE_MS = 3_600_000
"""Longer than any test: nobody renews it."""


class Line:
    """The way to a historical (port `SegmentServer`): whole, cut, or cut after so many more batches.

    Attributes:
        batches_left: Batches that still come through; None: all.
        lies: Whether reports leave a segment out.
        is_moving: Cleared: nothing comes through, and nobody is told.
    """

    def __init__(self, historical: Historical) -> None:
        self.historical = historical
        self.is_cut = False
        self.batches_left: int | None = None
        self.lies = False
        self.is_moving = threading.Event()
        self.is_moving.set()
        self.asked: list[LeafRequest] = []
        self._lock = threading.Lock()

    @property
    def server_id(self) -> str:
        """The id of the server."""
        return self.historical.server_id

    def assign(self, segments: Sequence[Segment], *, fence: int, number: int) -> None:
        """As the historical."""
        self._pass()
        self.historical.assign(segments, fence=fence, number=number)

    def unassign(self, segment_ids: Sequence[str], *, fence: int, number: int) -> None:
        """As the historical."""
        self._pass()
        self.historical.unassign(segment_ids, fence=fence, number=number)

    def inventory(self, *, epoch: str = "", since: int = 0, wait_ms: int = 0) -> Inventory:
        """As the historical."""
        self._pass()
        if not self.is_moving.is_set():
            raise Unavailable(f"historical {self.server_id} does not answer in time")
        return self.historical.inventory(epoch=epoch, since=since, wait_ms=min(wait_ms, 50))

    def run(self, request: LeafRequest) -> tuple[Iterator[object], LeafReport]:
        """As the historical, as far as the line holds."""
        self._pass()
        with self._lock:
            self.asked.append(request)
        batches, report = self.historical.run(request)
        return self._carried(batches, report), report

    def cancel(self, query_id: str) -> None:
        """As the historical."""
        self._pass()
        self.historical.cancel(query_id)

    def _carried(self, batches: Iterator[object], report: LeafReport) -> Iterator[object]:
        try:
            for batch in batches:
                with self._lock:
                    if self.batches_left is not None:
                        self.batches_left -= 1
                        self.is_cut = self.is_cut or self.batches_left < 0
                self._pass()
                self.is_moving.wait()
                yield batch
            if self.lies:
                report.slices = list(report.slices)[1:]
        finally:
            close = getattr(batches, "close", None)
            if close is not None:
                close()

    def _pass(self) -> None:
        if self.is_cut:
            raise Unavailable(f"historical {self.server_id} cannot be reached")


class ServedStore:
    """A store, historicals over it, and brokers that ask them.

    Attributes:
        lines: Connections to the historicals.
    """

    def __init__(self, folder: Path, historicals: int) -> None:
        self.folder = folder
        self._steps = ExitStack()
        self.store = self._steps.enter_context(carnac.open(folder / "store", create=True))
        # all share each statement, however light
        self.settings = Settings(
            store=SecretUrl(str(folder / "store")), query_threads=1, query_part_bytes=0
        )
        self.metadata = self.store._metadata
        self.lines: list[Line] = []
        self._fence = 1
        for number in range(historicals):
            self.add(number)

    def add(self, number: int) -> Line:
        """Start a historical and let it say that it lives."""
        storage = open_deep_storage(str(self.folder / "store" / "deep-storage"))
        folder = self.folder / f"historical-{number}"
        engine = QueryEngine(storage, threads=1, folders=[folder], kept=KeptResults(rows_min=0))
        self._steps.callback(engine.close)
        historical = Historical(
            folder,
            storage,
            engine,
            clock=SystemClock(),
            ids=RandomIds(),
            store_id=self.metadata.store_id,
            capacity_bytes=1 << 30,
            checks=IntactFiles(),
            back_off_ms=1,
        )
        self._steps.callback(historical.close)
        line = Line(historical)
        self.lines.append(line)
        self.announce(line)
        return line

    def announce(self, line: Line, **changes: Any) -> None:
        """Let a historical say that it lives."""
        given: dict[str, Any] = {
            "server_id": line.server_id,
            "role": Role.HISTORICAL,
            "url": f"line://{line.server_id}",
            "holder": "test",
            "tier": "_default_tier",
            "capacity_bytes": 1 << 30,
            "started_at_ms": 0,
            "lease_ms": LEASE_MS,
            **changes,
        }
        self.metadata.put_server(ServerRecord(**given))

    def kill(self, line: Line) -> None:
        """Cut the line to a historical, and forget it, as when its lease is over."""
        line.is_cut = True
        self.metadata.remove_server(line.server_id)

    def assign_all(self, copies: int = 1) -> None:
        """Let each live segment be loaded by so many historicals."""
        names = [info.name for info in self.store.datasources()]
        segments = [one.segment for name in names for one in self.store.segments(name)]
        for place, segment in enumerate(segments):
            for copy in range(copies):
                line = self.lines[(place + copy) % len(self.lines)]
                line.assign([segment], fence=self._fence, number=0)

    def open_broker(self, *, is_alone: bool = True, **changes: object) -> BrokerHandle:
        """Open a broker that reaches the historicals; closed with the store."""
        by_id = {line.server_id: line for line in self.lines}
        host = BrokerHost(
            url="http://broker",
            connect=lambda _store_id, record, **_: by_id[record.server_id],
            is_alone=is_alone,
            on_leave=lambda leave: leave,
        )
        handle = open_broker(self.settings.model_copy(update=changes), StoreClock(), host=host)
        self._steps.callback(handle.close)
        return handle

    def close(self) -> None:
        """End all."""
        self._steps.close()
