"""A scheduler for runs of several processes: tests of Spark share one, and so do those of balancing and the house."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

SPARK = "spark"
"""Name of the folders with those tests."""


def is_in_spark_folder(nodeid: str) -> bool:
    """Whether a test lives where tests of the shared session do."""
    return f"/{SPARK}/" in nodeid.split("::", 1)[0]


BALANCING, COMPILED = "balancing", ("balancing", "cost_", "simulation")
"""Words in the paths of tests that have machine code made at the first call."""


def is_compiled(nodeid: str) -> bool:
    """Whether a test calls compiled code: a second process would compile the same at the same time."""
    path = nodeid.split("::", 1)[0]
    return any(word in path for word in COMPILED)


HOUSE = "tests/house/"
"""Tests that read all files of the project, and keep what they have read."""


def scope_of(nodeid: str) -> str:
    """Return the name of the tests that share a process with a test: those of its file, if no others."""
    if is_in_spark_folder(nodeid):
        return SPARK
    if nodeid.startswith(HOUSE):
        return HOUSE
    return BALANCING if is_compiled(nodeid) else nodeid.split("::", 1)[0]


class OneSpark(LoadScopeScheduling):
    """Hands the tests of the shared Spark session to one process, first, and the others out file by file.

    A second session would cost a start of several seconds and all of Java's warming up, and a fixture of a file whose
    tests are scattered is made again and again.
    """

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Hand out files until a process has two tests, or nothing is left and it may end.

        A process begins its last test only when it knows which one comes next. The files of a process that crashed are
        handed out again, even files of which all tests are done. A process that got one of these, or a file with one
        test left, would wait for ever.
        """
        super()._assign_work_unit(node)
        while self.workqueue and self._pending_of(self.assigned_work[node]) < 2:
            super()._assign_work_unit(node)
        if not self.workqueue and self._pending_of(self.assigned_work[node]) < 2:
            node.shutdown()
