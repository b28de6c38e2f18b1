"""An Arrow Flight server over any `SegmentServer`."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from carnac.errors import Invalid, Unavailable
from carnac.flight import wire
from carnac.flight.failures import to_flight
from carnac.flight.grpc import shut_down, silence_grpc, url_of
from carnac.ports.loops import Loop
from carnac.ports.queries import LeafReport
from carnac.ports.serving import SegmentServer

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.flight as fl

WATCH_PERIOD_MS = 200
"""Between two looks whether the clients are still there."""
FEW_ROWS = 8_192
"""A batch of no more rows waits for the one after it, to bring the report if there is none: most answers are one."""

_log = logging.getLogger(__name__)


class FlightServer:
    """Answers for a segment server over Arrow Flight, from when it is made until it is closed.

    Args:
        host: Address to listen at.
        store_id: Store of these segments, whose clients alone are answered; empty: all clients are.
        port: Port to listen at; 0: a free one.
        is_own: Whether a token is of a process of the cluster; None: every client is answered.
        certificate: Its chain and its key, in PEM; None: nothing is encrypted.

    Raises:
        Unavailable: The address is taken, or not this machine's.

    Attributes:
        port: Port at which it listens.
    """

    def __init__(
        self,
        server: SegmentServer,
        *,
        host: str,
        port: int,
        store_id: str = "",
        is_own: Callable[[str], bool] | None = None,
        certificate: tuple[bytes, bytes] | None = None,
    ) -> None:
        import pyarrow as pa

        silence_grpc()
        self._calls = _Calls(server)
        url = url_of(host, port, is_encrypted=certificate is not None)
        try:
            own = _Own(server, store_id, is_own or (lambda _: True))
            self._flight = _make(own, self._calls, url, certificate)
        except (pa.ArrowException, OSError) as error:
            raise Unavailable(
                f"cannot listen at {url.partition('://')[2]} for Arrow Flight; give another --flight-port"
            ) from error
        self.port: int = self._flight.port
        self._watch = Loop(
            "flight-watch", self._calls.stop_abandoned, log=_log, period_ms=WATCH_PERIOD_MS
        )
        self._watch.start()

    def close(self) -> None:
        """Take nothing new, and wait for running calls, as `shut_down` does. Idempotent."""
        self._watch.stop()
        shut_down(self._flight, self.port)


@dataclass(frozen=True)
class _Own:
    """The identity of the server, and of its store; whom it answers."""

    server: SegmentServer
    store_id: str
    is_own: Callable[[str], bool]

    def asked(self, kind: type[wire.AskedOf], body: bytes) -> wire.AskedOf:
        """Return what was asked of this very server.

        Raises:
            Invalid: It does not read, or nobody of the cluster asks.
            Unavailable: It was meant for another one, which was here before, or for another store's.
        """
        asked = wire.load(kind, body)
        if not self.is_own(asked.token):
            raise Invalid(
                "this store has users, and a historical answers processes of its cluster alone; ask a broker"
            )
        server_id = self.server.server_id
        if asked.server_id and asked.server_id != server_id:
            raise Unavailable(
                f"historical {asked.server_id} is not at this address any more; {server_id} is",
                server_id=asked.server_id,
            )
        if asked.store_id and self.store_id and asked.store_id != self.store_id:
            raise Unavailable(
                f"historical {server_id} serves store {self.store_id}, not store {asked.store_id}; ask those that this "
                "store's metadata name",
                server_id=server_id,
            )
        return asked


@dataclass(eq=False)
class _Call:
    """A leaf statement that is being answered."""

    query_id: str
    leaf_id: str
    is_abandoned: Callable[[], bool]
    is_told: bool = False


class _Calls:
    """Leaf statements that are being answered, each with an id of its own, so that one can be stopped alone."""

    def __init__(self, server: SegmentServer) -> None:
        self._server = server
        self._mutex = threading.Lock()
        self._calls: set[_Call] = set()
        self._numbers = itertools.count(1)

    def begin(self, query_id: str, is_abandoned: Callable[[], bool]) -> _Call:
        """Note a call; `is_abandoned` is asked until it ends."""
        with self._mutex:
            call = _Call(query_id, f"{query_id}/{next(self._numbers)}", is_abandoned)
            self._calls.add(call)
            return call

    def end(self, call: _Call) -> None:
        """Forget a call. Idempotent."""
        with self._mutex:
            self._calls.discard(call)

    def cancel(self, query_id: str) -> None:
        """Stop the leaf statements of a query."""
        with self._mutex:
            leaves = [call.leaf_id for call in self._calls if call.query_id == query_id]
        for leaf_id in leaves:
            self._server.cancel(leaf_id)

    def stop_abandoned(self) -> None:
        """Stop the statements of clients that have gone: a query that nobody waits for should not go on."""
        with self._mutex:  # a call ends, and what it is asked by with it, only when nobody asks
            gone = [call for call in self._calls if not call.is_told and call.is_abandoned()]
            for call in gone:
                call.is_told = True
        for call in gone:
            self._server.cancel(call.leaf_id)


class _Batches:
    """The batches of an answer for Flight, the report beside the last one. Ends with its call, however that ends."""

    def __init__(
        self, batches: Iterator[object], report: LeafReport, calls: _Calls, call: _Call
    ) -> None:
        self._batches = cast("Iterator[pa.RecordBatch]", batches)
        self._report = report
        self._calls = calls
        self._call = call
        self._next: pa.RecordBatch | None = next(self._batches)
        self._is_over = False
        self.schema = self._next.schema
        self._nothing = self._next.slice(0, 0)

    def __iter__(self) -> _Batches:
        """Return itself."""
        return self

    def __next__(self) -> pa.RecordBatch | tuple[pa.RecordBatch, bytes]:
        """Return the next batch; the report comes with the last one if that is small, else with an empty one."""
        if self._is_over:
            raise StopIteration
        try:
            batch, self._next = self._next or next(self._batches, None), None
            if batch is not None and batch.num_rows <= FEW_ROWS:
                self._next = next(self._batches, None)
        except Exception as error:
            self.close()
            raise to_flight(error, "a leaf statement") from error
        if batch is not None and (self._next is not None or batch.num_rows > FEW_ROWS):
            return batch
        self.close()
        last = self._nothing if batch is None else batch
        return last, wire.dump_report(self._report)

    def close(self) -> None:
        """End it, even if a caller still waits. Idempotent."""
        self._is_over = True
        close = getattr(self._batches, "close", None)
        if close is not None:
            close()
        self._calls.end(self._call)

    def __del__(self) -> None:
        """End it when Flight lets go of it: its call is over, or nobody listens any more."""
        with suppress(Exception):
            self.close()


def _make(own: _Own, calls: _Calls, location: str, certificate: tuple[bytes, bytes] | None) -> Any:
    """Return the Flight service; its class is made here, since Flight is loaded when it is first needed."""
    import pyarrow.flight as fl

    class Service(fl.FlightServerBase):  # type: ignore[misc]  # it has no types
        def do_get(self, context: fl.ServerCallContext, ticket: fl.Ticket) -> fl.FlightDataStream:
            call = None
            try:
                asked = own.asked(wire.RunAsked, ticket.ticket)
                request = wire.read_run(asked)
                call = calls.begin(asked.query_id, context.is_cancelled)
                batches, report = own.server.run(replace(request, query_id=call.leaf_id))
                stream = _Batches(batches, report, calls, call)
                return fl.GeneratorStream(stream.schema, stream)
            except Exception as error:
                if call is not None:
                    calls.end(call)
                raise to_flight(error, "a leaf statement") from error

        def do_action(
            self, _context: fl.ServerCallContext, action: fl.Action
        ) -> Iterator[fl.Result]:
            try:
                wire.check_size(action.body.size)  # before it is there twice
                body = _act(own, calls, action.type, action.body.to_pybytes())
            except Exception as error:
                raise to_flight(error, f"the action '{action.type[:50]}'") from error
            return iter([fl.Result(body)])

        def list_actions(self, _context: fl.ServerCallContext) -> list[tuple[str, str]]:
            return [(name, "for Carnac's own processes") for name in _ACTIONS]

        def _refuse(self, *_asked: object) -> Any:
            raise _refusal()

        list_flights = get_flight_info = do_put = do_exchange = _refuse

    class NoSchemas(fl.ServerMiddlewareFactory):  # type: ignore[misc]  # it has no types
        """Refuses `get_schema` before the service is asked: pyarrow adds a traceback to what that raises."""

        def start_call(self, info: fl.CallInfo, _headers: object) -> None:
            if info.method == fl.FlightMethod.GET_SCHEMA:
                raise _refusal()

    tls = certificate and [certificate]
    return Service(location, middleware={"schemas": NoSchemas()}, tls_certificates=tls)


def _refusal() -> fl.FlightError:
    return to_flight(
        Invalid(
            "this port answers Carnac's own processes (do_get of their tickets, do_action); "
            "ask a broker for rows, by SQL over HTTP"
        ),
        "what this port does not answer",
    )


_ACTIONS = ("assign", "unassign", "inventory", "cancel")


def _act(own: _Own, calls: _Calls, name: str, body: bytes) -> bytes:
    """Do what an action asks for; return the bytes of its answer."""
    server = own.server
    match name:
        case "assign":
            assigned = own.asked(wire.AssignAsked, body)
            server.assign(
                wire.read_segments(assigned.segments), fence=assigned.fence, number=assigned.number
            )
        case "unassign":
            unassigned = own.asked(wire.UnassignAsked, body)
            server.unassign(
                unassigned.segment_ids, fence=unassigned.fence, number=unassigned.number
            )
        case "inventory":
            asked = own.asked(wire.InventoryAsked, body)
            found = server.inventory(epoch=asked.epoch, since=asked.since, wait_ms=asked.wait_ms)
            return wire.dump(found)
        case "cancel":
            calls.cancel(own.asked(wire.CancelAsked, body).query_id)
        case _:
            raise Invalid(f"there is no action '{name}'; there are {', '.join(_ACTIONS)}")
    return wire.dump(wire.Done(server_id=server.server_id))
