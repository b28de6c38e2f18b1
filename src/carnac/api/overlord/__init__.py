"""What does an overlord answer beside tasks and locks?

How much runs at a time, how datasources are compacted, how statements stand that run as tasks (`statements`), what is
read from streams (`supervisors`, which `supervisor_client` asks).
`compaction` has Druid's paths of overlords and its older ones of coordinators, for the same specs.
"""
