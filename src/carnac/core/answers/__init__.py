"""Receipts of answers, and the order in which queries run.

When does a cache have to ask again? When the ETag changes, which it does exactly when the answer could change.
`receipts` makes the ETag, and the digests of a receipt. How is the next waiting query chosen? `admission` decides.
"""
