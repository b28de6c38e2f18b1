"""The composition roots of processes that serve: one function for each role, and what joins them at one port.

`process.open_process` has each role add its parts to an `assembly`: `overlord`, `coordinator`, `historical` or
`broker`; `metrics` are of every process. What answers at the port is in `carnac.api`.

`cluster_status` asks the servers of a running cluster what they hold, for the command line; `own_tables` reads a
cluster from files instead.
"""
