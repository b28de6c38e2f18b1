"""Supervisors as data: the stream to read, and how. Druid's own specs are read as they are."""
