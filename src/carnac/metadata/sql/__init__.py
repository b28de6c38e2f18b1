"""What does the store ask its database? Every statement, once, as SQL.

By subject: `statements` (publishing), `queries` (reading), `trimming`, `checks`, `locks`, `tasks`, `pending_rows`
(allocation), `compaction`, `supervisors`. Their tables are made by `carnac.metadata.schema`.

`dialects` says how SQLite and PostgreSQL differ; `columns` states those of all tables.
"""
