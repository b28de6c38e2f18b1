"""Streams that tasks read: the owners of partitions, the offsets to read, and the supervisors' statements."""
