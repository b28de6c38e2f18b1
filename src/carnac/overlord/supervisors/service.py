"""The service of supervisors: submit, look, suspend, reset, end. An overlord need not run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from carnac.core.arguments import checked
from carnac.core.log.commits import CommitKind, Publication
from carnac.core.redaction import HIDDEN
from carnac.core.streams.partitions import (
    Partition,
    parse_partition,
    parse_position,
    with_changes,
)
from carnac.core.streams.supervisors import (
    SupervisorVersion,
    group_ids,
    judge,
)
from carnac.core.tasks.model import Task
from carnac.core.texts import WHOLE_MAX
from carnac.errors import Conflict, Invalid, NotFound
from carnac.overlord.supervisors.rounds import LIVE_STATES, LOOKED_AT_MAX
from carnac.overlord.supervisors.shown import SupervisorView, state_shown, status_shown
from carnac.overlord.supervisors.stream import (
    LISTED_KEPT_MS,
    LISTED_WAIT_MS,
    Streams,
    StreamState,
)
from carnac.ports.closing import Closing
from carnac.ports.tasks import TaskFilter
from carnac.specs.supervisors.kafka import KafkaSupervisor, load_supervisor

if TYPE_CHECKING:
    from carnac.core.tasks.leadership import Leadership
    from carnac.metadata.store import MetadataStore
    from carnac.overlord.tasks import TaskService
    from carnac.ports import Clock

Ask = Callable[[int, KafkaSupervisor], StreamState]
"""Gives what Kafka says of a supervisor's stream, by the number of its spec."""
RESET_TRIES_MAX = 20
_PROPERTIES = ("spec", "ioConfig", "consumerProperties")


@checked
class SupervisorService(Closing):
    """The supervisors of a store. Safe for many threads. Use it in a `with` block, or call `close`."""

    def __init__(self, metadata: MetadataStore, tasks: TaskService, clock: Clock) -> None:
        self._metadata = metadata
        self._tasks = tasks
        self._clock = clock
        self._streams = Streams(clock)

    def submit_spec(self, spec: Mapping[str, object]) -> str:
        """Keep a spec, in place of the one of the same id; return that id. Its tasks start anew from the position.

        Raises:
            Invalid: The spec is wrong; one sentence names every problem.
        """
        supervisor_id = load_supervisor(spec).supervisor_id
        kept = self._with_secrets(supervisor_id, spec)
        self._put(supervisor_id, kept)
        return supervisor_id

    def ids(self) -> tuple[str, ...]:
        """Return the ids of the supervisors that are not terminated."""
        return tuple(
            one.supervisor_id for one in self._metadata.supervisors() if not one.is_terminated
        )

    def version(self, supervisor_id: str) -> SupervisorVersion:
        """Return a supervisor as it is kept.

        Raises:
            NotFound: There is none.
        """
        for one in self._metadata.supervisors():
            if one.supervisor_id == supervisor_id and not one.is_terminated:
                return one
        raise NotFound(
            f"cannot find any supervisor with id: [{supervisor_id}]", supervisor_id=supervisor_id
        )

    def spec(self, supervisor_id: str) -> Mapping[str, object]:
        """Return a spec as it was posted, secrets and all.

        Raises:
            NotFound: There is no such supervisor.
        """
        found: Mapping[str, object] = json.loads(self.version(supervisor_id).spec)
        return found

    def view(self, supervisor_id: str, *, asks: bool = True) -> SupervisorView:
        """Return a supervisor and what is known of it.

        Args:
            asks: Ask Kafka for its offsets, unless it was asked a moment ago.

        Raises:
            NotFound: There is no such supervisor.
        """
        known = self._streams.known
        ask: Ask = self._streams.ask if asks else lambda number, _: known(number)
        return self._view(self.version(supervisor_id), ask)

    def views(self) -> tuple[SupervisorView, ...]:
        """Return all supervisors and what is known of them; Kafka is asked of what it has not told lately."""
        started_ms = self._clock.now_ms()

        def ask(number: int, supervisor: KafkaSupervisor) -> StreamState:
            if supervisor.is_suspended or self._clock.now_ms() - started_ms >= LISTED_WAIT_MS:
                return self._streams.known(number)
            return self._streams.ask(number, supervisor, kept_ms=LISTED_KEPT_MS)

        kept = self._metadata.supervisors()
        return tuple(self._view(one, ask) for one in kept if not one.is_terminated)

    def states(self) -> Sequence[Mapping[str, Any]]:
        """Return how all supervisors stand, in Druid's words."""
        return [state_shown(one) for one in self.views()]

    def status(self, supervisor_id: str) -> Mapping[str, Any]:
        """Return how a supervisor stands, whole, in Druid's words.

        Raises:
            NotFound: There is no such supervisor.
        """
        return status_shown(self.view(supervisor_id))

    def leader(self) -> Leadership | None:
        """Return the overlord that leads, and so has the tasks of supervisors; None: none does."""
        return self._tasks.leader()

    def history(self) -> Mapping[str, Sequence[SupervisorVersion]]:
        """Return what was set, by id, the newest first."""
        found: dict[str, list[SupervisorVersion]] = {}
        for one in self._metadata.supervisor_history():
            found.setdefault(one.supervisor_id, []).append(one)
        return found

    def suspend(self, supervisor_id: str) -> Mapping[str, object]:
        """Have a supervisor read nothing until it is resumed; return its spec. Idempotent.

        Raises:
            NotFound: There is no such supervisor.
        """
        return self._set_suspended(supervisor_id, is_suspended=True)

    def resume(self, supervisor_id: str) -> Mapping[str, object]:
        """Have a supervisor read on from where it was; return its spec. Idempotent.

        Raises:
            NotFound: There is no such supervisor.
        """
        return self._set_suspended(supervisor_id, is_suspended=False)

    def terminate(self, supervisor_id: str) -> None:
        """End a supervisor. Its position stays: one of the same id that is submitted later reads on from there.

        Raises:
            NotFound: There is no such supervisor.
        """
        self._put(self.version(supervisor_id).supervisor_id, None)

    def reset(self, supervisor_id: str) -> None:
        """Forget the position of a supervisor. It begins anew, at the earliest messages or at the end as its spec says.

        Rows of messages that it reads again are there twice then.

        Raises:
            NotFound: There is no such supervisor.
        """
        self.version(supervisor_id)
        self._move(supervisor_id, None)

    def reset_offsets(self, supervisor_id: str, offsets: Mapping[str, object]) -> None:
        """Set the position in some partitions.

        Args:
            offsets: Offset of the message to read next, by `topic/number`.

        Raises:
            NotFound: There is no such supervisor.
            Invalid: A name is none of a partition, or an offset is no whole number from 0.
        """
        supervisor = load_supervisor(self.spec(supervisor_id))
        wanted: dict[Partition, int | None] = {}
        for name, offset in offsets.items():
            if (
                isinstance(offset, bool)
                or not isinstance(offset, int)
                or not 0 <= offset <= WHOLE_MAX
            ):
                raise Invalid(f"the offset of {name} must be a whole number from 0, not {offset!r}")
            partition = parse_partition(name)
            if not supervisor.reads(partition.topic):
                raise Invalid(
                    f"supervisor '{supervisor_id}' reads no topic '{partition.topic}'; it reads {supervisor.topic}"
                )
            wanted[partition] = offset
        self._move(supervisor_id, wanted)

    def close(self) -> None:
        """Release connections. Idempotent."""
        self._tasks.close()
        self._metadata.close()

    # --------------------------------------------------------------------------------------------------- parts

    def _counts(self, task: Task) -> Mapping[str, int]:
        """Return what the last attempt of a task says that it has read; empty if it says nothing."""
        attempts = self._tasks.attempts(task.task_id) if task.attempts else ()
        text = attempts[-1].progress if attempts else None
        told: Mapping[str, Any] = json.loads(text) if text else {}
        return told.get("counts") or {}

    def _view(self, version: SupervisorVersion, ask: Ask) -> SupervisorView:
        supervisor = load_supervisor(json.loads(version.spec))
        groups = {
            group_id: self._tasks.list(TaskFilter(group_id=group_id), limit=LOOKED_AT_MAX)
            for group_id in group_ids(version, supervisor.tasks)
        }
        stream = ask(version.number, supervisor)
        reached = self._metadata.position(version.supervisor_id).values()
        return SupervisorView(
            version=version,
            supervisor=supervisor,
            groups=groups,
            counts={
                tasks[0].task_id: self._counts(tasks[0])
                for tasks in groups.values()
                if tasks and not tasks[0].state.is_over
            },
            position=supervisor.own(parse_position({one.source: one.offset for one in reached})),
            stream=stream,
            standing=judge(
                is_suspended=supervisor.is_suspended,
                groups=groups,
                stream_error=stream.error,
                now_ms=self._clock.now_ms(),
            ),
        )

    def _put(self, supervisor_id: str, spec: Mapping[str, object] | None) -> None:
        text = "" if spec is None else json.dumps(spec, ensure_ascii=False)
        self._metadata.put_supervisor(supervisor_id, text)

    def _set_suspended(self, supervisor_id: str, *, is_suspended: bool) -> Mapping[str, object]:
        spec = {**self.spec(supervisor_id)}
        if load_supervisor(spec).is_suspended is is_suspended:
            return spec
        inner = spec.get("spec")
        if isinstance(inner, dict):
            spec["spec"] = {name: one for name, one in inner.items() if name != "suspended"}
        spec["suspended"] = is_suspended
        self._put(supervisor_id, spec)
        return spec

    def _with_secrets(self, supervisor_id: str, spec: Mapping[str, object]) -> Mapping[str, object]:
        """Return a spec in which `***`, as it is shown for a secret, stands for the secret of the spec before.

        Raises:
            Invalid: There is none before.
        """
        new: Any = deepcopy(dict(spec))
        hidden = [name for name, one in _properties(new).items() if one == HIDDEN]
        if not hidden:
            return spec
        try:
            before = _properties(self.spec(supervisor_id))
        except NotFound:
            before = {}
        for name in hidden:
            if name not in before:
                raise Invalid(
                    f"{'.'.join(_PROPERTIES)}.{name} is {HIDDEN}; write the secret itself"
                )
            _properties(new)[name] = before[name]
        found: Mapping[str, object] = new
        return found

    def _move(self, supervisor_id: str, wanted: Mapping[Partition, int | None] | None) -> None:
        """Set the position in partitions (None: forget it), then have its tasks begin there."""
        for _ in range(RESET_TRIES_MAX):
            held = self._metadata.position(supervisor_id)
            position = parse_position({one.source: one.offset for one in held.values()})
            start, end = with_changes(
                position, dict.fromkeys(position) if wanted is None else wanted
            )
            if end == start:
                break
            try:
                self._metadata.publish(
                    Publication(
                        kind=CommitKind.APPEND,
                        writer=supervisor_id,
                        offsets=end,
                        after=start,
                        message=f"reset of supervisor {supervisor_id}",
                    )
                )
                break
            except Conflict:
                continue  # a task has published meanwhile
        else:
            raise Conflict(
                f"the position of supervisor {supervisor_id} moves all the time; suspend it, reset it, and resume it"
            )
        version = self.version(supervisor_id)
        for group_id in group_ids(version, load_supervisor(json.loads(version.spec)).tasks):
            which = TaskFilter(group_id=group_id, states=LIVE_STATES)
            for task in self._tasks.list(which, limit=LOOKED_AT_MAX):
                self._tasks.cancel(task.task_id, reason="its supervisor was reset")


def _properties(spec: Any) -> dict[str, Any]:
    """Return the properties of the connection in a spec, with or without Druid's envelope."""
    inner = spec.get("spec") if isinstance(spec.get("spec"), Mapping) else spec
    io = inner.get("ioConfig")
    found = io.get("consumerProperties") if isinstance(io, Mapping) else None
    return found if isinstance(found, dict) else {}
