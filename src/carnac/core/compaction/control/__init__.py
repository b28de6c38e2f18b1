"""The findings about time chunks that are kept between two plans, and the choice of the tasks that run now.

| Where is it decided … | |
|---|---|
| which chunks are analysed again? | `survey.py`, by the findings in `states.py` |
| which chunks wait, and which tasks they make? | `backlog.py` |
| which task runs now, within the capacity of tasks and of cost? | `manager.py` |
| what the controller does next? | `conductor.py`, which puts the others together |
| whether compaction keeps up, and how far it is? | `flow.py`, `progress.py` |
"""
