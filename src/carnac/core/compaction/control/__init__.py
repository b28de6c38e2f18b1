"""What is known of time chunks between two plans, and which tasks run now.

`states` and `survey` remember what was judged, `backlog` holds what waits, `manager` is the queue within its capacity,
`conductor` puts them together, `flow` tells whether compaction keeps up.
"""
