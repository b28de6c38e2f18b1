"""Parts of native queries as pieces of SQL: filters, dimensions, aggregators, post-aggregators and expressions.

`values` is such a piece and its type, `scopes` says which columns there are. Druid's functions are in `table`, by what
they work on: `texts`, `numbers`, `instants`, `lists` and `documents`.
"""
