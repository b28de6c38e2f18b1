"""Druid's dialect of specs: its blocks, filters, expressions and patterns of time, turned into the native form.

| Where is it decided … | |
|---|---|
| what a batch spec, an input, a compaction configuration becomes? | `ingest.py`, `input.py`, `compaction.py` |
| which fields have no effect here, and what takes the place of those that are missing? | `fields.py` |
| what a filter means, in SQL of any engine? | `filters.py`; in Spark's: `spark_filters.py` |
| what an expression means? | `expressions` |
| how a pattern of time is read and printed? | `joda.py` |
| what to ask instead of a path or a function that is not here? | `elsewhere.py`, `sql_functions.py` |
"""
