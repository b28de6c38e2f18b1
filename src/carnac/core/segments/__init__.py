"""A segment: one immutable Parquet file, described by its record; its version, its columns, its partition.

`segment` is what planners and readers know of a segment, `record` how that is written down. `version` orders what lies
in one chunk, `partitioning` says which rows go to which partition, `schema` unites columns of segments that were
written at different times, and `evolution` says which changes of a type break queries.
"""
