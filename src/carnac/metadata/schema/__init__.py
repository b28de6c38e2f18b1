"""Which tables does the store have, and how are they made?

`layout` writes their DDL for each database; `migrate` decides whether there is anything to do, and does it.
"""
