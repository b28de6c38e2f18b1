"""The rows that there must be at each revision, derived from the changes that writers want and their order in the log.

The oracle knows nothing of segments: a write is rows, an interval or a condition, and takes effect where its commit
stands in the log. A commit of compaction has no effect on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field

from carnac.core.log.commits import Commit, CommitKind
from carnac.core.time.intervals import Interval

OP = "op "
"""The prefix of a commit's message; the number of the wanted change follows."""
TASK = "op-"
"""The prefix of a task's id, and so of the batch that it publishes; the same number follows."""
_BATCH = re.compile(rf"(?:{TASK})?(\d+)(?:#\d+)?")
_MESSAGE = re.compile(rf"{OP}(\d+)")
_REVERTED = re.compile(r"revert of commit (\d+)")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a datasource; its number is its value, too."""

    number: int
    at_ms: int


@dataclass(slots=True)
class Wanted:
    """A change that a writer wants, once.

    Attributes:
        rows: Rows that it adds.
        within: Interval whose rows are removed if `hits` accepts them; None: no row is removed.
        revision: Revision of its commit; None: the log has none.
        acknowledged: The revision that its writer was told.
        is_refused: Its writer was told that nothing was done.
    """

    number: int
    kind: str
    datasource: str
    rows: tuple[Row, ...] = ()
    within: Interval | None = None
    hits: Callable[[Row], bool] = field(default=lambda _row: True)
    revision: int | None = None
    acknowledged: int | None = None
    is_refused: bool = False


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a commit on a datasource."""

    datasource: str
    added: tuple[Row, ...]
    removed: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Sum:
    """The answer to a query: count and sum of the numbers."""

    rows: int
    total: int


class Oracle:
    """The rows of every revision.

    Args:
        violate: Takes a violation: auditor and sentence.
    """

    def __init__(self, violate: Callable[[str, str], object]) -> None:
        self._violate = violate
        self.wanted: dict[int, Wanted] = {}
        self.revision = 0
        self._rows: dict[str, set[Row]] = {}
        self._effects: dict[int, list[Effect]] = {}
        self._past: dict[int, dict[str, frozenset[Row]]] = {0: {}}

    def want(self, kind: str, datasource: str, **what: object) -> Wanted:
        """Note what a writer is about to do."""
        one = Wanted(len(self.wanted) + 1, kind, datasource, **what)  # type: ignore[arg-type]
        self.wanted[one.number] = one
        return one

    def rows(self, datasource: str, revision: int | None = None) -> Set[Row]:
        """Return the rows of a datasource at a revision; None: the newest."""
        if revision is None or revision == self.revision:
            return self._rows.get(datasource, set())
        return self._past[revision].get(datasource, frozenset())

    def names(self) -> tuple[str, ...]:
        """Return the datasources that ever had rows."""
        return tuple(sorted(self._rows))

    def sum_of(self, datasource: str, revision: int, within: Interval | None = None) -> Sum:
        """Return what a query over an interval must find."""
        found = [
            row.number
            for row in self.rows(datasource, revision)
            if within is None or within.start_ms <= row.at_ms < within.end_ms
        ]
        return Sum(len(found), sum(found))

    def take(self, commit: Commit) -> None:
        """Let a commit of the log happen."""
        self.revision = commit.revision
        effects: list[Effect] = []
        if commit.kind is CommitKind.REVERT:
            effects = self._revert(commit)
        elif commit.kind not in {CommitKind.REWRITE, CommitKind.LOOKUP}:
            effects = self._write(commit)
        for one in effects:
            rows = self._rows.setdefault(one.datasource, set())
            for row in one.removed:
                rows.remove(row)
            for row in one.added:
                if row in rows:
                    self._violate(
                        "conservation",
                        f"revision {commit.revision} brings row {row.number} back beside itself",
                    )
                rows.add(row)
        self._effects[commit.revision] = effects
        before = self._past[max(self._past)]
        changed = {one.datasource: frozenset(self._rows[one.datasource]) for one in effects}
        self._past[commit.revision] = {**before, **changed}

    def _write(self, commit: Commit) -> list[Effect]:
        one = self._wanted_by(commit)
        if one is None:
            self._violate(
                "order", f"revision {commit.revision} ({commit.kind}) was wanted by nobody"
            )
            return []
        if one.revision is not None:
            self._violate(
                "once",
                f"{one.kind} {one.number} is in the log twice, at revisions {one.revision} and {commit.revision}",
            )
        if one.is_refused:
            self._violate(
                "fences",
                f"{one.kind} {one.number} was refused, and is in the log at {commit.revision}",
            )
        one.revision = commit.revision
        if one.within is None:
            return [Effect(one.datasource, one.rows, ())]
        # rows that its writer saw, even if they were removed meanwhile and brought back
        rows = self._rows.get(one.datasource, set())
        seen = (
            rows
            if commit.base_revision is None
            else self.rows(one.datasource, commit.base_revision)
        )
        removed = tuple(
            row
            for row in rows
            if row in seen
            and one.within.start_ms <= row.at_ms < one.within.end_ms
            and one.hits(row)
        )
        return [Effect(one.datasource, one.rows, removed)]

    def _wanted_by(self, commit: Commit) -> Wanted | None:
        found = _BATCH.fullmatch(commit.batch or "") or _MESSAGE.match(commit.message)
        return None if found is None else self.wanted.get(int(found[1]))

    def _revert(self, commit: Commit) -> list[Effect]:
        found = _REVERTED.search(commit.message)
        undone = None if found is None else self._effects.get(int(found[1]))
        if undone is None:
            self._violate(
                "order",
                f"revision {commit.revision} reverts nothing that is known: {commit.message!r}",
            )
            return []
        made = []
        for one in undone:
            rows = self._rows.get(one.datasource, set())
            gone = tuple(row for row in one.added if row in rows)
            back = tuple(row for row in one.removed if row not in rows)
            made.append(Effect(one.datasource, back, gone))
        return made

    def conclude(self) -> None:
        """Check what writers were told, once all is over."""
        for one in self.wanted.values():
            if one.acknowledged is not None and one.revision != one.acknowledged:
                where = "nowhere" if one.revision is None else f"at {one.revision}"
                self._violate(
                    "completeness",
                    f"{one.kind} {one.number} was acknowledged at {one.acknowledged} and is {where} in the log",
                )


def compare(expected: Set[Row], found: Mapping[int, int]) -> tuple[str, str] | None:
    """Return how rows that were found, counted by number, differ from those that must be: auditor and sentence."""
    numbers = {row.number for row in expected}
    doubled = sorted(number for number, count in found.items() if count > 1)
    if doubled:
        return "conservation", f"rows {doubled[:5]} are there {found[doubled[0]]} times"
    missing = sorted(numbers - found.keys())
    if missing:
        return (
            "completeness",
            f"{len(missing)} of {len(numbers)} rows are missing, {missing[:5]} among them",
        )
    strange = sorted(found.keys() - numbers)
    if strange:
        return (
            "conservation",
            f"{len(strange)} rows are there that must not be, {strange[:5]} among them",
        )
    return None
