"""How much does a segment cost on each server? Start at `joint.py` for two segments, at `index.py` for whole clusters.

`field.py` is how the index answers in microseconds, and every compiled loop of it; `grids.py` cuts time for it.
"""
