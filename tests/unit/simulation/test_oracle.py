"""The oracle of simulated clusters: which rows there must be after what the log has."""

from __future__ import annotations

from carnac.core.log.commits import Commit, CommitKind
from carnac.core.time.intervals import Interval
from carnac.simulation.cluster.oracle import Oracle, Row

SEEN, LATER = Row(1, 10), Row(2, 20)
ALL = Interval(0, 100)


def test_a_delete_takes_what_its_writer_saw_though_it_was_brought_back_meanwhile() -> None:
    told: list[object] = []
    oracle = Oracle(lambda *what: told.append(what))
    oracle.want("append", "clicks", rows=(SEEN,))
    oracle.want("delete", "clicks", within=ALL)
    oracle.want("append", "clicks", rows=(LATER,))
    oracle.want("delete", "clicks", within=ALL)
    for revision, kind, base, message in (
        (1, CommitKind.APPEND, None, "op 1"),
        (2, CommitKind.DELETE, 1, "op 2"),
        (3, CommitKind.REVERT, None, "revert of commit 2"),
        (4, CommitKind.APPEND, None, "op 3"),
        (5, CommitKind.DELETE, 1, "op 4"),
    ):
        oracle.take(
            Commit(revision=revision, kind=kind, at_ms=0, base_revision=base, message=message)
        )
    assert oracle.rows("clicks", 3) == {SEEN}
    assert oracle.rows("clicks") == {LATER}
    assert not told
