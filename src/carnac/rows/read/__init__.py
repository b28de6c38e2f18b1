"""From files to records: lines, CSV, JSON, Parquet, ORC, Arrow. Unreadable records are rejected with their reasons.

`reading` is one task of it, from files or Arrow data to normalised rows; `direct` does the same for plain tables in
memory without an engine; `messages` and `message_ranges` are for records of streams.

| Where is it decided … | |
|---|---|
| which files an input has, and in which format? | `inputs.py`; which may be read at all: `roots.py` |
| which task reads which range of a large file? | `ranges.py` |
| where a record ends, and what its fields are? | `lines.py`, `csv.py`, `json.py` and `arrays.py`, `columnar.py` |
| where in a record a field is? | `paths.py` |
| which fields and types there are, if the spec does not say? | `discover.py` |
| what is kept of a row that is rejected? | `rejections.py` |
"""
