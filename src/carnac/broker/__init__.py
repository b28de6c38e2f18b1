"""Brokers: they answer statements that are asked over a network, each from exactly one revision.

What happens to a statement: it waits for its turn (`waiting`, decided by `core.answers.admission`), is planned on one
revision that a reader's lease keeps, and is run: here, in the embedded engine (`embedded`), or by historicals
(`distributed`). Its rows are handed over as they come (`answer`); each statement leaves a line in the query log (`log`)
and in the metrics (`metrics`). `service` joins these.

What happens when a historical dies? `cluster` knows soon; `scatter` asks others for what it was asked, and counts what
a leaf sent (`parts`) only when its report is whole. Which revision is planned on, and what a coordinator is told of it,
is `membership`.
"""

from carnac.broker.service import Broker

__all__ = ["Broker"]
