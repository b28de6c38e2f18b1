"""From the segments of a datasource to tasks of compaction, as a pure function: `planning.plan`.

`chunks` says what there is, `target_periods` what it should be like by age, `scoring` and `choosing` what to do and how
urgently, `candidates` which tasks that makes and which of them may run side by side.
"""
