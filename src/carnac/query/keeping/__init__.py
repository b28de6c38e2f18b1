"""Partial results that are kept: what a leaf statement gave over some segments, for whoever asks it again.

A leaf statement may be answered in parts: servers are dealt any slices, and the broker merges whatever they give. So
what it gave over some slices is a part of its answer over these and more. Segments, clips and the statement never
change, so what is kept needs no invalidation, and is right forever.

Open `store` for what is kept and for how long, `pieces` for what the key of a statement is, `leaf` for how an answer
is put together, `embedded` for statements of one process, `whole` for answers that are not made of parts.
"""
