"""A whole cluster in one process under one seed: its clock, its processes and threads, its network and its disks.

`kernel` lets one strand run at a time and chooses the next; `threads` is what services take for `threading`;
`storage`, `database` and `network` are ports that fail as the seed says; `oracle` knows which rows there must be.
The services themselves are the real ones: `carnac.bootstrap.simulated` joins them.
"""
