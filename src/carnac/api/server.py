"""Serves an application from a thread, so that the process's own thread hears signals and says how it ends."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from carnac.api.hosts import ANY_ADDRESS
from carnac.api.protocol import limits_of_server
from carnac.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from fastapi import FastAPI

GRACE_S = 5
"""How long requests that are under way at the end may take."""
WORK_S = 10.0
"""How long the threads of requests that were cut off may go on; the services that they use are closed afterwards."""
BACKLOG = 128


def make_listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; 0: a free port.

    An answer leaves at once, in as many packets as it has writes: where a packet waits until the one before it is
    acknowledged, which a client puts off for 40 ms, every second answer of a connection takes that long. asyncio would
    say so itself, but only of sockets that name their protocol, as those of `socket.create_server` do not.

    Raises:
        OSError: The address is taken, or is none of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # its connections inherit it
    return listener


class _Server(uvicorn.Server):
    """Knows the loop that it runs in, and so the threads that answer."""

    loop: asyncio.AbstractEventLoop | None = None

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.has_begun = threading.Event()
        self.failure: BaseException | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.has_begun.set()

    def run_to_the_end(self, listener: socket.socket) -> None:
        """Answer until it is told to stop; `has_begun` is set in any case, after `failure`."""
        try:
            self.run(sockets=[listener])
        except (Exception, SystemExit) as error:  # the server ends so where it cannot begin
            self.failure = error
        finally:
            self.has_begun.set()

    async def serve(self, sockets: Sequence[socket.socket] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        await super().serve(None if sockets is None else list(sockets))

    def join_workers(self) -> None:
        """Wait for the threads that answer: AnyIO tells them to end when the loop ends, and waits for none."""
        for thread in threading.enumerate():
            if self.loop is not None and getattr(thread, "loop", None) is self.loop:
                thread.join(WORK_S)


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate that a server shows its clients, so that they encrypt their requests (TLS).

    Attributes:
        chain: File with the certificate, then those that vouch for it, in PEM.
        key: File with its key, in PEM, without a password.
    """

    chain: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """Return how connections are encrypted.

        Raises:
            Invalid: A file does not read, or they do not fit one another.
        """
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            for file in (self.chain, self.key):
                file.read_bytes()
            # without a password the terminal would be asked
            context.load_cert_chain(self.chain, self.key, password=lambda: b"")
        except ssl.SSLError as error:
            raise Invalid(
                f"{self.chain} and {self.key} are no certificate with its key, in PEM and without a password: "
                f"{error.reason or error}"
            ) from error
        except OSError as error:
            raise Invalid(f"cannot read {error.filename}: {error.strerror}") from error
        return context

    def read(self) -> tuple[bytes, bytes]:
        """Return the chain and the key, as Arrow Flight takes them; they are looked at by `context` first."""
        return self.chain.read_bytes(), self.key.read_bytes()


class HttpServer:
    """An address that is taken at once, and an application that answers there once it is started.

    Args:
        host: Address to listen at.
        port: 0: one that is free.
        grace_s: How long requests that are under way at the end may take, in seconds.
        certificate: None: nothing is encrypted.

    Raises:
        Invalid: The certificate is none.
        Unavailable: Somebody listens there already, or it is no address of this machine.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        grace_s: int = GRACE_S,
        certificate: Certificate | None = None,
    ) -> None:
        self._ssl = None if certificate is None else certificate.context()
        try:
            self._socket = make_listener(host, port)
        except OSError as error:
            said = str(error.strerror or error).partition(" (while")[0]
            raise Unavailable(
                f"cannot listen at {host} port {port}: {said}{'; choose another --port' if port else ''}",
                host=host,
                port=port,
            ) from error
        self._host = host
        self._grace_s = grace_s
        self.port: int = self._socket.getsockname()[1]
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where others reach it, as far as this machine knows its own name."""
        host = socket.gethostname() if self._host in ANY_ADDRESS else self._host
        scheme, shown = (
            "http" if self._ssl is None else "https",
            f"[{host}]" if ":" in host else host,
        )
        return f"{scheme}://{shown}:{self.port}"

    def start(self, app: FastAPI, *, has_access_log: bool = False) -> None:
        """Answer from now on, from a thread of its own.

        Raises:
            Unavailable: It cannot; the machine gives this process no more files, for example.
        """
        config = uvicorn.Config(
            app,
            access_log=has_access_log,
            timeout_graceful_shutdown=self._grace_s,
            ssl_context_factory=None if (own := self._ssl) is None else lambda *_: own,
            **limits_of_server(),
        )
        self._server = server = _Server(config)
        self._thread = threading.Thread(
            target=lambda: server.run_to_the_end(self._socket), name="carnac-http", daemon=True
        )
        self._thread.start()
        server.has_begun.wait()
        if server.failure is not None:
            raise Unavailable(f"cannot answer at {self.url}: {server.failure}") from server.failure

    def stop(self) -> None:
        """Answer no more; requests that are under way are answered first, and their threads end. Idempotent."""
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join()
        if self._server is not None:
            self._server.join_workers()
        self._socket.close()
