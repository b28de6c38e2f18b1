"""Supervisors as data: the stream to read, and how. Druid's own specs are read as they are.

`kafka` reads one into a `KafkaSupervisor`, `properties` the settings of Kafka's Java client in it. Which tasks a
supervisor has at a time is decided by `carnac.core.streams`.
"""
