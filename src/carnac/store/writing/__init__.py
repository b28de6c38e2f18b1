"""From what a person asks for to one publication: loads, appends, deletions, cleaning.

`writer` leads each of them: it asks whether `(writer, batch)` was published before, takes a writer's lease, notes which
segments show what (`shown`), has the rows read and written (`carnac.jobs`: on Spark, of an append in this process), and
publishes.

| Where is it decided … | |
|---|---|
| by which spec rows are read that come without one? | `loading.py`, by `declarations.py` or by the data |
| into which chunks a load cuts its rows, and which are late? | `chunking.py` |
| that a load was published before, or is the next part of a source? | `ranges.py` |
| which changes of columns and types are told, and which are refused? | `noticing.py` |
| which locks a write of a task needs, and which places? | `guarding.py` |
| what a deletion, an erasure, a cleaning publishes? | `deleting.py`, `erasing.py`, `cleaning.py` |

`streaming` does batch by batch what a load does; `apart` begins and ends a load whose rows other processes write.
What the publication becomes in the log is decided by `carnac.core.log`.
"""
