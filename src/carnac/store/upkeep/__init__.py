"""Upkeep of a store: garbage collection, leftovers of dead attempts, verification and scrubbing.

| Where is it decided … | |
|---|---|
| which files are garbage, and when they go? | `maintenance.py`; `tables.py` for files of Iceberg's tables |
| whether a deep storage belongs to this store? | `owner.py` |
| whether a file is what its record says, and which file is looked at next? | `verifying.py` |
| who may ask a process that serves? | `users.py` |

Who deletes a file, and when? Garbage collection alone (`Store.gc`; a serving overlord calls it regularly), in two
steps. A segment goes into the trash when no retained revision, tag or lease names it; `core.log.retention` says which
revisions are retained. After the trash period its file is deleted, and then its record.
A file that no record names is deleted once it is older than the safety period and than every living writer. Files of
erased segments are deleted at the next collection, without trash; a reader that may read one delays it for the trash
period at most.
"""
