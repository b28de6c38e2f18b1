"""Statements in Spark's SQL: the same rows, names and types that the embedded engine gives, or a refusal.

The checked tree of a statement, in which views stand for datasources, is printed as Spark SQL. Only kinds of nodes,
functions and pairs of types that are known here pass, each with its equivalent in Spark. DuckDB gives the type of each
expression, and evaluates constant ones. So Spark never guesses a type, and every implicit cast of DuckDB is written
down.

Open `functions` for the functions that may be called, `kinds` for types and casts, `selects` for clauses.
"""
