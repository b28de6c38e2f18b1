"""Brokers: they answer statements that are asked over a network, each from exactly one revision.

What happens to a statement: it waits for its turn (`waiting`, decided by `core.answers.admission`), is planned on one
revision that a reader's lease keeps, and is run: here, in the embedded engine (`embedded`). Its rows are handed over as
they come (`answer`); each statement leaves a line in the query log (`log`) and in the metrics (`metrics`).
`service` joins these: it is the port `QueryService`.
"""

from carnac.broker.service import Broker

__all__ = ["Broker"]
