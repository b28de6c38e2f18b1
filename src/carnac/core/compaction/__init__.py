"""Compaction: the segments to fold, the time to do it, and the result. Pure.

`plan` decides which tasks there should be, `control` which of them run now. What is not decided here: how rows are
rewritten (`carnac.jobs.compact`), and how the new segments take the place of the old (`carnac.core.log.publishing`).

Source: "Compaction Notes".
"""
