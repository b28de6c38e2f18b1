"""The server that speaks Flight SQL."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from carnac.api.access import as_client
from carnac.api.flight_sql.calls import Calls
from carnac.api.flight_sql.door import ACTIONS, Door
from carnac.api.flight_sql.messages import require_protobuf
from carnac.api.flight_sql.statements import Asker
from carnac.api.problems import Refused
from carnac.core.access import User, token_of
from carnac.core.texts import one_line
from carnac.errors import Busy, Cancelled, CarnacError, Invalid, NotFound, TimedOut, Unavailable
from carnac.flight.grpc import shut_down, silence_grpc, url_of
from carnac.ports.loops import Loop, log_failure, reason_of

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.flight as fl

    from carnac.api.access import Access
    from carnac.api.server import Certificate
    from carnac.broker import Broker
    from carnac.ports import Clock

WATCH_PERIOD_MS = 200
"""Between two looks whether the clients are still there."""
MESSAGE_MAX = 3_000
"""Characters of a message: it travels in a header, of which gRPC takes 8 kB."""
CONTEXT = (
    "at",
    "engine",
    "lane",
    "onMissing",
    "populateCache",
    "priority",
    "revision",
    "sqlOuterLimit",
    "sqlQueryId",
    "timeout",
    "useCache",
)
"""Keys of the context that headers may have as their names, which gRPC writes small."""
_KEYS = {key.lower(): key for key in CONTEXT}
_NOBODY = "carnac"
"""The token of a client that logs in where there are no users."""

_log = logging.getLogger(__name__)


class FlightSqlServer:
    """Answers by Flight SQL, from when it is made until it is closed.

    Args:
        host: Address to listen at.
        port: 0: one that is free.
        new_id: Makes ids of queries.
        access: Tells who asks.
        certificate: None: nothing is encrypted.

    Raises:
        Unavailable: The address is taken, or not this machine's.
        Invalid: The package protobuf is not there.

    Attributes:
        port: At which it listens.
        url: URL for drivers.
    """

    def __init__(
        self,
        broker: Broker,
        *,
        host: str,
        port: int,
        new_id: Callable[[], str],
        clock: Clock,
        access: Access,
        certificate: Certificate | None = None,
    ) -> None:
        import pyarrow as pa

        require_protobuf()
        silence_grpc()
        self._calls = Calls(broker, clock)
        url = url_of(host, port, is_encrypted=certificate is not None)
        try:
            door = Door(broker, self._calls, new_id)
            self._flight = _make(door, access, url, certificate)
        except (pa.ArrowException, OSError) as error:
            raise Unavailable(
                f"cannot listen at {url.partition('://')[2]} for Flight SQL; choose another flight_sql_port",
                setting="flight_sql_port",
            ) from error
        self.port: int = self._flight.port
        url = url_of(host, self.port, is_encrypted=certificate is not None)
        self.url = url.replace(
            "grpc+tcp", "grpc"
        )  # as clients are told in the documents of their drivers
        self._watch = Loop(
            "flight-sql-watch", self._calls.stop_abandoned, log=_log, period_ms=WATCH_PERIOD_MS
        )
        self._watch.start()

    def close(self) -> None:
        """Take no new calls, wait for those that are being answered, then stop them. Idempotent."""
        self._watch.stop()
        shut_down(self._flight, self.port, stop=self._calls.stop)


class _Stream:
    """Batches for Flight. Ends with its call, however that ends."""

    def __init__(self, batches: Iterator[pa.RecordBatch], end: Callable[[], object]) -> None:
        self._batches = batches
        self._end = end

    def __iter__(self) -> _Stream:
        """Return itself."""
        return self

    def __next__(self) -> pa.RecordBatch:
        """Return the next batch."""
        try:
            return next(self._batches)
        except StopIteration:
            self._end()
            raise
        except Exception as error:
            self._end()
            raise to_status(error) from None

    def __del__(self) -> None:
        """End it when Flight lets go of it: its call is over, or nobody listens any more."""
        with suppress(Exception):
            self._end()


def _make(door: Door, access: Access, location: str, certificate: Certificate | None) -> Any:
    """Return the Flight service; its class is made here, since Flight is loaded when it is first needed."""
    import pyarrow.flight as fl

    class Service(fl.FlightServerBase):  # type: ignore[misc]  # it has no types
        def get_flight_info(
            self, context: fl.ServerCallContext, descriptor: fl.FlightDescriptor
        ) -> fl.FlightInfo:
            with _told():
                schema, ticket = door.info(descriptor.command or b"", _asker(context))
                endpoint = fl.FlightEndpoint(ticket, [])
                return fl.FlightInfo(schema, descriptor, [endpoint], -1, -1)

        def get_schema(
            self, context: fl.ServerCallContext, descriptor: fl.FlightDescriptor
        ) -> fl.SchemaResult:
            with _told():
                return fl.SchemaResult(door.info(descriptor.command or b"", _asker(context))[0])

        def do_get(self, context: fl.ServerCallContext, ticket: fl.Ticket) -> fl.FlightDataStream:
            with _told():
                schema, batches, end = door.rows(
                    ticket.ticket, _asker(context), context.is_cancelled
                )
                return fl.GeneratorStream(schema, _Stream(batches, end))

        def do_put(
            self,
            context: fl.ServerCallContext,
            descriptor: fl.FlightDescriptor,
            reader: fl.MetadataRecordBatchReader,
            writer: fl.FlightMetadataWriter,
        ) -> None:
            del context, writer
            with _told():
                door.put(descriptor.command or b"", reader)

        def do_action(
            self, context: fl.ServerCallContext, action: fl.Action
        ) -> Iterator[fl.Result]:
            with _told():
                results = door.act(action.type, action.body.to_pybytes(), _asker(context))
            return iter([fl.Result(body) for body in results])

        def _refuse(self, *_asked: object) -> Any:
            with _told():
                raise Invalid("Flight SQL asks by GetFlightInfo, DoGet, DoPut and DoAction")

        list_flights = do_exchange = _refuse

        def list_actions(self, _context: fl.ServerCallContext) -> list[tuple[str, str]]:
            return list(ACTIONS.items())

    auth_handler, headers = _logins(access)
    tls = certificate and [certificate.read()]
    return Service(location, auth_handler, middleware={"headers": headers}, tls_certificates=tls)


def _logins(access: Access) -> tuple[Any, Any]:
    """Return the handler of handshakes, and the factory that finds user and context of a call in its headers."""
    import pyarrow.flight as fl

    class Headers(fl.ServerMiddleware):  # type: ignore[misc]  # it has no types
        """Keeps the context that a client sends, and sends its token to one that logs in."""

        def __init__(
            self, context: dict[str, str], user: User | None, token: str, agent: str
        ) -> None:
            self.context = context
            self.user = user
            self.token = token
            self.agent = agent

        def sending_headers(self) -> dict[str, str]:
            return {"authorization": f"Bearer {self.token}"}

    class HeadersFactory(fl.ServerMiddlewareFactory):  # type: ignore[misc]  # it has no types
        def start_call(self, _info: fl.CallInfo, headers: dict[str, list[str]]) -> Headers:
            said = {
                _KEYS[name.lower()]: of for name, of in headers.items() if name.lower() in _KEYS
            }
            context = {key: str(values[-1]) for key, values in said.items() if values}
            agent = "".join(map(str, headers.get("user-agent", [])))
            return Headers(context, *_login(access, headers), agent=agent)

    class Anybody(fl.ServerAuthHandler):  # type: ignore[misc]  # it has no types
        """Lets everybody shake hands: the headers of each call tell who asks, those of this one too."""

        def authenticate(self, _outgoing: object, _incoming: object) -> None:
            pass

        def is_valid(self, _token: bytes) -> bytes:
            return b""

    return Anybody(), HeadersFactory()


def _login(access: Access, headers: Mapping[str, Sequence[str]]) -> tuple[User | None, str]:
    """Return who asks, and their token.

    Raises:
        fl.FlightError: It is nobody that may ask, or that cannot be told.
    """
    import pyarrow.flight as fl

    said = headers.get("authorization")
    try:
        user = access.user(str(said[-1]) if said else None)
        return user, _NOBODY if user is None else token_of(user, access.accounts().key)
    except Refused as refusal:
        raise fl.FlightUnauthenticatedError(refusal.message) from None
    except CarnacError as error:
        raise to_status(error) from None


def _asker(context: fl.ServerCallContext) -> Asker:
    """Return who asks."""
    found = context.get_middleware("headers")
    peer = unquote(str(context.peer())).partition(":")[2].rpartition(":")[0].strip("[]")
    return Asker(
        client=as_client(found.user, peer),
        context=found.context,
        is_jdbc="grpc-java" in found.agent,
        is_adbc="ADBC" in found.agent,
    )


class _told:  # noqa: N801  # as functions of contextlib are written
    """Raises what Flight sends in place of an error."""

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Tell an error."""
        if isinstance(error, Exception):
            raise to_status(error) from None


def to_status(error: Exception) -> fl.FlightError:
    """Return what is raised in place of an error, so that Flight sends the status of its kind."""
    import pyarrow.flight as fl

    if isinstance(error, fl.FlightError):
        return error
    if not isinstance(error, CarnacError):
        log_failure(_log, "a call of Flight SQL", error)
        return fl.FlightInternalError(f"the server failed: {reason_of(error)}"[:MESSAGE_MAX])
    message = one_line(error.message)[:MESSAGE_MAX]
    match error:
        case Busy():
            return fl.FlightUnavailableError(f"{message} (again in {error.retry_after_s} s)")
        case TimedOut():
            return fl.FlightTimedOutError(message)
        case Cancelled():
            return fl.FlightCancelledError(message)
        case Unavailable():
            return fl.FlightUnavailableError(message)
        case (
            Invalid() | NotFound()
        ):  # to errors of Arrow, which have more kinds, pyarrow adds a traceback
            return fl.FlightServerError(message)
    return fl.FlightInternalError(message)
