"""Druid's native queries: JSON that becomes one SQL statement, and its rows in the shapes of native answers.

Nothing is computed here. `routes` reads the body. `grouping`, `scans` and `segments` make a statement for each
`queryType`, of a data source (`sources`), of parts that all kinds share (`queries`), and of filters, aggregators and
expressions (`terms`). `runs` has the broker run it, the same way as SQL, and `shapes` writes its rows.
"""
