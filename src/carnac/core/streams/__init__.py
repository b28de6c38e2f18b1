"""Decisions about streams of messages, as pure functions.

`partitions` says which task reads a partition, where reading starts and how far it is behind. `supervisors` says which
task each group should get now, and how healthy a supervisor is.
"""
