"""Which revisions may be forgotten, and does the store contradict itself?

`trimming` forgets revisions and marks segments as trash; `checks` counts rows and recomputes derived ones.
"""
