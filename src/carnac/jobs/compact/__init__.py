"""Rewrites of segments on Spark, each with its conservation proof.

`job` sends groups to Spark; `task` rewrites one inside a task: `read`, `measure`, `shape`, write, prove. What does
not fit into one task's memory is shared by several (`scatter`, `parts`, `gather`); a group of very many time chunks is
spread by ranges (`spread`).
"""
