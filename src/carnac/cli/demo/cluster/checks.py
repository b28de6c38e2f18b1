"""Every answer of the cluster against the revision that it names, as the store answers it without a cluster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING

from carnac.cli.demo.cluster.load import QUESTIONS, Rows, Sample
from carnac.console.cluster import Verdict
from carnac.core.time.intervals import format_ms

if TYPE_CHECKING:
    from carnac.store import Store

DOUBLES_AGREE = 1e-9
"""Relative: averages are sums that servers add in another order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A sample and what became of it.

    Attributes:
        verdict: `short`: it counts fewer flights than its revision has, or does not say that it is complete.
        why: One sentence unless it is right.
    """

    sample: Sample
    verdict: Verdict
    why: str = ""


def judge(store: Store, samples: Sequence[Sample]) -> Sequence[Judged]:
    """Return the verdict on each sample: its revision is asked again, in this process, from the files themselves."""
    expected: dict[tuple[int, int], Rows] = {}
    judged = []
    for sample in samples:
        if sample.revision is None:
            judged.append(Judged(sample=sample, verdict="failed", why=sample.error))
            continue
        key = (sample.question, sample.revision)
        if key not in expected:
            result = store.sql(QUESTIONS[sample.question], at=sample.revision)
            expected[key] = [[_as_json(value) for value in row.values()] for row in result.rows()]
        judged.append(_judge(sample, expected[key]))
    return judged


def _judge(sample: Sample, expected: Rows) -> Judged:
    if not sample.is_complete:
        return Judged(sample=sample, verdict="short", why="it does not say that it is complete")
    if _agree(sample.rows, expected):
        return Judged(sample=sample, verdict="right")
    why = f"revision {sample.revision} has {_shown(expected)}, the answer was {_shown(sample.rows)}"
    is_short = _whole(sample.rows) < _whole(expected)
    return Judged(sample=sample, verdict="short" if is_short else "wrong", why=why)


def _agree(found: Rows, expected: Rows) -> bool:
    return len(found) == len(expected) and all(
        len(one) == len(other) and all(map(_same, one, other))
        for one, other in zip(found, expected, strict=True)
    )


def _same(one: object, other: object) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        return (
            isinstance(one, int | float)
            and isinstance(other, int | float)
            and math.isclose(one, other, rel_tol=DOUBLES_AGREE)
        )
    return one == other


def _whole(rows: Rows) -> int:
    """Return the sum of all whole numbers of an answer: fewer rows count less."""
    return sum(value for row in rows for value in row if isinstance(value, int))


def _shown(rows: Rows) -> str:
    return "; ".join(", ".join(map(str, row)) for row in rows[:2])[:200]


def _as_json(value: object) -> object:
    """Return a value as the HTTP interface writes it."""
    if isinstance(value, datetime):
        return format_ms(round(value.timestamp() * 1000))
    if isinstance(value, date):
        return value.isoformat()
    if value is not None and not isinstance(value, bool | int | float | str):
        return int(str(value))  # a sum of whole numbers is a decimal in Python
    return value
