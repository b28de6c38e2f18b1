"""The lockbox: which task may write what, when. A pure state machine; `docs/concepts/locking.md` tells its story.

| question | where |
|---|---|
| What is a lock; what may stand beside what; which may preempt which? | `model.py` |
| What happens to the lockbox, and what does it answer? | `events.py` |
| What becomes of an event: grant, wait, revoke, refuse? | `machine.py`, over `draft.py` |
| Which request waits for which, and can it become a circle? | `waits.py` |
| Which lock does a task ask for, and at which priority? | `choice.py` |
| How are the locks of a store held in memory? | `table.py` |
"""
