"""Tables of Iceberg: which there are, and the files of one, written when they are first asked for."""

from carnac.iceberg.tables import LoadedTable, Tables

__all__ = ["LoadedTable", "Tables"]
