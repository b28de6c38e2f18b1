"""Which tests share a process when the run has several: those of the one Spark session, and no others."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

SPARK_TESTS = "tests/integration/spark/"


class OneSpark(LoadScopeScheduling):
    """Hands the tests of the shared Spark session to one process, first, and the others out one by one.

    A second session would cost a start of several seconds and all of Java's warming up.
    """

    def _split_scope(self, nodeid: str) -> str:
        return SPARK_TESTS if nodeid.startswith(SPARK_TESTS) else nodeid
