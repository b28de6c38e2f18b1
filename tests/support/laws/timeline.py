"""The laws of the timeline, each with one definition.

| id | law |
|---|---|
| TL-1 | no visible entry is overshadowed by a visible one: pieces are disjoint, nothing in effect names what shows |
| TL-2 | an update group is in effect all or none: each member is here, or given up, or replaced by a group in effect |
| TL-3 | what shows is a function of what is announced, expected and given up, in whatever order that was said |
| TL-4 | what shows is the newest complete state: no group, and no generation, that waits could show in its stead |
| TL-6 | it agrees with the log if it was told of all that the log added, and of what it gave up |

An entry names what it replaced, one hop. So TL-1 to TL-4 hold of what a timeline was told, and TL-6 says what it may be
asked: one that has heard of s1 and s3, and not of s2 that replaced the one and was replaced by the other, shows both
(source: "the timeline user is aware of all active segments").
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from carnac.core.invariants import check
from carnac.core.time.intervals import ETERNITY, interval_text
from tests.support.timeline.generations import Generation, largest_complete
from tests.support.timeline.timeline import Piece, Timeline


def check_timeline(timeline: Timeline) -> None:
    """Check TL-1, TL-2 and TL-4.

    Raises:
        InvariantError: One of them does not hold.
    """
    pieces = timeline.lookup(ETERNITY)
    _check_pieces(pieces)
    for generation in timeline.generations:
        where = f"generation {generation.major_ms} of chunk {interval_text(generation.chunk)}"
        _check_effect(generation, where)
        newest = largest_complete(generation.groups, generation.is_present)
        check("TL-4", generation.effect == newest, f"{where} has an older state in effect")
        _check_rank(generation, pieces, where)


def check_unchanged(timeline: Timeline, rebuilt: Timeline) -> None:
    """Check TL-3: two timelines that were told the same show the same.

    Raises:
        InvariantError: They do not.
    """
    for incomplete in (False, True):
        shown = timeline.lookup(ETERNITY, incomplete=incomplete)
        expected = rebuilt.lookup(ETERNITY, incomplete=incomplete)
        check("TL-3", shown == expected, f"the timeline shows {shown}, another {expected}")
    stand = [(one.entry_id, timeline.find_visibility(one)) for one in timeline.entries()]
    others = [(one.entry_id, rebuilt.find_visibility(one)) for one in rebuilt.entries()]
    check("TL-3", stand == others, f"entries are {stand}, in another timeline {others}")


def _check_pieces(pieces: Sequence[Piece]) -> None:
    for left, right in pairwise(pieces):
        check(
            "TL-1",
            left.interval.end_ms <= right.interval.start_ms,
            f"pieces {interval_text(left.interval)} and {interval_text(right.interval)} overlap",
        )


def _check_effect(generation: Generation, where: str) -> None:
    hidden = {partition_id for group in generation.effect for partition_id in group.hides}
    members = {partition_id for group in generation.effect for partition_id in group.ids}
    shown = {entry.partition_id for entry in generation.visible()}
    check("TL-1", not shown & hidden, f"{where} shows partitions that are replaced")
    check("TL-2", shown <= members, f"{where} shows members of groups that stand by")
    lacking = [one for one in members - hidden if not generation.is_present(one)]
    check("TL-2", not lacking, f"groups of {where} are in effect without partitions {lacking}")


def _check_rank(generation: Generation, pieces: Sequence[Piece], where: str) -> None:
    if not generation.is_whole:
        return
    for piece in pieces:
        other = (piece.major_ms, piece.chunk.start_ms - piece.chunk.end_ms, piece.chunk.start_ms)
        check(
            "TL-4",
            other >= generation.rank or not generation.chunk.overlaps(piece.interval),
            f"{where} is whole and older data shows in {interval_text(piece.interval)}",
        )
