"""A simulation's threads stay on one processor while it runs, and go where they like afterwards."""

import os
import sys
import threading

import pytest

from carnac.simulation.cluster.processor import one_processor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps threads there")


def test_all_threads_are_on_one_processor_until_the_end() -> None:
    before = os.sched_getaffinity(0)
    seen: list[set[int]] = []
    ends = threading.Event()

    def work() -> None:
        seen.append(os.sched_getaffinity(0))
        ends.wait()
        seen.append(os.sched_getaffinity(0))

    with one_processor():
        here = os.sched_getaffinity(0)
        stays = threading.Thread(target=work)
        stays.start()
        while not seen:
            ends.wait(0.001)
    after = os.sched_getaffinity(0)
    ends.set()
    stays.join()
    assert len(here) == 1
    assert here <= before
    assert seen == [here, before]
    assert after == before


def test_who_may_run_on_one_processor_only_stays_there() -> None:
    before = os.sched_getaffinity(0)
    only = {min(before)}
    os.sched_setaffinity(0, only)
    try:
        with one_processor():
            assert os.sched_getaffinity(0) == only
        assert os.sched_getaffinity(0) == only
    finally:
        os.sched_setaffinity(0, before)
