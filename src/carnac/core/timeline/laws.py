"""The laws of the timeline, each with one definition; tests, checks and the simulator call these.

| id | law |
|---|---|
| TL-1 | no visible entry is overshadowed by a visible one: pieces are disjoint, nothing in effect names what shows |
| TL-2 | an update group is in effect all or none: each member is here, or given up, or replaced by a group in effect |
| TL-3 | what shows is a function of what is announced, expected and given up, in whatever order that was said |
| TL-4 | what shows is the newest complete state: no group, and no generation, that waits could show in its stead |
| TL-5 | a timeline that follows the log shows the live entries of its revision that are announced, and no others |
| TL-6 | one that does not agrees with the log if it was told of all that the log added, and of what it gave up |

An entry names what it replaced, one hop. So TL-1 to TL-4 hold of what a timeline was told, and TL-6 says what it may be
asked: one that has heard of s1 and s3, and not of s2 that replaced the one and was replaced by the other, shows both
(source: "the timeline user is aware of all active segments"). TL-5 asks for nothing of the kind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from carnac.core.invariants import check
from carnac.core.log.entries import Entry
from carnac.core.time.intervals import ETERNITY, IntervalSet, interval_text
from carnac.core.timeline.following import FollowedTimeline
from carnac.core.timeline.generations import Generation
from carnac.core.timeline.groups import Group
from carnac.core.timeline.places import is_present
from carnac.core.timeline.sights import Piece
from carnac.core.timeline.stacks import Stack
from carnac.core.timeline.timeline import Timeline


def check_timeline(timeline: Timeline) -> None:
    """Check TL-1, TL-2 and TL-4.

    Raises:
        InvariantError: One of them does not hold.
    """
    pieces = timeline.lookup(ETERNITY)
    _check_pieces(pieces)
    for stack, generation in timeline.generations():
        where = f"generation {generation.major_ms} of chunk {interval_text(stack.interval)}"
        _check_effect(generation, where)
        _check_newest(generation, where)
        _check_rank(stack, generation, pieces, where)


def check_unchanged(timeline: Timeline, rebuilt: Timeline) -> None:
    """Check TL-3: a timeline shows what one built at once from the same entries shows.

    Raises:
        InvariantError: It does not.
    """
    for incomplete in (False, True):
        shown = timeline.lookup(ETERNITY, incomplete=incomplete)
        expected = rebuilt.lookup(ETERNITY, incomplete=incomplete)
        check("TL-3", shown == expected, f"the timeline shows {shown}, a new one {expected}")
    for entry in rebuilt.entries():
        found, expected_one = timeline.find_visibility(entry), rebuilt.find_visibility(entry)
        check(
            "TL-3",
            found == expected_one,
            f"entry {entry.entry_id} is {found}, in a new timeline {expected_one}",
        )
    check("TL-3", len(timeline) == len(rebuilt), "the number of announced entries differs")


def check_followed(
    timeline: FollowedTimeline, live: Iterable[Entry], announced: Collection[int]
) -> None:
    """Check TL-5.

    Args:
        live: The live entries of the log at the timeline's revision.
        announced: Ids of all entries that servers announce, dead ones and those to come included.

    Raises:
        InvariantError: It does not hold.
    """
    entries = {entry.entry_id: entry for entry in live}
    shown: dict[int, IntervalSet] = {}
    for piece in timeline.lookup(ETERNITY, incomplete=True):
        for entry in piece.entries:
            shown[entry.entry_id] = shown.get(entry.entry_id, IntervalSet()).union(
                piece.shows(entry)
            )
        lacks = {one for one, entry in entries.items() if entry.chunk == piece.chunk} - set(
            announced
        )
        check("TL-5", piece.is_complete == (not lacks), f"{lacks} are missing in {piece.chunk}")
    here = {one: entry.visible for one, entry in entries.items() if one in announced}
    check("TL-5", shown == here, f"the timeline shows {sorted(shown)}, here is {sorted(here)}")
    missing = [entry.entry_id for entry in timeline.missing(ETERNITY)]
    check("TL-5", missing == sorted(entries.keys() - here), f"it says that {missing} are missing")


def _check_pieces(pieces: tuple[Piece, ...]) -> None:
    for left, right in pairwise(pieces):
        check(
            "TL-1",
            left.interval.end_ms <= right.interval.start_ms,
            f"pieces {interval_text(left.interval)} and {interval_text(right.interval)} overlap",
        )


def _check_effect(generation: Generation, where: str) -> None:
    groups = [group for group in generation.groups.values() if group.in_effect]
    hidden = {partition_id for group in groups for partition_id in group.hides}
    for entry in generation.visible():
        check(
            "TL-1",
            entry.partition_id not in hidden,
            f"partition {entry.partition_id} of {where} shows and is replaced",
        )
    for group in groups:
        for partition_id, slot in group.members():
            check(
                "TL-2",
                is_present(slot) or partition_id in hidden,
                f"group {group.ids} of {where} is in effect without partition {partition_id}",
            )
    standing = {
        partition_id
        for group in generation.groups.values()
        if not group.in_effect
        for partition_id in group.ids
    }
    shown = {entry.partition_id for entry in generation.visible()}
    check("TL-2", not shown & standing, f"{where} shows members of groups that stand by")


def _check_newest(generation: Generation, where: str) -> None:
    """The groups in effect are the largest complete set: dropping what cannot stay leaves just them."""
    known = list(generation.groups.values())
    left = newest_complete(known)
    effect = [group for group in known if group.in_effect]
    check("TL-4", left == effect, f"{where} has in effect what is not the newest complete state")


def newest_complete(known: Sequence[Group]) -> list[Group]:
    """Return the largest complete set of groups, from the definition alone (see `generations.py`)."""
    home = {member: group for group in known for member in group.ids}
    left = list(known)
    while True:
        hidden = {partition_id for group in left for partition_id in group.hides}
        staying = [
            group
            for group in left
            if all(is_present(slot) or member in hidden for member, slot in group.members())
            and all(home[replaced] in left for replaced in group.hides if replaced in home)
        ]
        if len(staying) == len(left):
            return left
        left = staying


def _check_rank(
    stack: Stack, generation: Generation, pieces: tuple[Piece, ...], where: str
) -> None:
    if not generation.is_whole:
        return
    rank = stack.rank(generation.major_ms)
    mine = IntervalSet((stack.interval,))
    for piece in pieces:
        other = (piece.major_ms, piece.chunk.start_ms - piece.chunk.end_ms, piece.chunk.start_ms)
        check(
            "TL-4",
            other >= rank or not mine.intersect(IntervalSet((piece.interval,))),
            f"{where} is whole and older data shows in {interval_text(piece.interval)}",
        )
