"""A simulated cluster under a balancing strategy, as its servers and its users see it. Pure: a scenario and a seed.

`scenario` describes the cluster and its future, `run` lets it happen, `measures` measures the result.
"""
