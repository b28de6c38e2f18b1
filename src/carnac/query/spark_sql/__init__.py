"""Statements in Spark's SQL: the same rows, names and types that the embedded engine gives, or a refusal.

The checked tree of a statement, in which views stand for datasources, is printed as Spark SQL. Nothing passes that is
not known here: kinds of nodes, functions, and pairs of types, each with what means the same in Spark. DuckDB says which
type each expression has, and evaluates what is constant; so Spark is never asked to guess a type, and every implicit
cast of DuckDB is one that is written down.

Open `functions` for what may be called, `kinds` for types and casts, `selects` for clauses.
"""
