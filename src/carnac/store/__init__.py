"""The store that `carnac.open` returns.

`store` has the methods; `services` makes what they need when they first need it. `reading` is the half that changes
nothing; `writing`, `streaming`, `compacting` and `upkeep` change the store.

| Where is it decided … | |
|---|---|
| which revision a query reads, and which segments it needs? | `querying.py` |
| in which form a result is handed out? | `results.py`, `exporting.py`; later, page by page: `kept_rows.py` |
| what a commit changed, and what its undoing would be? | `history.py` |
| which commits made a number another one? | `why.py` |
| what a receipt says, and how it is derived again? | `receipts.py` |
| how long files that are read or written are safe from garbage collection? | `leases.py` |
| what the tables of `sys` show? | `system_rows.py` |
| what a task of each type does here? | `jobs.py` |
"""

from carnac.store.store import Store

__all__ = ["Store"]
