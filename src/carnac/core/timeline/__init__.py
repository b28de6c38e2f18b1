"""The timeline: what a server that sees only announced segments needs. Which complete state can be served now?

The log says what is visible at a revision. The timeline says what of it is here, and what to show instead where it is
not. Its answer is a function of what it has been told (which entries are announced, expected, given up) and of
nothing else: no order of arrivals leads to another (TL-3). Four steps, each in a file of its own:

1. *Places* (`places.py`). A partition id of a chunk under a major version. The newest entry in it counts.
2. *Groups* (`groups.py`). The entries of one commit in one chunk: in effect together or not at all (TL-2).
3. *Generations* (`generations.py`). The groups of a chunk under one major version. The newest complete state of them is
   in effect; a generation is whole if nothing of it is missed (TL-1 within a chunk, TL-4).
4. *Stacks* (`stacks.py`). The generations of a chunk. At every instant the whole generation of the highest rank shows,
   of whatever granularity: a day over a month hides that day of it (TL-1 across chunks).

`timeline.py` files the stacks and answers; `laws.py` checks. All this is for whoever does not follow the log and wants
a state to fall back to. What it may be asked says TL-6: it must have been told of every entry that replaces another.

Who follows the log needs none of it: `following.py` shows what is live and here, and forgets the rest (TL-5).

Source: segment locking proposal, Timeline management. We depart from it where its rules depend on the order of events
(a removal leaves survivors visible that a bulk build would let stand by), and where removing a segment whose group was
in part replaced again would show rows twice: see `generations.py`.
"""

from carnac.core.timeline.following import FollowedTimeline
from carnac.core.timeline.laws import check_followed, check_timeline, check_unchanged
from carnac.core.timeline.sights import Piece, Visibility
from carnac.core.timeline.timeline import Timeline

__all__ = [
    "FollowedTimeline",
    "Piece",
    "Timeline",
    "Visibility",
    "check_followed",
    "check_timeline",
    "check_unchanged",
]
