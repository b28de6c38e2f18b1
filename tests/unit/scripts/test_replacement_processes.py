"""What a second of real answers comes to: the worst that one of its queries saw."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.replacement import AnswerKind, Death, Second
from benchmarks.replacement.processes import _Look, _second, _Trial
from carnac.cli.demo.cluster.checks import Judged
from carnac.cli.demo.cluster.load import Sample
from carnac.console.cluster import Verdict

OLD, NEW = {"old-1", "old-2"}, {"new-1"}
LOOKS = [
    _Look(at_ms=0, loaded={"h1": {"old-1"}, "h2": {"old-2"}}, known={"1", "2"}),
    _Look(at_ms=1_000, loaded={"h2": {"old-2", "new-1"}}, known={"2"}),
]
TRIAL = _Trial(
    death=Death.LOADING, started_ms=0, old=OLD, new=NEW, rows=10, revision=5, looks=LOOKS
)


def answer(at_ms: int, revision: int | None, verdict: Verdict = "right", **more: Any) -> Judged:
    sample = Sample(
        **{"question": 2, "took_ms": 1} | more, at_ms=at_ms, revision=revision, is_complete=True
    )
    return Judged(sample=sample, verdict=verdict)


@pytest.mark.parametrize(
    ("judged", "second"),
    [
        ([answer(10, 4)], Second(kind=AnswerKind.OLD)),
        ([answer(10, 4), answer(1_010, 4)], Second(kind=AnswerKind.COLD)),
        ([answer(1_010, 5)], Second(kind=AnswerKind.NEW, is_new=True)),
        ([answer(10, 5)], Second(kind=AnswerKind.COLD, is_new=True)),
        ([answer(10, 4), answer(20, None, "failed")], Second(kind=AnswerKind.REFUSED, share=0.0)),
        ([], Second(kind=AnswerKind.REFUSED, share=0.0)),
        (
            [answer(10, 4, "short", question=0, rows=[[7, 1]]), answer(20, 4)],
            Second(kind=AnswerKind.SHORT, share=0.7),
        ),
        (
            [answer(10, 4, "short", question=1, rows=[["EWR", 3, 9], ["JFK", 1, 9]])],
            Second(kind=AnswerKind.SHORT, share=0.4),
        ),
    ],
)
def test_a_second_is_the_worst_of_its_answers(judged: list[Judged], second: Second) -> None:
    assert _second(judged, TRIAL) == second
