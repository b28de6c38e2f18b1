"""The network of a simulation: calls of historicals that are dropped, delayed, doubled, or not answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from carnac.errors import CarnacError, Unavailable

if TYPE_CHECKING:
    from carnac.core.segments.segment import Segment
    from carnac.ports.queries import LeafReport, LeafRequest
    from carnac.ports.serving import Inventory, SegmentServer
    from carnac.simulation.cluster.faults import Faults
    from carnac.simulation.cluster.kernel import Kernel, Process, Strand

T = TypeVar("T")

TIMEOUT_MS = 8_000
"""After which a caller gives up."""
CUT_MS = 60_000
"""For as long at most nobody reaches a process that is cut off from all others."""
LOOK_MS = 400
"""After which a caller notices that the other process is gone."""


@dataclass(eq=False)
class _Call:
    """One message, and what came of it."""

    is_done: bool = False
    value: Any = None
    error: CarnacError | None = None
    caller: Strand | None = None


@dataclass
class Network:
    """The listeners, and the fate of messages."""

    kernel: Kernel
    faults: Faults
    listening: dict[str, tuple[Process, SegmentServer]] = field(default_factory=dict)
    cut_until_ms: dict[str, int] = field(default_factory=dict)

    def listen(self, url: str, process: Process, server: SegmentServer) -> None:
        """Answer calls of a URL."""
        self.listening[url] = (process, server)

    def call(
        self, url: str, what: str, work: Callable[[SegmentServer], T], *, wait_ms: int = 0
    ) -> T:
        """Have a server do something; return its answer.

        Raises:
            Unavailable: No answer has come.
        """
        kernel = self.kernel
        kernel.require()
        deadline_ms = kernel.now_ms + TIMEOUT_MS + wait_ms
        name = self.listening[url][0].name if url in self.listening else url
        if self.faults.happens("network", "cut"):
            self.cut_until_ms[name] = kernel.now_ms + self.faults.rng.randint(0, CUT_MS)
            kernel.note(f"network: {name} is cut off")
        is_cut = self.faults.is_on and self.cut_until_ms.get(name, 0) > kernel.now_ms
        if is_cut or self.faults.happens("network", "dropped"):
            kernel.note(f"network: {what} to {url} is lost")
            kernel.sleep(TIMEOUT_MS)
            raise Unavailable(f"{url} does not answer")
        is_late = self.faults.happens("network", "delayed")
        answer = self._send(url, what, work, 12_000 if is_late else 5)
        if self.faults.happens("network", "doubled"):
            kernel.note(f"network: {what} to {url} comes twice")
            self._send(url, what, work, 6_000)
        process = self.listening[url][0] if url in self.listening else None
        while not answer.is_done and kernel.now_ms < deadline_ms:
            if process is None or process.is_dead:
                kernel.pause(1, LOOK_MS)
                raise Unavailable(f"{url} cannot be reached")
            answer.caller = kernel.here()
            kernel.wait(min(deadline_ms, kernel.now_ms + LOOK_MS))
        if not answer.is_done or self.faults.happens("network", "unanswered"):
            kernel.note(f"network: no answer to {what} from {url}")
            kernel.sleep(max(0, deadline_ms - kernel.now_ms))
            raise Unavailable(f"{url} does not answer in time")
        if answer.error is not None:
            raise answer.error
        return cast("T", answer.value)

    def _send(
        self, url: str, what: str, work: Callable[[SegmentServer], object], longest_ms: int
    ) -> _Call:
        """Let a message arrive after a while, or never; a message that is sent later may arrive first."""
        call = _Call()
        found = self.listening.get(url)
        if found is None:
            return call
        process, server = found
        after_ms = self.faults.rng.randint(0, longest_ms)

        def arrive() -> None:
            self.kernel.sleep(after_ms)
            try:
                call.value = work(server)
            except CarnacError as error:
                call.error = error
            call.is_done = True
            if call.caller is not None:
                self.kernel.wake(call.caller)

        self.kernel.spawn(process, what, arrive)
        return call


class Line:
    """A historical as others reach it (port `SegmentServer`)."""

    def __init__(self, network: Network, url: str, server_id: str) -> None:
        self._network, self._url, self._server_id = network, url, server_id

    @property
    def server_id(self) -> str:
        """The id of the server."""
        return self._server_id

    def assign(self, segments: Sequence[Segment], *, fence: int, number: int) -> None:
        """Let it load segments."""
        self._network.call(
            self._url, "assign", lambda one: one.assign(segments, fence=fence, number=number)
        )

    def unassign(self, segment_ids: Sequence[str], *, fence: int, number: int) -> None:
        """Let it forget segments."""
        self._network.call(
            self._url, "unassign", lambda one: one.unassign(segment_ids, fence=fence, number=number)
        )

    def inventory(self, *, epoch: str = "", since: int = 0, wait_ms: int = 0) -> Inventory:
        """Return what it holds."""
        return self._network.call(
            self._url,
            "inventory",
            lambda one: one.inventory(epoch=epoch, since=since, wait_ms=wait_ms),
            wait_ms=wait_ms,
        )

    def run(self, request: LeafRequest) -> tuple[Iterator[object], LeafReport]:
        """Run a leaf's part of a statement."""

        def work(server: SegmentServer) -> tuple[list[object], LeafReport]:
            batches, report = server.run(request)
            found = []
            for batch in batches:
                self._network.kernel.pause(0, 20)
                found.append(batch)
            return found, report

        batches, report = self._network.call(self._url, "query", work)
        return self._handed_over(batches), report

    def _handed_over(self, batches: Sequence[object]) -> Iterator[object]:
        for batch in batches:
            self._network.kernel.pause(0, 5)
            yield batch

    def cancel(self, query_id: str) -> None:
        """Stop the leaf statements of a query."""
        self._network.call(self._url, "cancel", lambda one: one.cancel(query_id))

    def close(self) -> None:
        """Hang up."""
