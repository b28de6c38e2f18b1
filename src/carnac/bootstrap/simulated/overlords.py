"""Overlords, the processes of attempts, and compaction's control, put together as `carnac overlord` does."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from carnac.bootstrap.compaction import CompactionLoop
from carnac.bootstrap.serving.overlord import compaction_loop
from carnac.bootstrap.simulated.world import SETTINGS, Host
from carnac.bootstrap.tasks import clear_up, keep_up, load_checked, mark_of_attempt
from carnac.errors import CarnacError
from carnac.overlord.attempt import run_attempt
from carnac.overlord.lockbox import Lockbox
from carnac.overlord.loop import LoopSettings, OverlordLoop
from carnac.overlord.tasks import TaskService
from carnac.store.jobs import StoreJobs

if TYPE_CHECKING:
    from carnac.bootstrap.simulated.world import World
    from carnac.core.tasks.model import Attempt, Task
    from carnac.simulation.cluster.kernel import Process

OVERLORD = SETTINGS.model_copy(
    update={
        "task_slots": 4,
        "task_start_timeout_ms": 15_000,
        "overlord_upkeep_period_ms": 20_000,
        "compaction_period_ms": 6_000,
        "compaction_task_slots": 2,
    }
)
PERIOD_MS = 1_500
JOB_MS = 8_000
"""A job takes so long at most: others come for the same locks meanwhile."""
GRACE_MS = 3_000
"""A process that is told to end takes so long at most."""


class SimulatedRunner:
    """Port `TaskRunner`: a process for each attempt, on the machine of the overlord that starts it.

    An overlord on another machine cannot tell whether it lives, and goes by its signs of life.
    """

    name = "process"

    def __init__(self, world: World, machine: str) -> None:
        self._world, self._machine = world, machine

    def start(self, task: Task, attempt: Attempt) -> str:
        """Start a process; return its handle."""
        del task
        world, owner = self._world, attempt.lock_owner
        world.kernel.pause(1, 500)
        if owner in world.attempts.owners.values():
            world.kernel.violate("attempts", f"attempt {owner} is started twice")
        process = world.launch(owner, partial(_attempt, attempt))
        handle = f"{self._machine}/{len(world.attempts.running)}"
        world.attempts.running[handle] = process
        world.attempts.owners[process] = owner
        return handle

    def is_alive(self, handle: str) -> bool | None:
        """Say whether a process of this machine is there."""
        if not handle.startswith(f"{self._machine}/"):
            return None
        return not self._world.attempts.running[handle].is_dead

    def stop(self, handle: str) -> None:
        """Let a process of this machine end soon."""
        if handle.startswith(f"{self._machine}/"):
            end_soon(self._world, self._world.attempts.running[handle])

    def read_log(self, attempt: Attempt, *, tail_bytes: int | None = None) -> str | None:
        """Return None: there are no logs."""
        del attempt, tail_bytes
        return None

    def forget(self, attempt: Attempt) -> None:
        """Do nothing: there are no logs."""

    def close(self) -> None:
        """Do nothing: attempts go on."""


def end_soon(world: World, process: Process) -> None:
    """Have a process end in a while; until then it works on."""
    after_ms = world.kernel.faults.randint(0, GRACE_MS)

    def end() -> None:
        world.kernel.sleep(after_ms)
        world.kernel.kill(process)

    world.kernel.spawn(world.god, f"end {process.name}", end)


def _attempt(attempt: Attempt, host: Host) -> None:
    """Run an attempt, as `carnac task attempt` does."""
    ids = host.marked_ids(mark_of_attempt(attempt))
    note = host.kernel.note
    with host.open_store(ids, job_ms=JOB_MS) as store:
        jobs = StoreJobs(store, find_payload=host.metadata.task_payload, clock=host.clock)
        try:
            run_attempt(
                host.metadata,
                open_lockbox(host),
                jobs,
                host.clock,
                holder=host.process.name,
                task_id=attempt.task_id,
                number=attempt.number,
                on_lost=lambda: end_soon(host.world, host.process),
            )
        except CarnacError as error:
            note(f"attempt fails: {type(error).__name__}: {error.message[:160]}")
        else:
            note("attempt succeeds")


def open_lockbox(host: Host) -> Lockbox:
    """Return the lockbox as a process reaches it."""
    metadata = host.world.open_metadata(host.clock, host.ids)
    holder = host.process.name
    return Lockbox(metadata, host.clock, holder=holder, lease_ms=OVERLORD.lease_ttl_ms)


def open_tasks(host: Host) -> TaskService:
    """Return the tasks as a process reaches them."""
    metadata = host.world.open_metadata(host.clock, host.ids)
    return TaskService(metadata, host.clock, host.ids, load=load_checked)


def run_overlord(host: Host) -> None:
    """Have tasks run, keep up the store, and keep it compacted."""
    runners = {SimulatedRunner.name: SimulatedRunner(host.world, host.process.name)}
    loop = OverlordLoop(
        host.metadata,
        host.clock,
        leader_id=host.ids.new_id(),
        holder=host.process.name,
        runners=runners,
        settings=LoopSettings(
            runner=SimulatedRunner.name,
            capacity=OVERLORD.task_slots,
            lease_ms=OVERLORD.lease_ttl_ms,
            start_lease_ms=OVERLORD.task_start_timeout_ms,
            period_ms=PERIOD_MS,
            upkeep_period_ms=OVERLORD.overlord_upkeep_period_ms,
        ),
        clear_up=partial(clear_up, host.metadata, lambda: host.files),
        upkeep=partial(
            keep_up,
            OVERLORD,
            open_tasks=partial(open_tasks, host),
            open_lockbox=partial(open_lockbox, host),
            open_store=host.open_store,
        ),
    )
    rounds = CompactionLoop(
        OVERLORD,
        runners,
        host.clock,
        fence=lambda: loop.fence,
        metadata=host.metadata,
        tasks=open_tasks(host),
        ids=host.ids,
    )
    loop.start()
    compaction_loop(rounds, OVERLORD, host.clock).start()
