"""The answers of queries, second by second, when a server dies while segments are replaced.

| question | where |
|---|---|
| Which segments are replaced, how fast are servers, when does one die? | `scenario.py` |
| What does a query see in a second? | `courses.py` |
| What do servers hold, load and lose? | `fleet.py` |
| How is a query answered from announcements alone, and how from a told revision? | `ways.py` |
| How does a replacement run from the first second to the last? | `run.py` |
| What do three real historicals do? | `processes.py` |

The timeline of `tests/support` says which announced segments are visible. `core/rollout` decides the told revision and
which segments may be unloaded, as in a cluster.
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
