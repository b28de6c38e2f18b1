"""The log: commits, and the way from a publication to a commit.

Where is it decided that an append joins a chunk? Twice.

1. Before rows are written, `layout.plan_chunks` gives each row the live chunk that holds its time; where there is none,
   the bucket of the segment granularity, or the largest finer bucket that is free. A writer that reserves its places
   asks `allocation`, which has one more rule: a chunk in which places are reserved comes second.
2. Inside the publish transaction, because chunks may have changed meanwhile. `appending.plan_append` handles a small
   append whose chunks all exist as they were. `publishing.plan_any` handles every other publication;
   `drafts.ChunkDrafts.place` decides there: a segment gets one entry in the chunk that holds its rows, or one entry in
   each chunk that it touches, clipped to it; a new chunk where none exists.

An entry of an append takes the major version of its chunk, and the next partition id or the reserved one. It puts
nothing out of sight.

What makes a commit be refused? `publishing.plan_any` names the commit that stands in the way (Conflict): what is
dropped or required to be visible was changed since the base revision, what is restored is visible or its rows moved,
or a requirement of the writer does not hold. A lock that is not held with its fence any more is Revoked. An append
requires nothing of other commits, so none stands in its way. What contradicts itself is Invalid at once.

`commits` has the request of a writer (`Publication`) and the record of the log (`Commit`). `feed` tells which rows are
new to a follower: those that a commit adds, and none of a rewrite. `reverting` undoes a commit, `erasing` takes rows
out of history, `retention` decides which revisions stay, `late_ledger` counts rows that came late, `positions` keeps
how far a writer has read its source, and `laws` has the laws that always hold.
"""
