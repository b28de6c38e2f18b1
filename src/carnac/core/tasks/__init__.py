"""Tasks: work that is kept until it is done. Attempts: tries at doing it. Decisions only.

| question | where |
|---|---|
| What are a task and an attempt, and which states are there? | `model.py` |
| Which task starts next, and which may be tried again? | `machine.py`: events in, decisions out, over rows |
| What can happen to a task? | `events.py` |
| Which overlord may dispatch? | `leadership.py`: one leader, for as long as its lease holds |
| What must always hold? | `laws.py`: TK-1 to TK-7 |
"""
