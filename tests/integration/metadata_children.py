"""What child processes of the metadata tests do. They come from a fork server, with nothing but their arguments."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection

from carnac.clock import RandomIds, SystemClock
from carnac.core.log.commits import Change, CommitKind, LookupChange, Publication
from carnac.metadata import open_metadata
from carnac.metadata.store import MetadataStore
from carnac.ports import LeaseKind
from tests.logs import append, append_of, day, replacement, segment
from tests.support.clock import FakeClock, SequentialIds
from tests.waiting import until

TOGETHER = 6
KILLED_NOWHERE = 17
"""Exit code of a child that came to the end before the statement that should have killed it."""


def kill_before(number: int) -> Callable[[str], None]:
    """Return a hook that kills this process, as a power cut would, before its n-th statement from now."""
    left = number

    def hook(_text: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return hook


def write_base(store: MetadataStore) -> None:
    """Three commits for the big one to change."""
    append(store, segment("a", day(1)), segment("b", day(2)))
    append(store, segment("c", day(1)))
    lookup = LookupChange(name="codes", mapping={"1": "one"})
    store.publish(Publication(kind=CommitKind.LOOKUP, lookups=(lookup,)))
    store.acquire_lease(LeaseKind.WRITER, holder="child", ttl_ms=1000)


def big_publication(store: MetadataStore) -> Publication:
    """One that touches every table: two datasources, drops, carving, a new schema, a lookup, a batch, a lease."""
    change = replacement(
        store,
        "2013-01-01T12/2013-01-02T12",
        segment("d", "2013-01-01T12/2013-01-02", chunk="2013-01-01T12/2013-01-02"),
    )
    other = Change(datasource="others", adds=(segment("o", day(5), datasource="others"),))
    (lease,) = store.leases()
    return replace(
        change,
        changes=(*change.changes, other),
        lookups=(LookupChange(name="codes", mapping={"1": "uno"}),),
        writer="w",
        batch="1",
        lease_id=lease.lease_id,
    )


def replay() -> Publication:
    """The big one's batch, published again by somebody who does not know that it is there."""
    return replace(append_of(segment("again", day(7))), writer="w", batch="1")


def publish_and_die(url: str, statement: int) -> None:
    """Publish the big one, killed before the n-th statement of its transaction."""
    clock = FakeClock()
    store = open_metadata(url, clock=clock, ids=SequentialIds())
    publication = big_publication(store)
    store.close()
    store = open_metadata(
        url, clock=clock, ids=SequentialIds(), on_statement=kill_before(statement)
    )
    store.publish(publication)
    sys.exit(KILLED_NOWHERE)


def publish_together_and_die(url: str, statement: int, told: Connection) -> None:
    """Have threads append at once, killed before the n-th statement; write down the appends that are done.

    The first has a transaction of its own, and the others share the next, so that each child runs the same statements.
    """
    kill, telling = kill_before(statement), threading.Lock()
    is_begun, are_all_asked = threading.Event(), threading.Event()

    def hook(text: str) -> None:
        is_begun.set()
        are_all_asked.wait()
        kill(text)

    store = open_metadata(url, clock=SystemClock(), ids=RandomIds(), on_statement=hook)

    def append_one(number: int) -> None:
        one = append_of(segment(f"w{statement}x{number}", day(1 + number % 2)))
        published = store.publish(replace(one, writer=f"w{statement}", batch=str(number)))
        with telling:
            told.send((number, published.revision))

    threads = [threading.Thread(target=append_one, args=[n]) for n in range(TOGETHER)]
    for number, thread in enumerate(threads):
        thread.start()
        is_begun.wait()
        until(lambda n=number: len(store._queue._waiting) >= n, "its place in the queue")
    are_all_asked.set()
    for thread in threads:
        thread.join()
    store.close()
    os._exit(KILLED_NOWHERE)


def append_many(url: str, writer: str, count: int) -> None:
    """Append one segment after the other to one datasource; a batch number each."""
    store = open_metadata(url, clock=SystemClock(), ids=RandomIds())
    for number in range(count):
        one = append_of(segment(f"{writer}x{number}", day(1 + number % 3)))
        published = store.publish(replace(one, writer=writer, batch=str(number)))
        assert not published.is_replay
        assert store.publish(replace(one, writer=writer, batch=str(number))).is_replay
    store.close()


def open_once(url: str) -> None:
    """Open, which creates the store if this process is the first."""
    store = open_metadata(url, clock=SystemClock(), ids=RandomIds())
    assert store.head().revision == 0
    store.close()
