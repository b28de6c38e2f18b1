"""The loads, drops and moves of segments. `coordination.plan_run` decides one run of a coordinator.

`cluster.py` is the input, and `plans.py` the output. `rules.py` and `replication.py` decide on the replicas, `loads.py`
on their servers, `rerouting.py` on servers that would load them sooner, and `moves.py` on moves. `leaving.py` decides
which replicas may go and which are served again, `limits.py` how many at a time.
"""
