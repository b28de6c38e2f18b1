"""The distribution of segments over servers.

`cost` computes the cost of two segments on one server, and of any segment on any server (`CostIndex`).
`plan` decides on loads, drops and moves: rules, throttles, decommissioning (`plan_run` is a coordinator's run).

No other part of the core uses NumPy and numba. Nothing here is imported before balancing is needed.
"""
