"""Which tests share a process when the run has several: those of the one Spark session, and no others."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

SPARK = "spark"
"""Name of the folders with those tests."""


def is_in_spark_folder(nodeid: str) -> bool:
    """Whether a test lives where tests of the shared session do."""
    return f"/{SPARK}/" in nodeid.split("::", 1)[0]


class OneSpark(LoadScopeScheduling):
    """Hands the tests of the shared Spark session to one process, first, and the others out file by file.

    A second session would cost a start of several seconds and all of Java's warming up, and a fixture of a file whose
    tests are scattered is made again and again.
    """

    def _split_scope(self, nodeid: str) -> str:
        return SPARK if is_in_spark_folder(nodeid) else nodeid.split("::", 1)[0]
