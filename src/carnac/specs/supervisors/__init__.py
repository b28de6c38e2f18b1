"""Supervisors as data: what should be read from a stream, and how; Druid's own specs are read as they are."""
