"""A historical on another machine, asked over Arrow Flight."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carnac.core.answers.replicas import Patience
from carnac.errors import CarnacError, TimedOut, Unavailable
from carnac.flight import wire
from carnac.flight.failures import from_flight
from carnac.flight.grpc import ENCRYPTED, silence_grpc
from carnac.ports.queries import LeafReport, LeafRequest
from carnac.ports.serving import Inventory

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.core.segments.segment import Segment
    from carnac.ports import Clock

CALL_TIMEOUT_MS = 20_000
"""Time limit of a request whose answer needs no computing, besides deliberate waiting."""
RUN_TIMEOUT_MAX_MS = 3_600_000
"""Time limit of a leaf statement whose request names none."""
RUN_SLACK_MS = 5_000
"""For the way there and back: the server stops a statement itself, and says so better."""
_OPTIONS = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2_000),  # how long one attempt to connect may take
    ("grpc.max_reconnect_backoff_ms", 2_000),  # a server that is back is soon found again
]


class FlightSegmentServer:
    """A historical at a URL (port `SegmentServer`). Safe for threads, which share one connection. To be closed.

    Args:
        url: `grpc+tcp://host:port`, or `grpc+tls://host:port` if it is encrypted, from the server's heartbeat.
        server_id: Id from the heartbeat. Another server at that address is not asked.
        store_id: Id of the store. A server of another store is not asked.
        clock: By which it is found out how long its answers take, so that one that hangs is given up soon when it is
            asked what has changed; None: that is waited for as long as for anything else.
        token: Says by what a server knows that a process of the cluster asks; None: it is not told.
        call_timeout_ms: `CALL_TIMEOUT_MS`, less in tests.
    """

    def __init__(
        self,
        url: str,
        server_id: str = "",
        store_id: str = "",
        *,
        clock: Clock | None = None,
        token: Callable[[], str] | None = None,
        call_timeout_ms: int = CALL_TIMEOUT_MS,
    ) -> None:
        self._url = url
        self._server_id = server_id
        self._store_id = store_id
        self._clock = clock
        self._token = token
        self._call_timeout_ms = call_timeout_ms
        self._patience = Patience(call_timeout_ms)
        self._mutex = threading.Lock()
        self._connection: Any = None

    @property
    def server_id(self) -> str:
        """The id of the server, which is asked for it if it was not given.

        Raises:
            Unavailable: The server cannot be reached.
        """
        if not self._server_id:
            self.inventory()
        return self._server_id

    def assign(self, segments: Sequence[Segment], *, fence: int, number: int) -> None:
        """Let it load segments in this order; returns when they are noted on its disk.

        Raises:
            Revoked: A coordinator with a higher fence has spoken.
            Conflict: An order of this fence with a higher number was taken.
            Unavailable: It cannot be reached, or drains.
        """
        from carnac.core.segments.record import dump_segment

        for begin in range(0, max(len(segments), 1), wire.ASSIGN_STEP):
            some = [dump_segment(one) for one in segments[begin : begin + wire.ASSIGN_STEP]]
            self._do(
                "assign",
                wire.AssignAsked(**self._head(), segments=some, fence=fence, number=number),
            )

    def unassign(self, segment_ids: Sequence[str], *, fence: int, number: int) -> None:
        """Let it forget segments; files go when no running query reads them.

        Raises:
            Revoked, Conflict, Unavailable: As `assign`.
        """
        asked = wire.UnassignAsked(
            **self._head(), segment_ids=list(segment_ids), fence=fence, number=number
        )
        self._do("unassign", asked)

    def inventory(self, *, epoch: str = "", since: int = 0, wait_ms: int = 0) -> Inventory:
        """Return what it holds, or what changed since a number of an epoch.

        Raises:
            Unavailable: It cannot be reached.
        """
        asked = wire.InventoryAsked(**self._head(), epoch=epoch, since=since, wait_ms=wait_ms)
        found = wire.load(
            Inventory,
            self._do("inventory", asked, wait_ms)
            if self._clock is None or not epoch  # the first one is whole, and may be long
            else self._do_soon(self._clock, "inventory", asked, wait_ms),
        )
        self._server_id = found.server_id
        return found

    def run(self, request: LeafRequest) -> tuple[Iterator[object], LeafReport]:
        """Run one leaf's part of a statement; return its batches, one at least, and what they rest on.

        The batches have a `close`, which ends it early, from any thread.

        Raises:
            Invalid, Corrupt, NotFound: As `QueryEngine.run_query`.
            Unavailable: It cannot be reached, does not answer in time, breaks off, or drains.
        """
        import pyarrow.flight as fl

        body = wire.dump_run(request, self._head())
        limit_ms = request.timeout_ms or RUN_TIMEOUT_MAX_MS
        timeout_s = (min(limit_ms, RUN_TIMEOUT_MAX_MS) + RUN_SLACK_MS) / 1000
        answer = _Answer(self, timeout_s)
        answer.begin(lambda: self._connected().do_get(fl.Ticket(body), _within(timeout_s)))
        return answer, answer.report

    def cancel(self, query_id: str) -> None:
        """Stop the leaf statements of a query. Idempotent.

        Raises:
            Unavailable: It cannot be reached.
        """
        self._do("cancel", wire.CancelAsked(**self._head(), query_id=query_id))

    def close(self) -> None:
        """Let go of the connection, which ends with the last request that runs over it. Idempotent.

        Its own `close` would take it from under a request that another thread has begun, and end the process.
        """
        with self._mutex:
            self._connection = None

    def told(self, error: Exception, timeout_s: float) -> CarnacError:
        """Return what an error of Flight means."""
        return from_flight(error, url=self._url, server_id=self._server_id, timeout_s=timeout_s)

    def _do_soon(self, clock: Clock, name: str, asked: wire.Asked, wait_ms: int) -> bytes:
        """Ask what is answered as soon as usual, or the server hangs."""
        began_ms = clock.now_ms()
        try:
            body = self._do(name, asked, wait_ms, limit_ms=self._patience.limit_ms)
        except TimedOut:
            self._patience = self._patience.missed()
            raise
        self._patience = self._patience.heard(clock.now_ms() - began_ms - wait_ms)
        return body

    def _do(
        self, name: str, asked: wire.Asked, wait_ms: int = 0, *, limit_ms: int | None = None
    ) -> bytes:
        import pyarrow as pa
        import pyarrow.flight as fl

        timeout_s = ((self._call_timeout_ms if limit_ms is None else limit_ms) + wait_ms) / 1000
        action = fl.Action(name, wire.dump(asked))
        try:
            (result,) = self._connected().do_action(action, _within(timeout_s))
        except (pa.ArrowException, OSError, ValueError, RuntimeError) as error:
            raise self.told(error, timeout_s) from error
        return bytes(result.body.to_pybytes())

    def _head(self) -> wire.Head:
        return {
            "version": wire.VERSION,
            "server_id": self._server_id,
            "store_id": self._store_id,
            "token": "" if self._token is None else self._token(),
        }

    def _connected(self) -> Any:
        import pyarrow as pa
        import pyarrow.flight as fl

        with self._mutex:
            if self._connection is None:
                silence_grpc()
                try:
                    self._connection = fl.FlightClient(
                        self._url, tls_root_certs=_trusted(self._url), generic_options=_OPTIONS
                    )
                except (pa.ArrowException, ValueError) as error:
                    raise Unavailable(
                        f"'{self._url}' is no address of a historical: {error}", url=self._url
                    ) from error
            return self._connection


def _trusted(url: str) -> bytes | None:
    """Return the certificates to trust, as all of Python does; None: those of gRPC, or nothing is encrypted.

    Raises:
        Unavailable: They cannot be read.
    """
    if not url.startswith(ENCRYPTED):
        return None
    file = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    try:
        return Path(file).read_bytes() if file else None
    except OSError as error:
        raise Unavailable(
            f"cannot read the certificates to trust, {file} (SSL_CERT_FILE): {error.strerror}",
            url=url,
        ) from error


class _Answer:
    """The batches of a leaf as they come over the wire."""

    def __init__(self, server: FlightSegmentServer, timeout_s: float) -> None:
        self.report = LeafReport()
        self._server = server
        self._timeout_s = timeout_s
        self._reader: Any = None
        self._first: pa.RecordBatch | None = None
        self._is_over = False

    def begin(self, ask: Any) -> None:
        """Ask, and wait for the first batch."""
        self._reader = self._guarded(ask)
        self._first = self._take()

    def __iter__(self) -> _Answer:
        """Return itself."""
        return self

    def __next__(self) -> object:
        """Return the next batch; the report is complete when there is none."""
        if self._first is not None:
            batch, self._first = self._first, None
            return batch
        if self._is_over:
            raise StopIteration
        return self._take()

    def close(self) -> None:
        """Tell the server that nobody listens any more. From any thread. Idempotent."""
        self._is_over = True
        reader = self._reader
        if reader is not None:
            with suppress(Exception):  # it has ended by itself
                reader.cancel()

    def __del__(self) -> None:
        """Let nobody compute for an answer that was thrown away."""
        if not self._is_over:
            self.close()

    def _take(self) -> pa.RecordBatch:
        """Return the next batch, and take in the report that comes with the last one."""
        try:
            chunk = self._guarded(self._reader.read_chunk)
        except StopIteration:
            self._is_over = True
            raise Unavailable("a historical ended its answer without a report") from None
        if chunk.app_metadata is None:
            return chunk.data
        self._is_over = True
        wire.fill_report(self.report, chunk.app_metadata.to_pybytes())
        with suppress(StopIteration):
            self._guarded(self._reader.read_chunk)  # hear that it has ended
        return chunk.data

    def _guarded(self, ask: Any) -> Any:
        import pyarrow as pa

        try:
            return ask()
        except (pa.ArrowException, OSError, ValueError, RuntimeError) as error:
            self._is_over = True
            raise self._server.told(error, self._timeout_s) from error


def _within(timeout_s: float) -> Any:
    import pyarrow.flight as fl

    return fl.FlightCallOptions(timeout=timeout_s)
