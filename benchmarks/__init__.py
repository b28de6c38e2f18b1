"""Benchmarks: each writes its results, with the machine, to `benchmarks/results/`.

Folders are experiments; `support` has what all of them share.
"""
