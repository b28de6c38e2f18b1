"""Faults and their frequency: shares of the calls of each kind, switched off when things are to come to rest."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from carnac.errors import Invalid

FREEZES_MS = (1_000, 8_000, 15_000, 40_000, 120_000)
"""For how long a process stands still."""
STALLS_MS = (3_000, 6_000, 8_000)
"""For how long it does before a transaction, usually."""
LONG_STALLS_MS = (100_000,)
"""The same, so that its lease ends meanwhile, and others take its files for those of a dead writer."""
KINDS = ("crash", "freeze", "clock", "database", "storage", "network")


@dataclass(frozen=True, slots=True)
class Rates:
    """Shares of calls, and of seconds for what befalls processes.

    Attributes:
        busy: Transactions refused before they begin.
        broken: Transactions that are rolled back at their commit.
        unknown: Commits of which the answer is lost.
        unread: Reads of the database that fail.
        stalled: Transactions of a process's main work before which it stands still.
        slow, failing, half, late: Calls of deep storage that take long; fail; fail when the work is done; listings that
            lag behind.
        torn: Reads that end too early.
        dropped, unanswered, doubled, delayed: Messages, answers.
        cut: Messages with which their receiver is cut off from everybody for a while.
    """

    busy: float = 0.02
    broken: float = 0.02
    unknown: float = 0.03
    unread: float = 0.01
    stalled: float = 0.015
    slow: float = 0.04
    failing: float = 0.02
    half: float = 0.01
    late: float = 0.2
    torn: float = 0.01
    dropped: float = 0.02
    unanswered: float = 0.02
    doubled: float = 0.03
    delayed: float = 0.05
    cut: float = 0.005


@dataclass
class Faults:
    """Says whether a fault happens now.

    Args:
        kinds: Those of `KINDS` that happen at all.
        stalls_ms: Times for which a process may stand still before a transaction.
    """

    rng: random.Random
    kinds: frozenset[str]
    rates: Rates = field(default_factory=Rates)
    stalls_ms: tuple[int, ...] = STALLS_MS
    is_on: bool = True

    def happens(self, kind: str, rate: str) -> bool:
        """Return whether a fault of a kind happens."""
        if not self.is_on or kind not in self.kinds:
            return False
        share: float = getattr(self.rates, rate)
        return self.rng.random() < share


def parse_kinds(text: str) -> frozenset[str]:
    """Return the kinds of faults that a text names: `all`, `none`, or names with commas.

    Raises:
        Invalid: One of them is none.
    """
    if text in {"all", "none"}:
        return frozenset(KINDS if text == "all" else ())
    names = [one.strip() for one in text.split(",") if one.strip()]
    for one in names:
        if one not in KINDS:
            raise Invalid(
                f"there is no kind of fault '{one}'; give all, none, or some of {', '.join(KINDS)}"
            )
    return frozenset(names)
