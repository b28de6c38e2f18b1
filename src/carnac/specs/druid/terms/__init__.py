"""Druid's expressions, filters and dimensions as pieces of DuckDB's SQL, for queries and for rows that are loaded.

`values` is such a piece and its type, `scopes` says which columns there are. Functions are in `table`, by what they
work on: `texts`, `numbers`, `instants`, `lists` and `documents`.
"""
