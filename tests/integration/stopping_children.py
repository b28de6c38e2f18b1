"""A child process that is stopped inside a transaction. Started as a program of its own: nothing is inherited."""

from __future__ import annotations

import os
import signal
import sys

from carnac.clock import RandomIds, SystemClock
from carnac.errors import CarnacError
from carnac.metadata import open_metadata
from tests.logs import append_of, day, segment

UNAVAILABLE = 23
"""Exit code of a child whose transaction was given up while it was stopped."""


def publish_and_stop(url: str, *, patience_ms: int) -> None:
    """Publish one segment; stop before the commit, until somebody wakes us."""

    commits: list[str] = []

    def stop(text: str) -> None:
        if text == "COMMIT" and not commits:  # the next one may be for others
            commits.append(text)
            os.kill(os.getpid(), signal.SIGSTOP)

    store = open_metadata(
        url, clock=SystemClock(), ids=RandomIds(), patience_ms=patience_ms, on_statement=stop
    )
    try:
        store.publish(append_of(segment("stopped", day(1))))
    except CarnacError:
        sys.exit(UNAVAILABLE)
    store.close()


if __name__ == "__main__":
    publish_and_stop(sys.argv[1], patience_ms=int(sys.argv[2]))
