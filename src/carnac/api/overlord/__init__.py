"""What does an overlord answer beside tasks and locks? How much runs at a time, and how datasources are compacted.

`compaction` has Druid's paths of overlords and its older ones of coordinators, for the same specs.
"""
