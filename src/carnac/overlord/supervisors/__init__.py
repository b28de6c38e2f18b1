"""Supervisors: specs of the streams that are read, and the tasks that read them.

`service` keeps the specs and shows their state; `rounds`, of the leading overlord, keeps the tasks of each going;
`stream` asks Kafka for offsets.

A supervisor has no memory: its spec, its tasks and its position are in the metadata store, so a new leader goes on
where the last one was.
"""
