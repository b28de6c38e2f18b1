"""The rounds of the leading overlord over supervisors: each has the tasks that its spec asks for, and no others."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from carnac.core.streams.supervisors import (
    NextTask,
    SupervisorVersion,
    group_head,
    group_ids,
    plan_next,
)
from carnac.core.tasks.model import TaskState
from carnac.errors import Invalid
from carnac.ports.loops import safely
from carnac.ports.tasks import TaskFilter
from carnac.specs.supervisors.kafka import TASK_TYPE, load_supervisor

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore
    from carnac.overlord.tasks import TaskService
    from carnac.ports import Clock

LIVE_STATES = tuple(state for state in TaskState if not state.is_over)
LIVE_TASKS_MAX = 10_000
LOOKED_AT_MAX = 20
"""Number of newest tasks of a group that decide how long it waits after failures."""
RETRIES = {"retries": 3, "retryDelayMs": 500, "longestRetryDelayMs": 30_000}

_log = logging.getLogger(__name__)


class SupervisorRounds:
    """Starts tasks of supervisors, and ends those that no supervisor needs any more.

    Args:
        is_leader: Whether this process has the rounds now.
    """

    def __init__(
        self,
        metadata: MetadataStore,
        tasks: TaskService,
        clock: Clock,
        *,
        is_leader: Callable[[], bool] = lambda: True,
    ) -> None:
        self._metadata = metadata
        self._tasks = tasks
        self._clock = clock
        self._is_leader = is_leader

    def run_round(self) -> None:
        """Have a round, if this process leads. An error of one supervisor keeps no other from its tasks."""
        if not self._is_leader():
            return
        versions = self._metadata.supervisors()
        if not versions:
            return
        wanted: set[str] = set()
        unknown: list[str] = []
        for version in versions:
            problem = safely(
                _log,
                f"the round of supervisor {version.supervisor_id!r}",
                lambda version=version: wanted.update(self._wanted(version)),  # type: ignore[misc]
            )
            if problem is not None:  # which of its tasks it wants is told another time
                unknown.append(f"{group_head(version)}_")
        self._end_others(wanted, tuple(unknown))

    def _wanted(self, version: SupervisorVersion) -> tuple[str, ...]:
        """Return the groups that a supervisor is to have, each with its task, or soon."""
        if version.is_terminated:
            return ()
        spec: Mapping[str, Any] = json.loads(version.spec)
        try:
            supervisor = load_supervisor(spec)
        except Invalid as error:
            raise Invalid(f"its spec is not read any more: {error.message}") from None
        if supervisor.is_suspended:
            return ()
        groups = group_ids(version, supervisor.tasks)
        for group, group_id in enumerate(groups):
            newest = self._tasks.list(TaskFilter(group_id=group_id), limit=LOOKED_AT_MAX)
            after = plan_next(group_id, group, newest, self._clock.now_ms())
            if after is not None:
                self._submit(spec, supervisor.context, after)
        return groups

    def _submit(
        self, spec: Mapping[str, Any], context: Mapping[str, object], after: NextTask
    ) -> None:
        self._tasks.submit(
            {
                "type": TASK_TYPE,
                "id": after.task_id,
                "groupId": after.group_id,
                "supervisor": spec,
                "group": after.group,
                "context": {**RETRIES, **context},
            }
        )
        _log.info("task %s submitted", after.task_id)

    def _end_others(self, wanted: set[str], unknown: tuple[str, ...]) -> None:
        """Cancel tasks of specs that were replaced, suspended or terminated; rows that they published stay.

        Args:
            wanted: Groups whose tasks go on.
            unknown: Prefixes of other groups whose tasks go on, too.
        """
        live = self._tasks.list(
            TaskFilter(states=LIVE_STATES, type=TASK_TYPE), limit=LIVE_TASKS_MAX
        )
        for task in live:
            if task.group_id not in wanted and not task.group_id.startswith(unknown):
                self._tasks.cancel(task.task_id, reason="its supervisor does not want it any more")
                _log.info("task %s cancelled", task.task_id)

    def close(self) -> None:
        """Release connections; tasks go on."""
        self._tasks.close()
        self._metadata.close()
