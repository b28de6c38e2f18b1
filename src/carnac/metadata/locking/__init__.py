"""Where may a task write, and which places are reserved before anything is written?

`locks` keeps the lockbox of `core.locks` in rows, `pending_rows` the reservations of segments.
"""
