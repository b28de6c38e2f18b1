"""Paths of the HTTP API that a process does not have, each with what does it."""

from __future__ import annotations

import re
from collections.abc import Sequence

HERE = "GET /docs lists what is here"
_BROKER = f"ask a broker: carnac serve; {HERE}"
_COORDINATOR = f"ask a coordinator: carnac serve; {HERE}"
_OVERLORD = f"ask an overlord: carnac overlord, or carnac serve; {HERE}"
KILL = "files of what was deleted are collected by carnac gc, or by a task of the type kill"
_USED = "what was deleted comes back with carnac revert REVISION; carnac log lists the commits"
_NO_PROTOBUF = "JDBC is spoken in JSON: leave out serialization=protobuf, and end the url in /druid/v2/sql/avatica/"
_CANDIDATES = "which servers hold which segments is asked in SQL, of sys.server_segments"
_NO_HISTORY = (
    "no history of compaction specs is kept: carnac compaction show prints those that are set"
)
_COMPACT = "the overlord that leads compacts by itself; carnac compact DATASOURCE does it at once"
_PLAN = "carnac compact --explain says what would be compacted now, and why"
_DATASOURCES = "/druid/(?:coordinator|indexer)/v1/datasources/[^/]+"
ORDERS: Sequence[tuple[str, re.Pattern[str], str]] = tuple(
    (method, re.compile(pattern), advice)
    for method, pattern, advice in (
        ("POST", f"{_DATASOURCES}/markUsed", _USED),
        ("POST", _DATASOURCES, _USED),
        ("POST", f"{_DATASOURCES}/segments/[^/]+", _USED),
        ("DELETE", f"{_DATASOURCES}/intervals/[^/]+", KILL),
        ("GET", "/druid/coordinator/v1/config/compaction/[^/]+/history", _NO_HISTORY),
        ("GET", "/druid/indexer/v1/compaction/config/datasources/[^/]+/history", _NO_HISTORY),
        ("POST", "/druid/coordinator/v1/compaction/compact", _COMPACT),
        ("POST", "/druid/indexer/v1/compaction/simulate", _PLAN),
        ("POST", "/druid/v2/candidates", _CANDIDATES),
        ("POST", "/druid/v2/sql/statements", _OVERLORD),
        ("POST", "/druid/v2/sql/task", _OVERLORD),
        ("POST", "/druid/v2/sql/avatica-protobuf", _NO_PROTOBUF),
    )
)
"""Requests of Druid's at paths that take others here: method, path, and what to do instead.

Source: Druid's documentation of its HTTP API.
"""
ELSEWHERE: Sequence[tuple[str, str]] = (
    (
        "/druid/indexer/v1/supervisor",
        f"supervisors are at an overlord, without hand-off of task groups: rows can be queried at once; {HERE}",
    ),
    (
        "/druid/indexer/v1/sampler",
        "specs are tried with carnac spec new FILE and carnac spec check FILE",
    ),
    (
        "/druid/indexer/v1/worker",
        "there are no middle managers: an overlord starts tasks itself, task_slots says how many",
    ),
    ("/druid/worker", "there are no middle managers: an overlord starts tasks itself"),
    (
        "/druid/indexer/v1/scaling",
        "there are no workers to scale: task_slots says how many tasks run at a time",
    ),
    (
        "/druid/indexer/v1/action",
        "tasks act on the store themselves; locks are at POST /druid/indexer/v1/lockedIntervals/v2",
    ),
    ("/druid/v2/sql/statements", _OVERLORD),
    ("/druid/v2/sql/task", _OVERLORD),
    ("/druid/v2/sql/avatica-protobuf", _NO_PROTOBUF),
    ("/druid/v2/sql", _BROKER),
    ("/druid/v2/datasources", _BROKER),
    ("/druid/v2", _BROKER),
    (
        "/druid/coordinator/v1/lookups",
        "lookups are commits of the store: their paths end in config or status at a coordinator, and JOIN lookup.NAME"
        " has them in SQL",
    ),
    ("/druid/listen/v1/lookups", "lookups are commits of the store: carnac lookups set NAME FILE"),
    (
        "/druid/coordinator/v1/config/history",
        "no history of it is kept: throttles are settings of a process, carnac servers shows which are decommissioned",
    ),
    ("/druid/coordinator/v1", _COORDINATOR),
    ("/carnac/v1/coordinator", _COORDINATOR),
    ("/druid/indexer/v1", _OVERLORD),
    ("/carnac/v1/tasks", _OVERLORD),
    ("/carnac/v1/leader", _OVERLORD),
    ("/carnac/v1/allocations", _OVERLORD),
    (
        "/druid-ext/basic-security",
        "users are set by carnac users set NAME --may read, write or admin",
    ),
    (
        "/proxy",
        "each process is asked by its own address; one that is overlord and coordinator, as carnac serve is without"
        " --role, answers for both",
    ),
    ("/druid/historical", "there are no such paths of historicals; carnac serve runs them"),
    ("/druid/broker", "there are no such paths of brokers; carnac serve runs them"),
)
"""Beginnings of paths, the longest of a kind first, and what to do instead: paths of Druid's, and of other roles.

Source: Druid's documentation of its HTTP API.
"""


def find_order(method: str, path: str) -> str | None:
    """Return what to do in place of a request that only Druid takes at a path; None: it is none of these."""
    found = (advice for of, pattern, advice in ORDERS if of == method and pattern.fullmatch(path))
    return next(found, None)


def what_instead(path: str) -> str:
    """Return what to do in place of asking for a path that is not here."""
    for beginning, advice in ELSEWHERE:
        if path == beginning or path.startswith(f"{beginning}/"):
            return advice
    return HERE
