"""The composition roots: the only modules that know everybody and join them.

| Where is it decided … | |
|---|---|
| which store a name means, and where its files are? | `store.locate_store`, `store.open_store` |
| which Spark, which engine, which runners a process gets? | `spark.py`, `engines.py`, `runners.py`, by the settings |
| what joins the service of tasks, the overlord's loop and an attempt? | `tasks.py` |
| what compacts: this process, a controller, an overlord? | `compaction.py` |
| what a process that serves consists of? | `serving` |
| how a load is begun or ended without Spark and engine? | `apart.py` |
| how metadata is copied, and its file examined? | `backup.py` |

`simulated` joins the same services over a simulated clock, network and disks.
"""
