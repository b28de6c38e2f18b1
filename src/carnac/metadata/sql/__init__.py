"""What does the store ask its database? Every statement, once, as SQL.

By subject: `statements` (publishing), `queries` (reading), `trimming`, `checks`, `locks`, `tasks`, `pending_rows`
(allocation), `compaction`. The tables that they are about are stated in `carnac.metadata.schema.tables`.

`dialects` says how SQLite and PostgreSQL differ; `columns` states those of all tables. A module of statements
imports nothing else, so that a reader of the store never loads SQLAlchemy.
"""
