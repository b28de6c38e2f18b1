"""Threads that are used again, and what is stopped because it takes too long."""

from __future__ import annotations

import subprocess
import sys
import threading
import weakref

from carnac.ports.threads import DaemonThreads, stopped_after
from tests.waiting import until


def test_threads_are_used_again_and_as_many_as_there_is_to_do() -> None:
    threads = DaemonThreads("test")
    seen: list[int] = []
    goes_on, both = threading.Event(), threading.Barrier(3)

    def work() -> None:
        seen.append(threading.get_ident())
        both.wait()
        goes_on.wait()

    for _ in range(2):
        threads.run(work)
    both.wait()  # two at a time, though none was there
    goes_on.set()
    until(lambda: threads.free == 2, "both to be free")
    done = threading.Event()

    def last() -> None:
        seen.append(threading.get_ident())
        done.set()

    threads.run(last)
    assert done.wait(10)
    assert len(set(seen)) == 2


def test_what_an_asker_gave_up_is_waited_for_and_its_thread_used_again() -> None:
    threads, begun, goes_on = DaemonThreads("test"), threading.Event(), threading.Event()
    ended: list[int] = []

    def do() -> None:
        begun.set()
        goes_on.wait(30)
        ended.append(1)

    future = threads.submit(do)
    assert begun.wait(30)
    assert not future.cancel(), "it runs"
    goes_on.set()
    threads.wait()
    assert ended == [1]
    assert threads.submit(lambda: 2).result(30) == 2


def test_a_thread_that_waits_holds_nothing_of_what_it_has_done() -> None:
    threads = DaemonThreads("test")
    for _ in range(2):  # the first one, and one that is used again
        held = threading.Event()
        gone = weakref.ref(held)
        threads.submit(held.set).result(30)
        del held
        until(lambda: gone() is None, "what was done to be let go")  # noqa: B023 - before the next one
        until(lambda: threads.free == 1, "the one thread to be free")


FORKED = """
import os
from carnac.ports.threads import DaemonThreads

threads = DaemonThreads("test")
threads.submit(int).result(30)
while not threads.free:
    pass
child = os.fork()
if not child:
    os._exit(7 + threads.submit(int).result(30))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_has_threads_of_its_own() -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ended.stdout.split() == ["7"]


def test_what_takes_too_long_is_stopped_again_and_again() -> None:
    """Until it is over, and not once more."""
    stops: list[int] = []
    again = threading.Event()

    def stop() -> None:
        stops.append(1)
        if len(stops) > 1:
            again.set()
        raise RuntimeError("what is stopped fails, and others are stopped all the same")

    with stopped_after(1, stop) as is_late:
        assert again.wait(10)
        assert is_late.is_set()
    count = len(stops)
    with stopped_after(0, again.clear) as others:
        assert others.is_set()
        until(lambda: not again.is_set(), "the next one to be stopped")
    assert len(stops) == count


def test_what_has_no_limit_or_ends_in_time_is_not_stopped() -> None:
    stopped = threading.Event()
    with stopped_after(None, stopped.set) as never, stopped_after(60_000, stopped.set) as late:
        pass
    assert not never.is_set()
    assert not late.is_set()
    assert not stopped.is_set()
