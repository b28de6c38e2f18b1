"""What native queries make of groups, as pieces of SQL: aggregators, post-aggregators and conditions after them.

What they make of rows (filters, dimensions, expressions) they have in common with loads: `specs.druid.terms`.
"""
