"""The coordinator: which server holds what, which revision brokers plan on. `core.balancing`, `core.rollout` decide.

How does a segment that was published come to a server? Each round of the leader (`coordinator`) follows the servers
that are alive (`fleet`, `links`) and the log (`following`), has a run of the planner if one is due, places what is new
at once (`planner`), and then decides the told revision and what may be unloaded (`rolling`). `rules` reads load rules.
`dropping` deletes, in a commit, the segments that drop rules match.
"""
