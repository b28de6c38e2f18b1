"""What should be loaded, dropped and moved now? `coordination.plan_run` decides one run of a coordinator.

`cluster.py` is what goes in, `plans.py` what comes out; `rules.py` and `replication.py` say what is wanted, `loads.py`
where it goes, `rerouting.py` where it would be loaded sooner, `moves.py` what is moved, `leaving.py` what may go and
what is served again, `limits.py` how much at a time.
"""
