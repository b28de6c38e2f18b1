"""The log: commits, and the way from a publication to a commit.

Where is it decided that an append joins a chunk? First in `layout`, before rows are written: a row belongs to
the live chunk that holds its time; where there is none, to the bucket of the segment granularity, or to the
largest finer one that is free. Then once more in `publishing.plan_any`, inside the publish transaction: a
segment of an append joins the live chunk that holds its rows, takes the version of that chunk and its next
partition id, and puts nothing out of sight. Where the chunks have changed since the segment was written, it
gets one entry for each chunk that it touches, clipped to it; where there is none, it founds one. `appending`
does the plain case, in which every chunk is live as it was, in a fifth of the time.

`commits` has the request of a writer (`Publication`) and the record of the log (`Commit`). `drafts` carves and
re-enters chunks for replacements, `allocation` reserves places before rows are written, `reverting` undoes a
commit, `retention` decides which revisions stay, `late_ledger` counts rows that came late, and `laws` has the
laws that always hold.
"""
