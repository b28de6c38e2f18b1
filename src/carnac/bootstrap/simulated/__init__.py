"""A whole cluster of real services over a simulated clock, threads, network and disks: `run` lets it live."""
