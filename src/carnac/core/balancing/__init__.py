"""Which server should hold which segment: the exact cost, placement, moves and rules.

The only part of the core that uses NumPy and numba. Nothing here is imported before balancing is asked for.
"""
