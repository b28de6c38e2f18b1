"""The store that `carnac.open` returns.

`store` has the methods; `services` makes what they need when they first need it. `reading` is the half that changes
nothing: `querying` gives each query one revision, `results` and `exporting` hand out its rows, `history` lists commits
and tags, `receipts` and `why` explain answers, `leases` protect files that are read. `writing`, `streaming`,
`compacting` and `upkeep` change the store. `jobs` does the work of each type of task.
"""

from carnac.store.store import Store

__all__ = ["Store"]
