"""Kafka, by the library confluent-kafka: which partitions and offsets there are, and the messages between two of them.

Nothing of a group is kept by Kafka: no member, no commit of offsets. Whoever reads says from where to where.
"""
