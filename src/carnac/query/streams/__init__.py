"""Answers of SELECT statements, batch by batch.

`streaming` runs a statement so that memory does not grow with its answer. `basis` says what the answer rests on, for
receipts and ETags: the statement, the segments, their columns, and small tables.
"""
