"""Rows inside one task, without Spark: Arrow batches in, sorted segment files out.

`read` opens files and finds records in them, `normalise` makes typed columns of them, `rollup` puts them together,
`parts` cuts them into time chunks, `sorting` and `merge` order them, `segment_writer` writes the file, and `row_hash`
is what proves it.
"""
