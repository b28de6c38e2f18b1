"""What queries see, second by second, when a server dies while segments are replaced.

| question | where |
|---|---|
| What is replaced, how fast are servers, when does one die? | `scenario.py` |
| What does a query see in a second? | `courses.py` |
| What do servers hold, load and lose? | `fleet.py` |
| How is a query answered from announcements alone, and how from a told revision? | `ways.py` |
| What happens, from the first second to the last? | `run.py` |
| What do three real historicals do? | `processes.py` |

Both ways run the code that they are about: `core/timeline` decides what announced segments show, `core/rollout` what
brokers are told and what may be unloaded.
"""

from benchmarks.replacement.courses import AnswerKind, Course, Second
from benchmarks.replacement.run import simulate, simulate_all
from benchmarks.replacement.scenario import Death, Replacement, Way

__all__ = [
    "AnswerKind",
    "Course",
    "Death",
    "Replacement",
    "Second",
    "Way",
    "simulate",
    "simulate_all",
]
