"""The one Spark session: started lazily, quiet, with the Java that was found.

The JVM's standard output and error go to a log file, so that nothing of it reaches the terminal.
A session that the caller's program has already made (a notebook) is used as it is and is not
stopped here.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Event, RLock
from typing import TYPE_CHECKING

from carnac.core.redaction import hide_secrets, show_url
from carnac.core.texts import first_line
from carnac.errors import CarnacError, Unavailable
from carnac.spark import startup
from carnac.spark.class_archive import use_archive
from carnac.spark.connect import connect
from carnac.spark.extensions import take_no_numpy, without_machine_learning
from carnac.spark.interrupts import Held, hold_signals
from carnac.spark.java import COMPILES_LATE, prepare_java, with_option
from carnac.spark.jvm import TOLD_TO_END, JavaEnded, exit_code_of, open_gateway
from carnac.spark.startup import (
    STARTING,
    require_master,
    size_of_log,
    told_if_slow,
    why_it_does_not_start,
)

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    from carnac.spark.java import JavaRuntime

LOCAL_TASK_FAILURES = 3
"""How often a task is tried in local mode, where Spark's own default is once."""

_PACKAGE = Path(__file__).parents[1]
"""Where carnac itself is."""
SCRATCH = "carnac-"
"""The prefix of temporary folders' names; the id of their job follows."""

GONE_S = 5
"""So long a JVM that does not answer may take to end."""

CANCELLED_LOOKS = 100
"""So often tasks that were cancelled may be seen to run on."""
BUSY_S = 0.1
"""Between two looks."""

_log = logging.getLogger(__name__)
_CODE = re.compile(r"^\[[A-Z0-9_.]+\]\s*|\s*SQLSTATE: \w+.*$", re.DOTALL)
"""The codes that Spark puts around its sentences."""
_LOCAL_MASTER = re.compile(r"local(?:\[(\*|\d+)(?:,(\d+))?\])?")
_DEFAULTS = {
    "spark.app.name": "carnac",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}
_LOCAL_DEFAULTS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.python.daemon.module": "carnac.jobs.worker_daemon",
    "spark.executorEnv.PYTHONPATH": str(_PACKAGE.parent),
}


_KEPT_LOGS: set[Path] = set()
"""Temporary logs that a message has named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """The Spark to use.

    Attributes:
        master: As Spark takes it: `local[*]`, `spark://…`, `yarn`, `k8s://…`.
        remote: A Spark Connect URL (`sc://…`); goes before `master`.
        config: Spark's own settings; they go before ours.
        log_path: File that the JVM's output is appended to; None: one in the user's cache directory, removed when
            the process ends, unless a failure named it.
        niceness: By how much the JVM of a driver, and the Python workers of a local one, give way to other processes.
        is_for_users: Users' own code may use the session, and all that Spark can; else only Carnac's jobs do.
    """

    master: str = "local[*]"
    remote: str | None = field(default=None, repr=False)
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    log_path: Path | None = None
    niceness: int = 0
    is_for_users: bool = True


def local_master(master: str) -> str | None:
    """Return a local master with retries switched on (`local[2]` → `local[2,3]`); None if not local."""
    match = _LOCAL_MASTER.fullmatch(master)
    if match is None:
        return None
    return f"local[{match[1] or 1},{match[2] or LOCAL_TASK_FAILURES}]"


class SparkHolder:
    """Starts the session when it is first asked for, and stops what it started.

    Safe for use by many threads.

    Args:
        tell: Takes a line when a start takes long; None: nobody is notified.
    """

    def __init__(
        self, settings: SparkSettings, *, tell: Callable[[str], None] | None = None
    ) -> None:
        self.settings = settings
        self._tell = tell
        self._lock = RLock()
        self._session: SparkSession | None = None
        self._is_ours = self._is_ending = False
        self._shipped = contextlib.ExitStack()
        self._jobs: set[str] = set()
        self._is_closing = Event()
        self.jvms_ended = 0
        """JVMs that were ended because a statement that was stopped went on in them."""

    @cached_property
    def log_path(self) -> Path:
        """Where the JVM's output goes."""
        return self.settings.log_path or make_log(os.environ, os.getpid())

    def keep_log(self) -> str:
        """Return where the JVM's output goes, for a message about a failure: a file stays when the process ends."""
        if not self._is_ours:
            return "where its session was started"
        if self.settings.remote:
            return f"at its server, {show_url(self.settings.remote)}"
        _KEPT_LOGS.add(self.log_path)
        return str(self.log_path)

    def scratch(self, job_id: str) -> str:
        """Return a temporary folder, not made yet, for tasks of a job, which remove it themselves.

        Files on this machine of tasks that were killed are removed when Spark stops, as the tasks may live until then.
        """
        self._jobs.add(job_id)
        return str(Path(tempfile.gettempdir()) / f"{SCRATCH}{job_id}")

    def session(self) -> SparkSession:
        """Return the session; starts Spark if this is the first call.

        Raises:
            Unavailable: There is no Java, or Spark does not start or answer.
        """
        with self._lock, hold_signals(self.end_jvm) as held:
            if self._session is not None and _is_stopped(self._session):
                self._session = None
            if self._session is None:
                self._session = self._obtain(held)
            return self._session

    def adopt(self, session: SparkSession) -> None:
        """Use the session of a DataFrame that the caller handed over, if none is in use; it is not stopped here."""
        with self._lock, hold_signals(self.end_jvm):
            if self._session is None or _is_stopped(self._session):
                self._session, self._is_ours = session, False

    def close(self) -> None:
        """Stop Spark if it was started here. Idempotent."""
        self._is_closing.set()
        with self._lock, hold_signals(self.end_jvm):
            self._is_closing.clear()
            session, self._session = self._session, None
            if session is not None and self._is_ours and not _is_stopped(session):
                _stop(session)
            self._shipped.close()
            self._remove_scratch()

    def _remove_scratch(self) -> None:
        names = tuple(f"{SCRATCH}{job_id}" for job_id in self._jobs)
        for folder in Path(tempfile.gettempdir()).glob(f"{SCRATCH}*") if names else ():
            if folder.name.startswith(names):
                shutil.rmtree(folder, ignore_errors=True)
        self._jobs.clear()

    def end_jvm(self) -> bool:
        """Ask a JVM that was started here to end, whatever it does; return whether there was one to ask.

        For callers that do not want to wait for its answer.
        """
        process = _jvm()
        if not self._is_ours or self._is_ending or process is None or process.poll() is not None:
            return False
        self._is_ending = True
        process.terminate()
        return True

    def wait_for_cores(self, is_busy: Callable[[], bool]) -> None:
        """Wait until tasks that were cancelled have ended; if they do not, end the JVM, which was started here.

        A task of Spark ends where it looks whether it should, and a join of all with all never looks. Nobody gets the
        session meanwhile. Jobs that run beside the task fail if the JVM ends.
        """
        with self._lock, hold_signals(self.end_jvm):
            for _ in range(CANCELLED_LOOKS):
                if not is_busy() or self._is_closing.wait(BUSY_S):
                    return
            process = _jvm()
            if process is None or not self._is_ours:
                _log.warning("the cancelled job runs on in a Spark that was not started here")
                return
            self.jvms_ended += 1  # before it ends: a job that fails of that looks here
            self.end_jvm()
            _log.warning("Spark starts anew: what was cancelled ran on")
            try:
                process.wait(GONE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @staticmethod
    def _remove_log(path: Path) -> None:
        """Remove the log when the process ends; the JVM may write on into a file without a name.

        One that a message has named stays, unless a signal ended the JVM, as when a whole process group is told to end:
        it says nothing of a failure then, and the message reached nobody.
        """
        if path not in _KEPT_LOGS or exit_code_of(_jvm()) in TOLD_TO_END:
            path.unlink(missing_ok=True)

    def _obtain(self, held: Held) -> SparkSession:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        _forget_ended_jvm()
        active = SparkSession.getActiveSession()
        if active is None and SparkContext._active_spark_context is not None:  # noqa: SLF001
            active = SparkSession.builder.getOrCreate()  # started in another thread
        if active is not None and not _is_stopped(active):
            self._is_ours = False
            return active
        self._is_ours, self._is_ending = True, False
        # Carnac itself says in one sentence why an expression is wrong.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        if self.settings.remote:
            return self._connect(self.settings.remote)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        java = prepare_java()
        with told_if_slow(self._tell, STARTING, after_s=startup.SLOW_S):
            return self._start(java, held)

    def _connect(self, url: str) -> SparkSession:
        try:
            session = connect(url, self.settings.config)
            with _package_archive() as archive:
                session.addArtifacts(str(archive), pyfile=True)
        except CarnacError:
            raise
        except Exception as error:
            raise Unavailable(
                f"Spark Connect at {show_url(url)} does not answer: {hide_secrets(first_line(error), url)}",
                url=show_url(url),
            ) from error
        return session

    def _start(self, java: JavaRuntime, held: Held) -> SparkSession:
        from pyspark.sql import SparkSession

        local = local_master(self.settings.master)
        require_master(self.settings.master)
        log_begins_at = size_of_log(self.log_path)
        try:
            if self.settings.log_path is None:
                atexit.register(self._remove_log, self.log_path)
            atexit.register(self._remove_scratch)  # of a process that ends without closing
            context = self._start_context(self._config(local, java), held)
            alone = (
                contextlib.nullcontext()
                if self.settings.is_for_users
                else without_machine_learning(context)
            )
            with alone:
                session = SparkSession(context)
            if local is None:
                context.addPyFile(str(self._ship()))
        except Exception as error:
            _forget_jvm()
            if held.failure:
                raise held.failure from error
            if isinstance(error, JavaEnded) and error.code in TOLD_TO_END:
                raise Unavailable("Spark was told to end while it started; run it again") from error
            reason = why_it_does_not_start(error, self.log_path, log_begins_at)
            raise Unavailable(
                f"Spark does not start with master {self.settings.master}: {reason};"
                f" its log is {self.keep_log()}",
                master=self.settings.master,
            ) from error
        return session

    def _start_context(self, config: Mapping[str, str], held: Held) -> SparkContext:
        from pyspark import SparkConf, SparkContext

        conf = SparkConf(loadDefaults=False)
        for key, value in config.items():
            conf.set(key, value)
        gateway = None
        if SparkContext._gateway is None:  # noqa: SLF001 - the JVM of an earlier session is used again
            gateway = open_gateway(conf, self.log_path, held, niceness=self.settings.niceness)
            if not self.settings.is_for_users:
                take_no_numpy(gateway)
        return SparkContext(conf=_with_defaults(conf), gateway=gateway)

    def _ship(self) -> Path:
        """Return the package for executors on other machines; they fetch it when they start: it stays till the end."""
        archive = self._shipped.enter_context(_package_archive())
        atexit.register(self._shipped.close)  # a process that fails to close leaves nothing
        return archive

    def _config(self, local: str | None, java: JavaRuntime) -> dict[str, str]:
        config = dict(_DEFAULTS)
        if local is not None:
            config.update(_LOCAL_DEFAULTS)
            if not self.settings.is_for_users:
                config["spark.python.daemon.module"] = "carnac.jobs.own_worker_daemon"
        config["spark.master"] = local or self.settings.master
        config.update(self.settings.config)
        if local is None:
            return config
        return use_archive(with_option(config, COMPILES_LATE), java, os.environ)


def _jvm() -> subprocess.Popen[bytes] | None:
    """Return the process of the JVM that was started here, if one was."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway  # noqa: SLF001 - pyspark has no public word for it
    return None if gateway is None else vars(gateway).get("proc")


def _forget_ended_jvm() -> None:
    """Let PySpark start another JVM where the one that it knows has ended by itself, as for want of memory."""
    from pyspark import SparkContext

    process, context = _jvm(), SparkContext._active_spark_context  # noqa: SLF001
    if process is None:
        return
    if context is not None and context._jsc is not None:  # noqa: SLF001
        try:
            context._jsc.sc().isStopped()  # noqa: SLF001
        except Exception:  # it does not answer: it is ending
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=GONE_S)
    if process.poll() is not None:
        _forget_jvm()


def _forget_jvm() -> None:
    """Let PySpark start another JVM; the one that it knows ends, if it was started here.

    PySpark sends even new settings to the JVM that it knows, so one that ended while Spark started is forgotten as a
    whole: else nothing starts in this process any more.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    process = _jvm()
    if process is not None and process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()  # the JVM ends when its input does
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - pyspark has no public word for it
    SparkContext._active_spark_context = None  # noqa: SLF001
    SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001


def reason_of(error: BaseException) -> str:
    """Return the first line of what Spark says, without its codes and its full stop."""
    return _CODE.sub("", _CODE.sub("", first_line(error))).strip().rstrip(".")


def _with_defaults(conf: SparkConf) -> SparkConf:
    """Return the settings over what the JVM was started with, read now that there is a JVM."""
    from pyspark import SparkConf

    whole = SparkConf()
    for key, value in conf.getAll():
        whole.set(key, value)
    return whole


def own_session(session: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Return a new session over the same context, with settings of its own."""
    own = session.newSession()
    for key, value in settings.items():
        own.conf.set(key, value)
    return own


def end_session(session: SparkSession) -> None:
    """End a session of `own_session`: one of Spark Connect has a connection, which keeps a process from ending."""
    if hasattr(session, "is_stopped"):
        with contextlib.suppress(Exception):
            session.stop()


def _is_stopped(session: SparkSession) -> bool:
    """Whether the session is of no use any more; a Connect session tells by itself."""
    if hasattr(session, "is_stopped"):
        return bool(session.is_stopped)
    context = session.sparkContext
    if context._jsc is None:  # noqa: SLF001 - pyspark has no public word for it
        return True
    try:
        return bool(context._jsc.sc().isStopped())  # noqa: SLF001
    except Exception:
        return True  # the JVM is gone


def _stop(session: SparkSession) -> None:
    try:
        session.stop()
    except Exception:
        if not _is_stopped(session):  # else its JVM ended meanwhile
            raise


@contextlib.contextmanager
def _package_archive() -> Iterator[Path]:
    """Yield a zip of the carnac package for executors on other machines."""
    with tempfile.TemporaryDirectory(prefix="carnac-") as folder:
        archive = Path(folder) / "carnac.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as bundle:
            for path in sorted(_PACKAGE.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    bundle.write(path, Path("carnac") / path.relative_to(_PACKAGE))
        yield archive


LOGS_MAX = 20
"""Logs that are kept because a message named them."""
NAME = "spark-{}.log"


def make_log(environ: Mapping[str, str], pid: int) -> Path:
    """Return where the JVM of a process is to write; the folder is there, and old logs in it are gone.

    It is below `XDG_CACHE_HOME`, else `.cache` in the home directory; where that cannot be written, a new folder among
    the temporary ones.
    """
    caches = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or "~") / ".cache")
    folder = caches.expanduser() / "carnac" / "logs"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_ours = os.access(folder, os.W_OK | os.X_OK) and folder.stat().st_uid == os.geteuid()
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        is_ours = False
    if not is_ours:
        return Path(tempfile.mkdtemp(prefix="carnac-log-")) / NAME.format(pid)
    _keep_newest(folder)
    return folder / NAME.format(pid)


def _keep_newest(folder: Path) -> None:
    ages: list[tuple[float, Path]] = []
    for path in folder.glob(NAME.format("*")):
        with contextlib.suppress(OSError):  # somebody else has removed it
            ages.append((path.stat().st_mtime, path))
    for _, path in sorted(ages)[: max(0, len(ages) - LOGS_MAX + 1)]:
        with contextlib.suppress(OSError):
            path.unlink()
