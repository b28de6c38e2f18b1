"""The distribution of segments over servers.

`cost` computes the cost of two segments on one server, and of any segment on any server (`CostIndex`). `plan` decides
on loads, drops and moves by that: rules, throttles, decommissioning (`plan_run` is a coordinator's run). `live` turns
the log and the holdings of servers into the input of a run, and its plan into orders.

No other part of the core uses NumPy and numba. Nothing here is imported before balancing is needed.
"""
