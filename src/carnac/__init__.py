"""Carnac: an event store for teams who run Spark.

Events live in datasources, cut into time chunks of immutable Parquet segments. Every change is
one commit in one log, so every query reads one revision of the whole store.
"""

__version__ = "0.1.0"
