"""Which task may write where, and which places are taken before anything is written?

`locks` keeps the lockbox of `core.locks` in rows, `pending_rows` the reservations of segments.
"""
