"""The servers of a small cluster, each a process of its own with a log of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from carnac.config import to_environ
from carnac.errors import Unavailable
from carnac.ports.serving import Role, ServerRecord

if TYPE_CHECKING:
    from carnac.config import Settings
    from carnac.metadata.store import MetadataStore
    from carnac.ports import Clock
    from carnac.store import Store

_T = TypeVar("_T")

START_TIMEOUT_MS = 60_000
"""How long a server may take to say that it is there: a busy laptop with several starting at once."""
STOP_TIMEOUT_S = 30
LOOK_AGAIN_MS = 100
LEASE_MS = 5_000
"""How long the dead count as alive: a minute by default, too long to look at."""
LOG_TAIL_LINES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One process from its start to its end, epoch milliseconds.

    Attributes:
        ended_ms: None while it runs.
    """

    name: str
    started_ms: int
    ended_ms: int | None = None


@dataclass(slots=True, kw_only=True)
class _Server:
    process: subprocess.Popen[bytes]
    started_ms: int


@dataclass(slots=True, kw_only=True)
class Servers:
    """Starts, kills and stops servers of one store.

    Attributes:
        folder: Holds their logs, and a folder of files for each historical.
        lives: Lives of the processes that have ended.
    """

    settings: Settings
    metadata: MetadataStore
    clock: Clock
    folder: Path
    lives: list[Life] = field(default_factory=list)
    _running: dict[str, _Server] = field(default_factory=dict)

    def start(self, name: str, role: Role, *, options: Sequence[str] = ()) -> ServerRecord:
        """Start a server and wait until the store knows it; return what it says of itself.

        Raises:
            Unavailable: It ended, or did not come within `START_TIMEOUT_MS`.
        """
        known = {server.server_id: server.started_at_ms for server in self._known(role)}
        log = self.folder / "logs" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "carnac", "serve", "--role", role.value, "--port", "0"]
        with log.open("ab") as out:
            process = subprocess.Popen(  # noqa: S603 - this program itself
                [*command, *options],
                env={**os.environ, **to_environ(self.settings)},
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the demo, which ends them in order
            )
        self._running[name] = _Server(process=process, started_ms=self.clock.now_ms())

        def find() -> ServerRecord | None:
            if process.poll() is not None:
                raise Unavailable(f"the {role} {name} ended while it started: {_tail(log)}")
            new = [
                one
                for one in self._known(role)
                if known.get(one.server_id) != one.started_at_ms  # a historical keeps its id
            ]
            return new[0] if new else None

        return wait_until(
            self.clock, find, START_TIMEOUT_MS, f"the {role} {name} to start; its log is {log}"
        )

    def kill(self, name: str) -> None:
        """End a server with SIGKILL: it cannot say goodbye."""
        server = self._running.pop(name)
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        self._note(name, server)

    def stop(self, name: str) -> None:
        """Ask a server to end, and wait until it has."""
        server = self._running.pop(name)
        server.process.terminate()
        try:
            server.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            server.process.kill()
            server.process.wait()
        self._note(name, server)

    def close(self) -> None:
        """Stop all that run. Idempotent."""
        for name in list(self._running):
            self.stop(name)

    def _known(self, role: Role) -> Sequence[ServerRecord]:
        return self.metadata.servers(role)

    def _note(self, name: str, server: _Server) -> None:
        self.lives.append(
            Life(name=name, started_ms=server.started_ms, ended_ms=self.clock.now_ms())
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A store of a demo's own, its records, and the servers that will serve it."""

    store: Store
    metadata: MetadataStore
    servers: Servers


@contextmanager
def opened_in(folder: Path, settings: Settings, clock: Clock) -> Iterator[Opened]:
    """Make a store in a folder, whatever the settings say of others; its servers end with the block."""
    from carnac.bootstrap.store import open_records, open_store

    place = folder / "store"
    settings = settings.model_copy(
        update={"deep_storage": None, "store": str(place), "lease_ttl_ms": LEASE_MS}
    )
    with ExitStack() as steps:
        store = steps.enter_context(open_store(place, create=True, settings=settings))
        metadata = steps.enter_context(open_records(settings=settings, clock=clock))
        servers = Servers(settings=settings, metadata=metadata, clock=clock, folder=folder)
        steps.callback(servers.close)
        yield Opened(store=store, metadata=metadata, servers=servers)


def wait_until(clock: Clock, find: Callable[[], _T | None], timeout_ms: int, what: str) -> _T:
    """Return what is found as soon as it is there.

    Raises:
        Unavailable: It was not within the time.
    """
    until_ms = clock.now_ms() + timeout_ms
    while (found := find()) is None:
        if clock.now_ms() > until_ms:
            raise Unavailable(f"waited {timeout_ms // 1000} s in vain for {what}")
        clock.sleep_ms(LOOK_AGAIN_MS)
    return found


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return " / ".join(lines[-LOG_TAIL_LINES:]) or "it said nothing"
