"""Which tables are there, and how do they come to be?

`layout` writes their DDL for each database; `migrate` decides whether there is anything to do, and does it.
"""
