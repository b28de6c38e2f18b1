"""The JVM of a local driver: started so that it can be given up at any moment, and leaves nothing behind.

Spark's own `launch_gateway` starts it as well, but keeps it to itself until it is up: an interrupted caller
leaves a JVM that waits for ever. It also takes one that is there already, as `spark-submit` has; so we start it, and it
takes ours.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import struct
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carnac.core.texts import properties_text
from carnac.errors import Unavailable
from carnac.ports.temporary import handle_of, own_folder
from carnac.spark.interrupts import Held

if TYPE_CHECKING:
    from pyspark import SparkConf

PORT_VARIABLE, SECRET_VARIABLE = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
"""Spark's: where a JVM that is there already listens, and the password to it."""
POLL_S = 0.05
START_POLLS_MAX = 12_000
"""So often a JVM that is not up is looked at, for ten minutes: one that cannot tell that it is up may live on."""
END_TIMEOUT_S = 10
TOLD_TO_END = frozenset(
    code for number in (signal.SIGTERM, signal.SIGHUP) for code in (-number, 128 + number)
)
"""Exit codes of a JVM that a signal ended: it says 143 itself where it hears SIGTERM."""
LAST_WORDS_S = 5
"""How long a JVM whose driver ends is waited for, if how it ends matters."""
SETTLED = ("/bin/sh", "-c", 'trap "" INT; exec nice -n "$0" "$@"')
"""Begins a command that gives way to others, by so much as follows, and does not hear Ctrl-C."""
_LENGTH = struct.Struct("!ii")  # the JVM's message: port, length of password, password

_environ = threading.Lock()


class JavaEnded(Unavailable):
    """The JVM ended before it was up."""

    def __init__(self, code: int) -> None:
        super().__init__(f"its Java ended with exit code {code}")
        self.code = code


def open_gateway(
    conf: SparkConf,
    log_path: Path,
    held: Held,
    *,
    niceness: int = 0,
    polls_max: int = START_POLLS_MAX,
) -> Any:
    """Start a JVM, if `spark-submit` has not, and return the way to it. The JVM ends when this process does.

    Args:
        log_path: File to which the output of the JVM is appended.
        held: A signal that arrives ends the JVM, before it is up.
        niceness: By how much the JVM, and processes that it starts, give way to other processes.
        polls_max: Number of looks at the JVM, every `POLL_S`, before it counts as one that does not start.

    Raises:
        Unavailable: The JVM does not start, or a signal has arrived.
    """
    from pyspark.java_gateway import launch_gateway

    if PORT_VARIABLE in os.environ:
        return launch_gateway(conf)  # type: ignore[no-untyped-call]
    own = own_folder("java")
    with tempfile.TemporaryDirectory(dir=own) as folder:
        told = Path(folder) / "gateway"
        command = _command(conf, Path(folder) / "settings")
        process = _start(command, told, log_path, niceness, handle_of(own))
        try:
            port, secret = _wait(process, told, held, polls_max)
            with _environ:
                os.environ |= {PORT_VARIABLE: str(port), SECRET_VARIABLE: secret}
                try:
                    gateway = launch_gateway(conf)  # type: ignore[no-untyped-call]
                finally:
                    del os.environ[PORT_VARIABLE], os.environ[SECRET_VARIABLE]
        except BaseException:
            _end(process)
            raise
    gateway.proc = process
    return gateway


def _command(conf: SparkConf, settings: Path) -> list[str]:
    """Return what starts the JVM; until it is up it needs a file of ours with the settings, secrets too."""
    from pyspark.find_spark_home import _find_spark_home

    settings.write_text(properties_text(dict(conf.getAll())), encoding="utf-8")
    options = ["--properties-file", str(settings), "--load-spark-defaults"]
    rest = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    return [str(Path(_find_spark_home()) / "bin" / "spark-submit"), *options, *rest]


def _start(
    command: list[str], told: Path, log_path: Path, niceness: int, folder: int
) -> subprocess.Popen[bytes]:
    """Start the JVM, which ends when its standard input does, and does not hear Ctrl-C.

    It looks at its standard input only once it is up, and lives for ever if it cannot tell that: so it has our folder
    while it lives, and nobody removes that in the meantime if we are killed.

    A shell settles the rest: Python's own code between fork and exec crashes in a thread of a process with many
    libraries.
    """
    environ = {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(told)}
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with log_path.open("ab") as log:
        return subprocess.Popen(  # noqa: S603 - Spark's own script
            [*SETTLED, str(niceness), *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**os.environ, **environ},
            pass_fds=(folder,),
        )


def _wait(
    process: subprocess.Popen[bytes], told: Path, held: Held, polls_max: int
) -> tuple[int, str]:
    """Return the port and the password once the JVM tells them."""
    polls = 0
    while not told.exists():
        if polls >= polls_max:
            raise Unavailable(f"its Java is not up after {polls_max * POLL_S:.0f} s")
        polls += 1
        if held.failure is not None:
            raise held.failure
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = process.wait(POLL_S)
            raise JavaEnded(code)
    text = told.read_bytes()
    port, length = _LENGTH.unpack_from(text)
    return port, text[_LENGTH.size : _LENGTH.size + length].decode()


def exit_code_of(
    process: subprocess.Popen[bytes] | None, timeout_s: float = LAST_WORDS_S
) -> int | None:
    """End a JVM that nobody needs any more, if it has not ended; return how it ended, or None if it does not soon."""
    if process is None:
        return None
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()  # the JVM ends when its input does
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(timeout_s)
    return None


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.communicate(timeout=END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
