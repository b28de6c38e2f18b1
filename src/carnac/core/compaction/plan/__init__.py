"""From the segments of a datasource to tasks of compaction, as a pure function: `planning.plan_compaction`.

| Where is it decided … | |
|---|---|
| how a time chunk should be laid out at its age, and which data is too new to touch? | `target_periods.py` |
| whether a chunk is left alone, and if not, why and how urgently? | `scoring.py` |
| whether a segment is already as the target asks? | `likeness.py` |
| which segments of a chunk are rewritten? | `choosing.py` |
| which segments may share a new one? | `input_groups.py` |
| which chunks are one task, and which tasks may run side by side? | `candidates.py`; for coarse chunks `dividing.py` |
| that a rewrite is not done again in vain? | `notes.py` |

The input is `inputs.PlanSegment`, cut by `chunks`; the output are `tasks` of `groups`, as JSON by `group_records`.
"""
