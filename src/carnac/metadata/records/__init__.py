"""Which records are kept beside the log?

Each subject has a part of the store: tasks and attempts (`task_records`), places of segments (`allocation_records`),
specs and states of compaction (`compaction_records`), erasures (`erasure_records`), servers, the told revision and load
rules (`server_records`), supervisors and the positions of writers (`stream_records`), users (`user_records`).

Work inside a transaction that takes long to import is in another module (`tasks`, `allocation`, `compaction_rows`),
which is loaded when it is first needed. What is decided there is decided by the core: `core.tasks`,
`core.log.allocation`.
"""
