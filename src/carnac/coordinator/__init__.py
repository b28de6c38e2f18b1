"""The coordinator: which server holds what, which revision brokers plan on. `core.balancing`, `core.rollout` decide.

How does a segment that was published come to a server? Each round of the leader (`coordinator`) follows the servers
that are alive (`fleet`, `links`) and the log (`following`), has a run of the planner if one is due, places what is new
at once (`planner`), and then decides what brokers are told and what may be unloaded (`rolling`). Load rules are read
by `rules`; what drop rules match is deleted by `dropping`, in a commit.
"""
