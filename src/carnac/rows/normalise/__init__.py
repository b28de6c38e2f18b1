"""From records to typed columns: the timestamp, the declared types, the shape that segments will have.

`shape` has the columns of a load, `projection` makes them of the fields of an input, as one SQL statement. What a cell
becomes is decided by `coerce`, what `__time` becomes by `timestamps`. A value that cannot be taken rejects its row; one
that is taken, but not as it was, is counted by its kind (`changes`).
"""
