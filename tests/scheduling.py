"""Which tests share a process when the run has several: of the one Spark session, of balancing, of the house."""

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
"""What stands in the paths of tests that have machine code made at the first call."""


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

    def remove_node(self, node: WorkerController) -> str | None:
        """Let go of a process; if it crashed, others get what it had left. Return the test that it crashed in.

        What it had done is taken from its work before: the scheduler would hand that out again, as files without
        tests, and whoever gets such a file while one test is left waits for another one for ever.
        """
        work = self.assigned_work[node]
        for scope in [scope for scope, tests in work.items() if all(tests.values())]:
            del work[scope]
        return super().remove_node(node)
