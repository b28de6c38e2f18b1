"""What an answer says of itself, and whose turn it is to be answered.

When does a cache have to ask again? When an ETag changes, which it does exactly when the answer could: `receipts` makes
it, and the digests of a receipt. Which waiting query runs next? `admission` says.
"""
