"""Failures on their way from a Spark task to the caller: same type, same sentence.

Spark turns an exception in a Python worker into a Java exception with a traceback as text. So a task that fails for a
reason that a retry cannot mend *returns* its failure. A task that a retry may mend raises `TaskFailure`, whose text
holds the failure in a form that the driver finds again in any text that Spark wraps around it.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable

from carnac.core.texts import first_line
from carnac.errors import (
    CarnacError,
    Conflict,
    Corrupt,
    DiskFull,
    Invalid,
    InvariantError,
    NotFound,
    Revoked,
    Unavailable,
)
from carnac.ports.far_files import is_of_client
from carnac.rows.normalise.coerce import SeveralValues
from carnac.rows.output import MAKE_ROOM, NO_SPACE, NO_TEMPORARY_ROOM
from carnac.spark.interrupts import interruption_behind

_KINDS: dict[str, type[CarnacError]] = {
    kind.kind: kind
    for kind in (Conflict, Unavailable, Invalid, NotFound, Revoked, Corrupt, InvariantError)
}
_DISK_FULL = "disk full"
_KINDS[_DISK_FULL] = DiskFull
_SEVERAL = "several values"
_MARKED = re.compile(r"<carnac-failure>(.*?)</carnac-failure>", re.DOTALL)
_WORKER_DIED = re.compile(
    r"Python worker exited unexpectedly|ExecutorLostFailure|Lost executor|UnresponsiveWorker|"
    r"Python worker failed to connect back"
)
_OUT_OF_MEMORY = re.compile(
    r"java\.lang\.OutOfMemoryError|MemoryError|Out of Memory Error|exit code 137|SIGKILL"
)
_JVM_GONE = re.compile(
    r"Py4JNetworkError|Connection refused|Answer from Java side is empty|"
    r"Cannot call methods on a stopped SparkContext|SparkContext was shut down|RETRIES_EXCEEDED|"
    r"StatusCode\.UNAVAILABLE|INVALID_HANDLE\.SESSION"
)
_NO_SPACE_LEFT = re.compile(r"No space left on device|Disk quota exceeded|File too large")
_OTHER_PYTHON = "No module named 'carnac'"
_CANCELLED = re.compile(r"cancelled|OPERATION_CANCELED", re.IGNORECASE)
_CAUSED_BY = re.compile(r"^(?:Caused by: )?([\w.]*(?:Error|Exception)): (.+)$", re.MULTILINE)


class TaskFailure(RuntimeError):
    """A failure of a task that Spark may try again."""

    def __init__(self, failure: CarnacError) -> None:
        super().__init__(f"<carnac-failure>{dump_failure(failure)}</carnac-failure>")


def dump_failure(failure: CarnacError) -> str:
    """Return the failure as one line of JSON."""
    if isinstance(failure, SeveralValues):
        return json.dumps({"kind": _SEVERAL, "columns": failure.columns})
    ids = {key: value if _is_plain(value) else str(value) for key, value in failure.ids.items()}
    kind = _DISK_FULL if isinstance(failure, DiskFull) else failure.kind
    return json.dumps({"kind": kind, "message": failure.message, "ids": ids})


def load_failure(text: str) -> CarnacError:
    """Return the failure that `dump_failure` wrote."""
    value = json.loads(text)
    if value["kind"] == _SEVERAL:
        return SeveralValues(value["columns"])
    failure = _KINDS.get(value["kind"], CarnacError)(value["message"])
    failure.ids = value["ids"]
    return failure


def may_retry(failure: CarnacError) -> bool:
    """Whether Spark should try the task again at once; that helps nobody while deep storage has no room."""
    return failure.retryable and not isinstance(failure, DiskFull)


def of_task(error: Exception) -> CarnacError:
    """Say in one sentence what went wrong inside a task."""
    if isinstance(error, CarnacError):
        return error
    if isinstance(error, MemoryError):
        return Unavailable("a task ran out of memory; give it fewer cores or more memory")
    if isinstance(error, OSError):
        return _of_os_error(error)
    if is_of_client(error):
        return Unavailable(f"an object store does not answer: {first_line(error)}")
    return InvariantError(
        f"a task failed in a way that it should not have: {type(error).__name__}: {first_line(error)}"
    )


def of_spark(error: Exception, keep_log: Callable[[], str]) -> CarnacError:
    """Say in one sentence why a Spark job failed; a failure of ours comes back as it was.

    Args:
        keep_log: Keeps Spark's log for readers of the sentence and returns where it is; called only if that names it.

    Raises:
        KeyboardInterrupt: It failed of that.
    """
    if isinstance(error, CarnacError):
        return error
    if interruption := interruption_behind(error):
        raise interruption from None
    text = f"{type(error).__name__}: {error}"
    marked = _MARKED.search(text)
    if marked is not None:
        return load_failure(marked[1].replace("\\\n", ""))
    if _JVM_GONE.search(text):
        return Unavailable(f"Spark has stopped while the job ran; its log is {keep_log()}")
    if _OTHER_PYTHON in text:
        return Invalid(
            "the Python in which Spark runs tasks has no carnac; install it there, or start the session with"
            " PYSPARK_PYTHON naming one that has it, such as sys.executable"
        )
    if _OUT_OF_MEMORY.search(text):
        return Unavailable(
            f"Spark ran out of memory; use fewer cores or more memory; its log is {keep_log()}"
        )
    if _WORKER_DIED.search(text):
        return Unavailable(
            "a Python worker of Spark died again and again, often for lack of memory;"
            f" use fewer cores or more memory; Spark's log is {keep_log()}"
        )
    if _NO_SPACE_LEFT.search(text):
        return Unavailable(
            "a disk that Spark writes to is full, that of its temporary folder (spark.local.dir) most likely;"
            f" {MAKE_ROOM}; Spark's log is {keep_log()}"
        )
    if _CANCELLED.search(text):
        return Unavailable("the Spark job was cancelled")
    causes = _CAUSED_BY.findall(text)
    cause = f"{causes[-1][0].rsplit('.', 1)[-1]}: {causes[-1][1]}" if causes else first_line(error)
    return Unavailable(f"the Spark job failed: {cause}; Spark's log is {keep_log()}")


def _of_os_error(error: OSError) -> CarnacError:
    where = f" ({error.filename})" if error.filename else ""
    if error.errno in NO_SPACE:
        if not error.filename:
            # Arrow does not say which file: what is not caught elsewhere is a temporary one
            return Unavailable(NO_TEMPORARY_ROOM.format(tempfile.gettempdir()))
        return Unavailable(f"the disk is full{where}; {MAKE_ROOM}")
    if isinstance(error, FileNotFoundError):
        return NotFound(f"file {error.filename or first_line(error)} does not exist")
    if isinstance(error, PermissionError):
        return Unavailable(f"permission denied{where}")
    return Unavailable(f"reading or writing failed{where}: {error.strerror or first_line(error)}")


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)
