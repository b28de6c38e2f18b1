"""What queries see, second by second, when a server dies while segments are replaced.

| question | where |
|---|---|
| What is replaced, how fast are servers, when does one die? | `scenario.py` |
| What does a query see in a second? | `courses.py` |
| What do servers hold, load and lose? | `fleet.py` |
| How is a query answered from announcements alone, and how from a told revision? | `ways.py` |
| What happens, from the first second to the last? | `run.py` |
| What do three real historicals do? | `processes.py` |

What announced segments show says the timeline of `tests/support`; what brokers are told and what may be unloaded is
decided by `core/rollout`, as in a cluster.
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
