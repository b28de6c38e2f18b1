"""Upkeep of a store: garbage collection, leftovers of dead attempts, verification and scrubbing.

| Where is it decided … | |
|---|---|
| which files are garbage, and when they go? | `maintenance.py`; `tables.py` for files of Iceberg's tables |
| whether a deep storage belongs to this store? | `owner.py` |
| whether a file is what its record says, and which file is looked at next? | `verifying.py` |
| who may ask a process that serves? | `users.py` |
"""
