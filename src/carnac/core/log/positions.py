"""How far a writer has read its sources: offset ranges that commits carry, and the positions that they add up to.

A range is published with the rows that were read in it, in one transaction, and only if it begins where the position
is. So the ranges of a writer's commits tile, whoever else writes under the same name (PO-1): no part of a source is
stored twice or left out. A position stays as it is when rows are reverted, deleted, or trimmed out of history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from carnac.core import invariants
from carnac.core.showing import Shown
from carnac.core.texts import KEY_MAX, check_name, check_text, short
from carnac.core.time.intervals import time_text
from carnac.errors import Conflict, Invalid

NOWHERE = ""
"""The position in a source that was never read, or was forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """The part of its sources that a writer has read for one commit.

    Attributes:
        writer: Name of the writer, whose position this moves.
        start: By name of a source (of a partition, where that has positions of its own), the offset that the writer
            started from. One that is left out was never read. One without an end stays where it is.
        end: By name of a source, the offset that the next range starts from; an empty text forgets the source.
    """

    writer: str
    start: Mapping[str, str] = field(default_factory=dict)
    end: Mapping[str, str]

    def __post_init__(self) -> None:
        """Refuse what the log would have for good."""
        check_name(self.writer, "the name of a writer", limit=KEY_MAX)
        check_offsets(self.start)
        check_offsets(self.end)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SourcePosition(Shown):
    """The point up to which a writer has read one of its sources.

    Attributes:
        writer: Name of the writer.
        source: Name of the source.
        offset: Text that the writer gave; its next range begins here.
        before: The offset that the last move started from.
        revision: The commit that moved it last.
        at_ms: When that was published.
    """

    writer: str
    source: str
    offset: str
    before: str
    revision: int
    at_ms: int

    def _facts(self) -> Mapping[str, str]:
        return {
            "writer": self.writer,
            "source": self.source,
            "offset": self.offset,
            "revision": f"{self.revision}",
            "published": time_text(self.at_ms),
        }


class Move(NamedTuple):
    """The offset range of a commit, as the log keeps it."""

    revision: int
    writer: str
    start: Mapping[str, str]
    end: Mapping[str, str]


def check_offsets(offsets: object) -> None:
    """Refuse offsets that cannot be kept, whatever a caller gave; raises Invalid."""
    if not isinstance(offsets, Mapping):
        raise Invalid(f"offsets are a mapping, by name of a source, not {short(offsets)}")
    for name, text in offsets.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise Invalid(f"offset {short(name)} is {short(text)}; write name and offset as texts")
        check_text(name, "the name of an offset", limit=KEY_MAX)
        check_text(text, f"offset '{name}'")


def decide_replay(
    writer: str,
    start: Mapping[str, str],
    end: Mapping[str, str],
    held: Mapping[str, SourcePosition],
) -> int | None:
    """Return the commit that has published this very range; None: it may be published now.

    Args:
        held: The positions of the writer now, by source.

    Raises:
        Conflict: The writer's position is another one.
    """
    wrong = [
        source
        for source in sorted(start.keys() | end.keys())
        if _offset(held, source) != start.get(source, NOWHERE)
    ]
    if not wrong:
        return None
    moved = {held[source].revision if source in held else None for source in end}
    was_done = all(
        source in held
        and held[source].offset == text
        and held[source].before == start.get(source, NOWHERE)
        for source, text in end.items()
    )
    if was_done and len(moved) == 1:
        return moved.pop()
    raise _conflict(writer, wrong[0], start.get(wrong[0], NOWHERE), held.get(wrong[0]))


def _offset(held: Mapping[str, SourcePosition], source: str) -> str:
    return held[source].offset if source in held else NOWHERE


def _conflict(writer: str, source: str, start: str, held: SourcePosition | None) -> Conflict:
    if held is None:
        found = f"writer '{writer}' has no position in '{source}'"
        by, advice = None, f"leave '{source}' out of its start"
    else:
        by, advice = held.revision, "read on from the position of the writer"
        found = f"commit {by} moved writer '{writer}' in '{source}' from {_told(held.before)} to {_told(held.offset)}"
    return Conflict(
        f"{found}, and this range starts from {_told(start)}; nothing was published: {advice}, or write "
        f"under a name of your own",
        writer=writer,
        source=source,
        commit=by,
    )


def _told(offset: str) -> str:
    return "nowhere" if offset == NOWHERE else offset


def check_tiling(moves: Iterable[Move]) -> None:
    """PO-1: each range of a writer begins where the one before it in the same source ended.

    Args:
        moves: In the order of their revisions; none that were between two of them are left out.

    Raises:
        InvariantError: It does not.
    """
    reached: dict[tuple[str, str], tuple[str, int]] = {}
    for move in moves:
        for source, end in move.end.items():
            start = move.start.get(source, NOWHERE)
            before = reached.get((move.writer, source))
            invariants.check(
                "PO-1",
                before is None or before[0] == start,
                f"commit {move.revision} of writer '{move.writer}' starts in '{source}' from {_told(start)}, and "
                f"commit {None if before is None else before[1]} ended at "
                f"{None if before is None else _told(before[0])}",
            )
            reached[move.writer, source] = (end, move.revision)


def require_writer(writer: str | None, start: Mapping[str, str], end: Mapping[str, str]) -> None:
    """Refuse offsets of nobody; raises Invalid."""
    if writer is None and (start or end):
        raise Invalid(
            "a publication has offsets and no writer; name the writer whose position they are"
        )
