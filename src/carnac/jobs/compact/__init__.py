"""Rewrites of segments on Spark, each with its conservation proof.

Two ways, one result. A group that memory holds and that needs no merging is one task *in memory* (`task`): `read`,
`measure`, put in order, write, prove. Everything else goes *by ranges* (`scatter`): rows are cut into part files
(`parts`, `stage`) that become segments, in one task or in many. `job` sends groups to Spark.

| Where is it decided … | |
|---|---|
| which inputs can share segments, and which columns these have? | `shape.py` |
| whether a group is one task, or is shared by several? | `scatter.wants_scatter`, `task.fits_memory` |
| where a group that is shared is cut? | `cuts.py`; `spread.py` for one of very many time chunks |
| which small groups share a task? | `job.py` |
| which rows are left out by the target's condition? | `filter.py`: Spark evaluates it between reading and cutting |
| that no row was lost, doubled or changed? | `conservation.py`, over the sums that `measure.py` takes |
"""
