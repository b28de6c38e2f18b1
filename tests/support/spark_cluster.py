"""A real standalone Spark cluster on this machine: one master, some workers, for as long as a `with` block.

Each is a JVM of its own, started with the `spark-class` of the pyspark wheel, listening on the loopback address on a
port that was free. Executors are further JVMs, which the workers start when an application asks for them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from carnac.errors import Unavailable
from carnac.spark.java import prepare_java

HOST = "127.0.0.1"
NETWORK = ("--host", HOST, "--port", "0", "--webui-port", "0")
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 10
POLL_S = 0.05
SHORT_LIVED = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For JVMs that live for seconds: optimizing costs them more than it saves."""
_MASTER_URL = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = re.compile(r"Successfully registered with master (\S+)")
_LOG_SETTINGS = """\
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1}: %m%n
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkCluster:
    """A running cluster.

    Attributes:
        master_url: URL for drivers: `spark://127.0.0.1:…`.
        work_dirs: Folders of the workers, in order; executors write below them.
        workers: Processes of the workers, in the same order.
    """

    master_url: str
    work_dirs: tuple[Path, ...]
    workers: tuple[subprocess.Popen[bytes], ...]


@contextlib.contextmanager
def run_spark_cluster(
    *, workers: int = 2, cores: int = 1, memory: str = "1g"
) -> Iterator[SparkCluster]:
    """Start a master and workers; stop them, and the executors they have started, at the end.

    Args:
        cores: Cores of each worker.
        memory: Memory of each worker for executors, as Spark writes it.

    Raises:
        Unavailable: There is no Java, or one of them does not start.
    """
    folder = Path(tempfile.mkdtemp(prefix="carnac-spark-"))
    daemons = Daemons(folder)
    try:
        master = daemons.start("org.apache.spark.deploy.master.Master", *NETWORK)
        url = wait_for(_MASTER_URL, master)
        work_dirs = tuple(folder / f"worker-{index}" for index in range(workers))
        options = (*NETWORK, "--cores", str(cores), "--memory", memory)
        started = [
            daemons.start(
                "org.apache.spark.deploy.worker.Worker", *options, "--work-dir", str(work_dir), url
            )
            for work_dir in work_dirs
        ]
        for worker in started:
            wait_for(_REGISTERED, worker)
        yield SparkCluster(
            master_url=url,
            work_dirs=work_dirs,
            workers=tuple(worker.process for worker in started),
        )
    finally:
        daemons.stop()
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A program of Spark that runs."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path


class Daemons:
    """Starts Spark's daemons, each in a session of its own, and stops them all."""

    def __init__(self, folder: Path, environ: Mapping[str, str] = MappingProxyType({})) -> None:
        spec = importlib.util.find_spec("pyspark")
        if spec is None or spec.origin is None:
            raise Unavailable("there is no Spark here: install pyspark")
        self._spark_class = Path(spec.origin).parent / "bin" / "spark-class"
        self._folder = folder
        self._started: list[Daemon] = []
        settings = folder / "log4j2.properties"
        settings.write_text(_LOG_SETTINGS, encoding="utf-8")
        self._environ = dict(os.environ)
        prepare_java(self._environ)
        self._environ |= {
            "SPARK_DAEMON_MEMORY": "192m",
            "SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile={settings} {SHORT_LIVED}",
            "SPARK_LAUNCHER_OPTS": SHORT_LIVED,
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            **environ,
        }

    def start(self, name: str, *arguments: str) -> Daemon:
        """Start the main class of that name."""
        log = self._folder / f"{len(self._started)}.log"
        command = [str(self._spark_class), name, *arguments]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environ,
                cwd=self._folder,
                start_new_session=True,
            )
        daemon = Daemon(name=name, process=process, log=log)
        self._started.append(daemon)
        return daemon

    def stop(self) -> None:
        """End the sessions of all daemons: executors are in those of their workers."""
        for daemon in reversed(self._started):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(daemon.process.pid, signal.SIGKILL)
            daemon.process.wait(STOP_TIMEOUT_S)


def wait_for(pattern: re.Pattern[str], daemon: Daemon) -> str:
    """Return what the first group of the pattern finds in the daemon's log."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        text = daemon.log.read_text(encoding="utf-8", errors="replace")
        if found := pattern.search(text):
            return found[1]
        if daemon.process.poll() is not None:
            break
        time.sleep(POLL_S)
    lines = daemon.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    last = lines[-1] if lines else "it said nothing"
    raise Unavailable(f"Spark's {daemon.name} does not start: {last}")
