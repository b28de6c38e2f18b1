"""Which records do tasks, allocation and compaction keep beside the log?

Each has a part of the store (`task_records`, `allocation_records`, `compaction_records`). Its work inside a transaction
is in another module (`tasks`, `allocation`, `compaction_rows`), which is loaded when it is first needed.
"""
