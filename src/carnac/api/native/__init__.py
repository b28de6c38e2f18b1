"""Druid's native queries: JSON that becomes one SQL statement, and its rows in the shapes of native answers.

Nothing is computed here. `requests` reads the body; `kinds` has what makes a statement for each `queryType`
(`grouping`, `scans`, `segments`) of a data source (`sources`) and of parts that all kinds share (`queries`, `terms`);
`runs` has the broker run it, the same way as SQL, and `shapes` writes its rows.
"""
