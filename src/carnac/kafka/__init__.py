"""Kafka, by the library confluent-kafka: which partitions and offsets there are, and the messages between two of them.

Kafka keeps nothing of a group: no member, no commit of offsets. The reader says from where to where it reads.
"""
