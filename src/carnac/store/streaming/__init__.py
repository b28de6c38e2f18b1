"""A task that reads a stream: from the position in the log to rows that can be queried, once.

`gathering` collects what Kafka gives, `reading` publishes it every few seconds with the range of offsets that it is.
"""
