"""What do tasks, allocation and compaction keep beside the log?

For each there is a part of the store (`task_records`, `allocation_records`, `compaction_records`) and what it does
inside a transaction (`tasks`, `allocation`, `compaction_rows`), which is loaded when it is first needed.
"""
