"""The timeline, for a server that sees only announced segments: it finds the complete state that can be served now.

The log says what is visible at a revision. The timeline says which of these entries are here, and which to show instead
of missing ones. It is a function of its input (the entries that are announced, expected, given up) and of nothing else,
so no order of arrivals leads to another answer (TL-3). Three steps:

1. *Groups.* The entries of one commit in one chunk are in effect together or not at all (TL-2).
2. *Generations* (`generations.py`). The groups of a chunk under one major version. The newest complete state of them is
   in effect; a generation is whole if nothing of it is missed (TL-1 within a chunk, TL-4).
3. *Pieces* (`timeline.py`). At every instant the whole generation of the highest rank shows, of whatever granularity: a
   day over a month hides that day of it (TL-1 across chunks).

`tests/support/laws/timeline.py` checks TL-1 to TL-4. All this is for a server that does not follow the log and wants a
state to fall back to. By TL-6 it may be asked only if its input has every entry that replaces another. Brokers follow
the log and need no timeline: their answer is the newest revision that can be read (`core/rollout`). So the timeline is
not in the package. Tests compare the log's entries with it, and it is one side of the experiment of replacements.

Source: segment locking proposal, Timeline management. We depart from it where its rules depend on the order of events
(a removal leaves survivors visible that a bulk build would let stand by), and where removing a segment whose group was
in part replaced again would show rows twice: see `generations.py`.
"""

from tests.support.timeline.timeline import (
    Piece,
    Timeline,
    Visibility,
    timeline_of,
)

__all__ = [
    "Piece",
    "Timeline",
    "Visibility",
    "timeline_of",
]
