"""From published to queried everywhere: the revision that brokers plan on, and the copies of segments that may go.

A new revision is loaded, then brokers are told of it, then they confirm, then segments that it dropped are unloaded.
Each step is decided anew from the present state. Nothing is remembered between decisions, so any process may take the
next one.

| question | where |
|---|---|
| Which revisions need which segment? | `lives.py`: a leader's memory of the log |
| On which facts does a decision depend? | `model.py`: servers, brokers, the log, the clock |
| Which revision is told, which segments wait, which are unloaded? | `deciding.py`: `decide_rollout` |
| Which revision does a broker plan on, and which does it still read? | `model.py` |
| Which laws must always hold? | RO-1 to RO-7, checked by `tests/support/laws/rollout.py` |

Source: the proposal of Git-inspired versions, Scenarios. We depart from its tables, which disagree with its story, and
add what it leaves open: lost messages, lost servers, a second leader, and loads that never end.
"""
