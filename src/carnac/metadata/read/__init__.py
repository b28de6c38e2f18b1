"""Which segments are visible at a revision, and which revisions are there?

`reader` loads the state of a datasource, now or in the past; `history` loads commits and says which are retained;
`retention` raises the errors for revisions that are gone. `rows` and `chunk_rows` are rows as values of the core.
"""
