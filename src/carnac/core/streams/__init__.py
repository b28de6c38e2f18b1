"""Streams that tasks read: which partition is whose, from where to where it is read, what a supervisor says of it."""
