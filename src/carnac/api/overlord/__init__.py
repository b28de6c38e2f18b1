"""Which requests does an overlord answer beside those for tasks and locks?

Requests for its slots (`workers`), for the compaction of datasources (`compaction`), for statements that run as tasks
(`statements`), and for supervisors of streams (`supervisors`, which `supervisor_client` asks).
`compaction` has Druid's paths of overlords and its older ones of coordinators, for the same specs.
"""
