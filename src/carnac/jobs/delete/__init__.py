"""Deletion by predicate: the segments that hold a matching row are rewritten without it.

`predicate` decides which conditions are taken, before anything runs. `job` shares the segments out among Spark's tasks,
`delete` rewrites one of them; one without a matching row stays as it is.
"""
