"""The reason why Spark does not start: the one line that says it, out of what Java prints."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from carnac.core.texts import first_line
from carnac.errors import Unavailable

STARTING = "starting Spark"
SLOW_S = 1.0
"""A start that takes longer is reported, as somebody waits and sees nothing."""
REACH_TIMEOUT_S = 10
LOG_READ_MAX_BYTES = 1 << 20

_CODE = re.compile(r"\[[A-Z_.]+\] ")
_MASTERS = re.compile(r"spark://(.+)")
_CAUSE = re.compile(
    r"^(?:: |Caused by: )[\w.$]+: (?!Cannot call methods on a stopped)(.+)$", re.MULTILINE
)
_SAID = re.compile(
    r"""^(?:Exception\ in\ thread\ "main"\ [\w.$]+:\ |\S+\ \S+\ ERROR\ (?!SparkContext:\ Error\ init)[\w.$]+:\ """
    r"""|Error\ occurred\ during\ initialization\ of\ VM\n|(?=Invalid\ \w+\ heap\ size)|Error:\ """
    r"""|\S+:\ line\ \d+:\ )(.+)$""",
    re.MULTILINE | re.VERBOSE,
)


def require_master(master: str) -> None:
    """Refuse a standalone master that nobody listens at; Spark itself would go on trying for a minute.

    Raises:
        Unavailable: None of the addresses answers.
    """
    match = _MASTERS.fullmatch(master)
    if match is None:
        return
    reasons = []
    for address in match[1].split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), REACH_TIMEOUT_S).close()
        except ValueError:
            return  # no address: Spark says so itself
        except OSError as error:
            reasons.append(error.strerror or str(error))
        else:
            return
    raise Unavailable(f"Spark's master at {master} does not answer: {reasons[0]}", master=master)


@contextmanager
def told_if_slow(
    tell: Callable[[str], None] | None, text: str, *, after_s: float
) -> Iterator[threading.Event]:
    """Report a text if the block takes longer than that; give an event that is set after the report.

    Args:
        tell: Takes the text, in a thread of its own; None: nothing is reported.
    """
    told = threading.Event()
    if tell is None:
        yield told
        return
    lock, is_over = threading.Lock(), threading.Event()

    def say() -> None:
        with lock:
            if not is_over.is_set():
                tell(text)
                told.set()

    timer = threading.Timer(after_s, say)
    timer.daemon = True
    timer.start()
    try:
        yield told
    finally:
        timer.cancel()
        with lock:
            is_over.set()


def size_of_log(path: Path) -> int:
    """Return where what Java prints from now on begins."""
    return path.stat().st_size if path.exists() else 0


def why_it_does_not_start(error: BaseException, log: Path, begins_at: int) -> str:
    """Return what the error says of its cause, else what Java printed, else the error's first line."""
    if causes := _CAUSE.findall(str(error)):
        return _sentence(causes[-1])
    if size_of_log(log) > begins_at:
        with log.open("rb") as lines:
            lines.seek(begins_at)
            text = lines.read(LOG_READ_MAX_BYTES).decode(errors="replace")
        if said := _SAID.search(text):
            return _sentence(said[1])
    return _sentence(first_line(error))


def _sentence(text: str) -> str:
    return _CODE.sub("", text.strip()).removesuffix(".")
