"""Druid's words for times, texts and JSON as DuckDB's: what statements of SQL and expressions of specs have in common.

`joda` reads patterns of times, `times` has the functions of times, and `forms` the other ones; a form is an expression
over `_1`, `_2` and so on, which are the arguments. `forms.filled` puts the arguments in their places.
"""
