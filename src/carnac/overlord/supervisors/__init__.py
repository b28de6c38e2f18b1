"""Supervisors: specs of what is read from streams, and the tasks that read.

`service` keeps the specs and says how they stand; `rounds`, of the leading overlord, sees to it that each has its
tasks; `stream` asks Kafka how far it is.

A supervisor has no memory: its spec, its tasks and its position are in the metadata store, so whoever leads goes on
where another one was.
"""
