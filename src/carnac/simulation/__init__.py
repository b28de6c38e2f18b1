"""A simulated cluster: what a balancing strategy makes of it, and what its users feel. Pure: a scenario and a seed.

`scenario` says what there is, `run` lets it happen, `measures` says what came of it.
"""
