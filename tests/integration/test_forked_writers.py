"""A forked child does not write through what its parent has opened, whatever the parent's threads are at."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from carnac.clock import RandomIds, SystemClock
from carnac.errors import Unavailable
from carnac.metadata import open_metadata
from carnac.metadata.store import MetadataStore
from tests.logs import append_of, day, segment

PARENT = """
import os, sys, time
from carnac.clock import RandomIds, SystemClock
from carnac.metadata import open_metadata

store = open_metadata(sys.argv[1], clock=SystemClock(), ids=RandomIds())

def work(session):
    child = os.fork()
    if child:
        print(child, flush=True)
    sys.stdin.read()

store._write(work)
"""
"""Forks inside a transaction; parent and child go on once their input ends."""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.sql)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MetadataStore]:
    url = f"sqlite:///{tmp_path}/metadata.db"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql_url")
    found = open_metadata(url, clock=SystemClock(), ids=RandomIds())
    assert isinstance(found, MetadataStore)
    yield found
    found.close()


@contextmanager
def busy(store: MetadataStore) -> Iterator[None]:
    """Keep a thread of the store inside a transaction."""
    is_inside, may_go_on = threading.Event(), threading.Event()

    def work(_session: object) -> None:
        is_inside.set()
        assert may_go_on.wait(60)

    thread = threading.Thread(target=store._write, args=[work])
    thread.start()
    assert is_inside.wait(60)
    try:
        yield
    finally:
        may_go_on.set()
        thread.join(60)


def test_a_forked_child_may_not_write(store: MetadataStore) -> None:
    """Nor does it close what is its parent's."""
    store.publish(append_of(segment("parent", day(1))))
    with busy(store):
        pid = os.fork()
        if pid == 0:
            try:
                store.publish(append_of(segment("child", day(1))))
            except Unavailable as error:
                store.close()
                os._exit(17 if "forked" in error.message else 1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 17
    assert store.head().revision == 1


def test_a_child_that_outlives_its_parent_keeps_nobody_from_writing(tmp_path: Path) -> None:
    """The parent is killed inside a transaction."""
    url = f"sqlite:///{tmp_path}/metadata.db"
    open_metadata(url, clock=SystemClock(), ids=RandomIds()).close()
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    with parent.stdin, parent.stdout:
        child = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        try:
            with closing(open_metadata(url, clock=SystemClock(), ids=RandomIds())) as other:
                assert other.publish(append_of(segment("other", day(1)))).revision == 1
            os.kill(child, 0)
        finally:
            os.kill(child, signal.SIGKILL)
