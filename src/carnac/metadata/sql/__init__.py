"""With which statements does the store ask its database? Each is here once, as SQL.

By subject: `statements` (publishing), `queries` (reading), `trimming`, `checks`, `locks`, `tasks`, `pending_rows`
(allocation), `compaction`, `supervisors`. Their tables are made by `carnac.metadata.schema`.

`dialects` holds the differences of SQLite and PostgreSQL, `columns` the columns of all tables.
"""
