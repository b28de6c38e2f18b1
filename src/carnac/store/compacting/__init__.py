"""How a store rewrites the segments of a compaction.

`compactor` looks the groups up and takes a lease; `run` has each rewritten, watches new commits meanwhile and publishes
what it became; `store_view` is all that a run asks of the store; `reports` are what a caller gets back.
"""
