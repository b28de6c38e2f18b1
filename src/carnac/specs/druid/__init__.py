"""Druid's dialect of specs: its blocks, filters and expressions, turned into the native form.

| Where is it decided … | |
|---|---|
| what a batch spec, an input, a compaction configuration becomes? | `ingest.py`, `input.py`, `compaction.py` |
| which fields have no effect here, and what takes the place of those that are missing? | `fields.py` |
| what a filter, an expression, a dimension means, as SQL? | `terms` |
| what of these may stand where rows are loaded, and which columns do they read? | `rows.py` |
| which regular expressions are read, and by what? | `patterns.py` |
| what to ask instead of a path or a function that is not here? | `elsewhere.py`, `sql_functions.py` |
"""
