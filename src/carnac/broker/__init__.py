"""Brokers: they answer statements that are asked over a network, each from exactly one revision.

A statement waits for its turn (`waiting`, decided by `core.answers.admission`) and is planned on one revision that a
reader's lease keeps. It runs here, in the embedded engine (`embedded`), or on historicals (`distributed`). Its rows are
handed over as they come (`answer`). Each statement leaves a line in the query log (`log`) and in the metrics
(`metrics`). `service` joins these.

Which server answers which segment? `core.answers.replicas.plan_reads` deals the segments out anew for each statement:
to a server that has the segment on its disk, else to one that loads it, else to any, which reads it from deep storage.
Among several, hashing chooses one whose share is not full, so the same question finds the same server's kept results.

How does a broker survive the death of a historical? `cluster` knows of it soon. `scatter` sends the requests of that
historical to others, and counts the rows of a leaf (`parts`) only when its report is whole. `membership` knows the
revision to plan on, and tells the coordinator of it.
"""

from carnac.broker.service import Broker

__all__ = ["Broker"]
