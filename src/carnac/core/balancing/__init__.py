"""Which server should hold which segment.

`cost` says what two segments on one server cost each other, and what any segment would cost anywhere (`CostIndex`).
`plan` says what to load, drop and move: rules, throttles, decommissioning, moves (`plan_run` is a coordinator's run).

The only part of the core that uses NumPy and numba. Nothing here is imported before balancing is asked for.
"""
