"""The overshadow view of a revision, derived from its live entries alone, and its comparison with the log.

A commit records, with each entry, its version, its partition id, its update group and the ids that it replaced. By
these alone a server that does not read the log could derive the visible entries: of each chunk the newest major
version, and of that the entries that no update group replaced. `find_disagreements` compares the view with the log
(TL-6), for `carnac verify`.

Brokers follow the log and infer nothing from announcements (`core/rollout`). A server that does not follow it would
show the timeline of `tests/support/timeline` while segments are missing, by the rules of the segment locking proposal.
Tests hold random logs against that timeline (TL-1 to TL-4, TL-6).
"""

from carnac.core.timeline.agreement import Group, find_disagreements, groups_of

__all__ = ["Group", "find_disagreements", "groups_of"]
