"""Tasks as data: the work to be done on a store (`spec`). Druid's own task specs are read as they are (`druid`).

What a task may ask that came over HTTP is decided by `admission`: folders, Spark settings, expressions.
"""
