"""How does the planner see a running cluster? `picture.cluster_of` makes its state from the log and the servers.

`planning.plan_cluster` makes one run of the planner on it. Its plan is in ids: loads, moves, copies that may go, and
segments that no rule wants or no server can take. `news.Newcomers` places new segments between two runs.
`deletions` finds the intervals that drop rules take out of the data.
"""
