"""Rewrites of segments on Spark, each with its conservation proof.

Two ways, one result. A group that memory holds and that needs no merging is one task *in memory* (`task`): `read`,
`measure`, put in order, write, prove. Everything else goes *by ranges* (`scatter`): rows are cut into part files
(`cuts`, `parts`) that become segments, in one task or in many. `job` sends groups to Spark, `spread` divides
one of very many time chunks, `filter` has Spark evaluate a condition between reading and cutting.
"""
