"""Callers that come while a transaction is made, and so share the next one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

from carnac.metadata.session import Session
from carnac.metadata.store import MetadataStore
from tests.waiting import until

T = TypeVar("T")


def called_behind(
    store: MetadataStore,
    calls: Sequence[Callable[[], T]],
    *,
    before: Callable[[], object] = lambda: None,
) -> list[Future[T]]:
    """Have each made by a thread of its own, in order, behind a transaction; return what came of them.

    Args:
        before: Called when all of them wait.
    """
    has_begun, may_end = threading.Event(), threading.Event()

    def hold(_session: Session) -> None:
        has_begun.set()
        assert may_end.wait(60)

    with ThreadPoolExecutor(len(calls) + 1) as threads:
        held = threads.submit(store._queue.submit, hold)
        assert has_begun.wait(60)
        found = []
        for number, call in enumerate(calls, start=1):
            found.append(threads.submit(call))
            until(
                lambda number=number: len(store._queue._waiting) == number, "a job", period_s=0.001
            )
        before()
        may_end.set()
        held.result(60)
        wait(found, 60)
    return found
