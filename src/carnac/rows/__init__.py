"""Rows inside one task, without Spark: Arrow batches in, sorted segment files out.

`read` opens files and finds records in them, `normalise` makes typed columns of them, `rollup` puts them together,
`parts` cuts them into time chunks, `sorting` and `merge` order them, `segment_writer` writes the file, and `row_hash`
is what proves it. `infer` finds the spec of data that has none.

| Where is it decided … | |
|---|---|
| which value a cell has, and whether its row is rejected? | `normalise/coerce.py`; of `__time`: `timestamps.py` |
| which columns rows have, and of which types? | `normalise/shape.py`; `read/discover.py` if the spec leaves it open |
| to which chunk a row goes, and whether it is late? | `parts.py`, over the chunks that `core.log.layout` chose |
| in which order rows lie in a segment? | `sorting.py`; in memory by `packed_sort.py` |
| where one segment ends and the next begins? | `cutting.py` |
| how a file is encoded and compressed? | `segment_writer.py` |
| when a file stands under its name, and what a full disk does? | `output.py` |
| whether two sets of rows are the same? | `row_hash.py` over `value_codes.py`; of an answer: `answer_digest.py` |
"""
