"""Which revision a broker plans on, and which it still reads.

A broker that starts announces itself before it reads what it is told, and plans on nothing older: so whoever decides to
unload after telling a revision either sees the broker, or the broker has read that revision. A broker whose lease is
over by its own clock answers nothing until it has been heard again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRevisions:
    """The revisions of one broker. Each change is a new value.

    Attributes:
        planning: New queries are planned on it; it never decreases.
        running: How many queries that were planned on a revision are not over yet, by revision; > 0 each.
    """

    planning: int
    running: Mapping[int, int] = field(default_factory=dict)

    @property
    def oldest(self) -> int:
        """The oldest revision that a running query reads; the planning revision if that is older, or none runs."""
        return min(self.planning, *self.running) if self.running else self.planning

    def follow(self, told: int | None, head: int) -> BrokerRevisions:
        """Plan on what is told, or on the newest revision while nothing is; never on an older one than before.

        Args:
            told: The told revision, None if no coordinator has told one.
            head: The newest revision that the broker knows of.
        """
        return replace(self, planning=max(self.planning, head if told is None else told))

    def begin(self, revision: int | None = None) -> BrokerRevisions:
        """Count a query in, before it is looked up which segments it needs. None: on the planning revision."""
        at = self.planning if revision is None else revision
        return replace(self, running={**self.running, at: self.running.get(at, 0) + 1})

    def end(self, revision: int) -> BrokerRevisions:
        """Count a query out that was planned on a revision."""
        left = {**self.running, revision: self.running.get(revision, 0) - 1}
        return replace(self, running={at: count for at, count in left.items() if count > 0})
