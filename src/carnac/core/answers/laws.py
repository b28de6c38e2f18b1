"""The laws of answers, each with one definition; brokers check AN-1 and AN-2 on every answer.

| id | law |
|---|---|
| AN-1 | the segments that (revision, statement) need are those that leaves report, each once; else it is not complete |
| AN-2 | the slices that an answer needs are those that it read and those that it names as missing, and none is both |
| AN-3 | no more queries run than there are slots, nor of a lane than it may, and none waits that may run (in tests) |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from carnac.core.answers.receipts import SliceKey
from carnac.core.invariants import check


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A leaf's report, at the end of its rows, of what it has read.

    Attributes:
        view: Name of the statement's request that the leaf answers.
        slices: Segment ids with their clips, as asked.
        is_whole: Whether the leaf has sent all of the report; without that, its rows do not count.
    """

    view: str
    slices: tuple[SliceKey, ...]
    is_whole: bool


Needed = Iterable[tuple[str, SliceKey]]
"""Requests of a statement by their views, with each slice of them."""


def is_proved(needed: Needed, reads: Iterable[Read]) -> bool:
    """Whether leaves have read what is needed, each slice once and with its clip, and nothing else (AN-1)."""
    return _count(needed) == _reported(reads)


def check_answer(
    needed: Needed, reads: Iterable[Read], missing: Needed, *, is_complete: bool
) -> None:
    """Check AN-1 and AN-2 for an answer of which all rows were taken.

    Args:
        missing: Slices that could not be read from any server.
        is_complete: Whether the answer says that it is complete.

    Raises:
        InvariantError: One of them does not hold.
    """
    wanted, found, lacking = _count(needed), _reported(reads), _count(missing)
    both = dict(Counter(found) + Counter(lacking)) if lacking else found
    check(
        "AN-1",
        not is_complete or wanted == found,
        f"an answer that needs {sum(wanted.values())} slices says that it is complete, and leaves have read "
        f"{sum(found.values())}",
    )
    check(
        "AN-2",
        both == wanted,
        f"{sum(found.values())} slices were read and {sum(lacking.values())} are missing of "
        f"{sum(wanted.values())} that are needed",
    )


def _count(needed: Needed) -> dict[tuple[str, SliceKey], int]:
    return dict(Counter(needed))  # counters are compared one by one


def _reported(reads: Iterable[Read]) -> dict[tuple[str, SliceKey], int]:
    return _count((one.view, piece) for one in reads if one.is_whole for piece in one.slices)
