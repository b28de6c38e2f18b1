"""Tables of Iceberg: which there are, and the files of one, written when they are first asked for.

What does a client read? The segment files themselves. `tables` makes the metadata and manifests that name them, as
`core.iceberg` says, and puts them where deep storage is; `positions` writes which rows of a clipped segment are hidden.
"""

from carnac.iceberg.tables import LoadedTable, Tables

__all__ = ["LoadedTable", "Tables"]
