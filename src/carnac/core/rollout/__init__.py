"""From published to queried everywhere: which revision brokers plan on, and which copies of segments may go.

A new revision is loaded, then brokers are told of it, then they confirm, then what it dropped is unloaded. Each step is
decided anew from what is true now; nothing is remembered between decisions, so any process may take the next one.

| question | where |
|---|---|
| Which revisions need which segment? | `lives.py`: what a leader keeps in memory of the log |
| What does a decision depend on? | `model.py`: servers, brokers, the log, the clock |
| Which revision is told, what waits, what is unloaded? | `deciding.py`: `decide_rollout` |
| Which revision does a broker plan on, and which does it still read? | `model.py` |
| What must always hold? | RO-1 to RO-7, checked by `tests/support/laws/rollout.py` |

Source: the proposal of Git-inspired versions, Scenarios. We depart from its tables, which disagree with its story, and
add what it leaves open: lost messages, lost servers, a second leader, and loads that never end.
"""
