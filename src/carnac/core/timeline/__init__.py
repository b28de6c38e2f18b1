"""The overshadow view of a revision: what its live entries say of one another, and whether that is what the log shows.

A commit writes down, with each entry, its version, its partition id, its update group and what it replaced. By that
alone a server that does not read the log could tell what shows: of each chunk the newest major version, and of that
what no update group replaced. `find_disagreements` holds it against the log (TL-6), for `carnac verify`.

Brokers follow the log and infer nothing from what is announced (`core/rollout`). What a server that does not follow it
would show while segments are missing, by the rules of the segment locking proposal, is the timeline of
`tests/support/timeline`: tests hold random logs against it (TL-1 to TL-4, TL-6).
"""

from carnac.core.timeline.agreement import Group, find_disagreements, groups_of

__all__ = ["Group", "find_disagreements", "groups_of"]
