"""Benchmarks: each writes its results, with the machine, to `benchmarks/results/`. Folders are experiments."""
