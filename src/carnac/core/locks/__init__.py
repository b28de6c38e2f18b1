"""The lockbox, which decides which task may write where and when. A pure state machine: `docs/concepts/locking.md`.

| question | where |
|---|---|
| What is a lock, which locks may stand side by side, and which may preempt which? | `model.py` |
| Which events does the lockbox take, and how does it answer? | `events.py` |
| How is an event decided: grant, wait, revoke, refuse? | `machine.py`, over `draft.py` |
| Which request waits for which, and can it become a circle? | `waits.py` |
| Which lock does a task ask for, and at which priority? | `choice.py` |
| Which laws do locks and waits always keep? | `laws.py` |
"""
