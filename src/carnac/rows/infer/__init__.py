"""Inference from the data of how to read it.

`sampling` takes a sample and makes the spec that it shows, `columns` finds the type of each column and the formats of
its times, `schema` goes by the types of rows alone, which nobody has seen yet.

Which column is the time, and how long a time chunk is, is decided by `carnac.specs.ingest.inference`.
"""
