"""The statements of the store, stated in SQLAlchemy. Nothing imports this package while a store is used.

`python scripts/statements.py` writes their texts into `carnac.metadata.texts`, which is what runs.
`docs/decisions/0018-statements-as-texts.md` says why.
"""
