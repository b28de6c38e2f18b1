"""Which tables are there, and how do they come to be?

`tables` states them, for Alembic, which writes the DDL of each database; `migrate` decides whether there is
anything to do, and `upgrade` does it, with SQLAlchemy loaded only then.
"""
