"""Partial results that are kept: the rows of a leaf statement over some segments, for the next one that asks the same.

A leaf statement may be answered in parts, because servers get any slices and the broker merges their rows. So the rows
over some slices are a part of the answer over these and more. Segments, clips and the statement never change, so a kept
result needs no invalidation and is right forever.

Open `store` for the results and how long they are kept, `pieces` for the key of a statement, `leaf` for how an answer
is put together, `embedded` for statements of one process, `whole` for answers that are not made of parts.
"""
