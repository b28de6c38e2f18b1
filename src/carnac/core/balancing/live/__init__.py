"""What is a running cluster to the planner? `picture.cluster_of` makes its state of what the log and servers say.

`planning.plan_cluster` has one run of the planner on it and says in ids what is to be done: loads, moves, what may go,
what nobody wants or can take. `news.Newcomers` places new segments between two runs.
`deletions` finds what drop rules take out of the data.
"""
