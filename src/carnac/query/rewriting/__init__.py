"""How is a statement rewritten before it runs, so that it means the same and reads less?

Subqueries that give rows of a table become the table (`wrapping`, as a side of a join `sides`, by what they list:
`listing`), common tables become subqueries (`repeating`). DuckDB computes buckets of time (`bucketing`), sketches
(`sketching`), documents (`documents`) and short lists (`membership`) with less work then.
"""
