"""Druid's native queries: JSON that becomes one SQL statement, and its rows in the shapes of native answers.

Nothing is computed here. `routes` reads the body. `grouping`, `scans` and `segments` make a statement for each
`queryType`, of a data source (`sources`) and of parts that all kinds share (`queries`); aggregators are in `terms`,
filters and expressions in `specs.druid.terms`. `runs` has the broker run it, the same way as SQL, and `shapes` writes
its rows.
"""
