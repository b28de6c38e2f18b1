"""The log: what a commit is, and what becomes of a publication.

`commits` has what a writer asks for (`Publication`) and what the log keeps (`Commit`). `publishing` turns the one
into the other: `layout` finds the time chunk of a row, `appending` lets an append join the chunks that are there,
`drafts` carves and re-enters chunks for replacements, `allocation` honours places that were promised. `revisions` is
the algebra of states, `reverting` undoes a commit, `retention` says what history stays, `laws` what must always hold.
"""
