"""What child processes of the lock tests do. They come from a fork server, with nothing but their arguments."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from typing import Any

from carnac.clock import RandomIds, SystemClock
from carnac.core.locks.events import RequestLock
from carnac.core.locks.model import Lock
from carnac.errors import Revoked
from carnac.metadata import open_metadata
from carnac.overlord import Lockbox
from carnac.ports import Clock
from tests.integration.metadata_children import KILLED_NOWHERE, kill_before
from tests.locks import hours, wants
from tests.logs import append_of, day, segment
from tests.support.clock import FakeClock, SequentialIds

SHORT_LEASE_MS = 700
LONG_LEASE_MS = 600_000
REFUSED = 21
"""Exit code of a child whose publish was refused because its lock was gone."""
PUBLISHED = 22


def lockbox_of(url: str, clock: Clock) -> tuple[Any, Lockbox]:
    store = open_metadata(url, clock=clock, ids=RandomIds())
    return store, Lockbox(store, clock, holder=f"process {os.getpid()}", lease_ms=SHORT_LEASE_MS)


def whole_day(task: str) -> RequestLock:
    return wants(task, hours(0, 24), timeout_ms=20_000)


def acquire(box: Lockbox, task: str) -> Lock:
    return box.acquire(replace(whole_day(task), lease_ms=SHORT_LEASE_MS))


def hold_and_publish(url: str, tell: Any, go_on: Any, step: str) -> None:
    """Take the lock; tell so; wait at a step for a word; publish under the lock. All in no time: its clock stands."""

    def stop_at(name: str) -> None:
        if name == step:
            tell.put(os.getpid())
            go_on.get()

    store, box = lockbox_of(url, FakeClock())
    if step == "waiting":
        box.acquire(replace(whole_day("first"), lease_ms=LONG_LEASE_MS))
        box.request(replace(whole_day("child"), lease_ms=SHORT_LEASE_MS))
        stop_at("waiting")
    try:
        lock = acquire(box, "child")
        stop_at("held")
        with box.publishing([lock]) as fences:
            stop_at("publishing")
            store.publish(replace(append_of(segment("late", day(1))), requirements=fences))
            stop_at("published")
    except Revoked:
        sys.exit(REFUSED)
    sys.exit(PUBLISHED)


def change_and_die(url: str, statement: int, tell: Any) -> None:
    """Preempt a lock, which revokes one and grants another, killed before the n-th statement; tell the verb of each."""
    store = open_metadata(url, clock=FakeClock(), ids=SequentialIds())
    store.close()
    kill = kill_before(statement)

    def on_statement(text: str) -> None:
        tell.put(text.split(maxsplit=1)[0].upper())
        kill(text)

    store = open_metadata(url, clock=FakeClock(), ids=SequentialIds(), on_statement=on_statement)
    store.change_locks(wants("high", hours(0, 24), priority=90))
    sys.exit(KILLED_NOWHERE)


def take_turns(url: str, task: str, count: int, tell: Any) -> None:
    """Take one lock again and again; tell each time who has it, twice, with nobody between."""
    _, box = lockbox_of(url, SystemClock())
    for _ in range(count):
        lock = box.acquire(wants(task, hours(3), timeout_ms=60_000))
        tell.put((lock.fence, task))
        tell.put((lock.fence, task))
        box.release(task)


def stop_child(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)


def wake_child(pid: int) -> None:
    os.kill(pid, signal.SIGCONT)
