"""One simulation from its seed to its verdict."""

from __future__ import annotations

import gc
import importlib
import logging
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from carnac import durable
from carnac.bootstrap.simulated import servers
from carnac.bootstrap.simulated.clients import (
    CleaningScript,
    CompactingScript,
    ReadingScript,
    Script,
    WritingScript,
)
from carnac.bootstrap.simulated.overlords import run_overlord
from carnac.bootstrap.simulated.pipeline import judging_again
from carnac.bootstrap.simulated.tasking import TaskingScript
from carnac.bootstrap.simulated.world import World
from carnac.broker import cluster, membership, scatter
from carnac.coordinator import coordinator, links
from carnac.historical import journal, server
from carnac.jobs.delete import job
from carnac.simulation.cluster.faults import FREEZES_MS, KINDS, Faults
from carnac.simulation.cluster.kernel import Kernel, Process, Violation
from carnac.simulation.cluster.swarm import draw_swarm
from carnac.simulation.cluster.threads import simulated

PACKAGES = (
    "carnac.broker",
    "carnac.coordinator",
    "carnac.historical",
    "carnac.overlord",
    "carnac.store",
    "carnac.ports.loops",
    "carnac.metadata.publish.queue",
    "carnac.query.intact",
    "concurrent.futures._base",
)
"""Modules whose threads are strands; a wait for a future of theirs is a wait on the one clock, too."""
STEPS = 12
"""Things that each writer does."""
CHAOS_MS = 1_800_000
"""How long faults last at most."""
REST_MS = 900_000
"""In which all must come to an end once there are no faults."""
SETTLING_MS = 420_000
"""In which garbage is collected and locks end: also of those that stood still for long, and woke after all others."""
LOOK_MS = 15_000
SERVING = 0.2
"""Share of the seeds whose cluster serves: the others have more writers' work in the same time."""
TASKS = 0.3
"""Share of the seeds that have overlords."""
SHARE = 0.007
"""Share of a process's effects that are followed by a fault."""
SKEWS_MS = (0, 3_600_000, 3_600_000, -3_600_000, -20_000, 20_000)
FORCE_MAX = 2.0
"""How much more often than `SHARE` says at most."""
RESTARTS = 0.5
"""Of the times that the clock of the one machine is set, those at which the machine starts anew."""
USUAL_FOLDER = "/tmp"  # noqa: S108 - what `tempfile` chooses; folders in it have random names
MEMORY_FOLDER = "/dev/shm"  # noqa: S108
"""Where Linux has a file system in memory."""
MEMORY_ROOM_BYTES = 256 << 20
"""A simulation takes some megabytes; several may run at once."""
TAKEN_FOR_DEAD = 0.5
"""Share of the paused processes in whose place another one is started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of a simulation.

    Attributes:
        digest: Digest of its trace, the same for the same seed.
        elapsed_ms: Simulated time that passed.
        revisions: Number of revisions that were published.
        answers: Number of statements that were answered and audited.
    """

    seed: int
    digest: str
    elapsed_ms: int
    revisions: int
    answers: int
    violations: tuple[Violation, ...]


@contextmanager
def _garbage_kept() -> Iterator[None]:
    """Collect no garbage meanwhile: no seed decides when, and objects may still do something as they are collected.

    Objects from before are left out of the collection that follows, since they would take longer than many a seed. It
    is a decorator, since objects in the variables of a function are no garbage before it returns.
    """
    was_on = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        gc.unfreeze()
        if was_on:
            gc.enable()


@_garbage_kept()
def run(
    seed: int,
    *,
    steps: int = STEPS,
    kinds: Iterable[str] = KINDS,
    has_servers: bool | None = None,
    has_overlords: bool | None = None,
    on_note: Callable[[str], object] | None = None,
) -> Verdict:
    """Let a cluster live under a seed, and say what came of it."""
    kernel = Kernel(seed, on_note=on_note)
    serves = kernel.faults.random() < SERVING if has_servers is None else has_servers
    has_tasks = kernel.faults.random() < TASKS if has_overlords is None else has_overlords
    swarm = draw_swarm(_random(f"swarm {seed}"), frozenset(kinds), may_be_one_machine=not serves)
    faults = Faults(_random(f"calls {seed}"), swarm.kinds, swarm.rates(), swarm.stalls_ms)
    for name in PACKAGES:
        importlib.import_module(name)
    with ExitStack() as stack:
        stack.enter_context(simulated(kernel, PACKAGES))
        stack.enter_context(_calm())
        stack.enter_context(_listening(kernel))
        world = stack.enter_context(World(kernel, faults, swarm))
        stack.enter_context(world.copies.disk.mounted())
        scripts = _people(world, seed, steps)
        if serves:
            _servers(world, seed, steps, scripts)
        if has_tasks:
            _overlords(world, seed, steps, scripts)
        kernel.note(f"servers: {serves}, overlords: {has_tasks}, faults: {sorted(swarm.kinds)}")
        kernel.note(f"{replace(swarm, kinds=frozenset())}")
        chaos = Chaos(world, _random(f"chaos {seed}"), scripts)
        chaos.start()
        kernel.run(CHAOS_MS, until=_all_over(scripts))
        if not kernel.violations:
            chaos.stop()
            kernel.run(REST_MS, until=_all_over(scripts))
            _conclude(world, scripts)
        return Verdict(
            seed=seed,
            digest=kernel.digest,
            elapsed_ms=kernel.elapsed_ms,
            revisions=world.auditor.oracle.revision,
            answers=world.answers,
            violations=tuple(kernel.violations),
        )


def _all_over(scripts: list[Script]) -> Callable[[], bool]:
    """Return what says whether all scripts are over; asked before each step, it mostly looks at one of them."""
    last = scripts[0]

    def ask() -> bool:
        nonlocal last
        if not last.is_over:
            return False
        last = next((one for one in scripts if not one.is_over), last)
        return last.is_over

    return ask


class _Bugs(logging.Handler):
    """Takes what a service logs as a bug of its own for a violation."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(logging.ERROR)
        self._kernel = kernel

    def emit(self, record: logging.LogRecord) -> None:
        if "which is a bug in Carnac" in str(record.msg) and self._kernel.here() is not None:
            self._kernel.violate("laws", record.getMessage())


@contextmanager
def _listening(kernel: Kernel) -> Iterator[None]:
    """Hear what services log, and keep it from the terminal."""
    log = logging.getLogger("carnac")
    handler, was, level = _Bugs(kernel), log.propagate, log.level
    log.addHandler(handler)
    log.propagate = False
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = was
        log.setLevel(level)


@contextmanager
def _calm() -> Iterator[None]:
    """Have services look less often than they do, and let a folder be of the process that was started last.

    Folders are in memory where there is room: no simulated crash is one of the machine.
    """
    found: tuple[tuple[Any, str, Any], ...] = (
        (membership, "FOLLOW_PERIOD_MS", 1_500),
        (cluster, "FOLLOW_PERIOD_MS", 2_500),
        (cluster, "ASK_WAIT_MS", 10_000),
        (cluster, "ASK_PAUSE_MS", 300),
        (cluster, "ASK_AGAIN_MS", 1_500),
        (links, "ASK_WAIT_MS", 10_000),
        (links, "ASK_PAUSE_MS", 300),
        (links, "ASK_AGAIN_MS", 1_500),
        (links, "SEND_AGAIN_MS", 1_500),
        (coordinator, "LOOK_PERIOD_MS", 4_000),
        (scatter, "LOOK_S", 1.0),
        (server, "_lock", lambda _folder: None),
        (durable, "sync", lambda _path: None),
        (journal, "sync", lambda _path: None),
        (job, "judging", judging_again),
        (tempfile, "tempdir", _memory_folder()),
    )
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in found]
    for owner, name, value in found:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def _memory_folder() -> str:
    """Return a folder of a file system in memory, if it has room and nobody has chosen another one for `tempfile`."""
    chosen = tempfile.gettempdir()
    if chosen != USUAL_FOLDER or not os.access(MEMORY_FOLDER, os.W_OK | os.X_OK):
        return chosen
    has_room = shutil.disk_usage(MEMORY_FOLDER).free >= MEMORY_ROOM_BYTES
    return MEMORY_FOLDER if has_room else chosen


def _random(text: str) -> random.Random:
    return random.Random(text)  # noqa: S311 - a simulation


def _people(world: World, seed: int, steps: int) -> list[Script]:
    scripts: list[Script] = []
    for number in range(3):
        name = f"writer-{number}"
        script = WritingScript(world, name, f"{name} {seed}", steps)
        world.add(name, script.run)
        scripts.append(script)
    for number in range(2):
        name = f"reader-{number}"
        reading = ReadingScript(world, name, f"{name} {seed}", steps)
        world.add(name, reading.run)
        scripts.append(reading)
    compacting = CompactingScript(world, "compactor", f"compactor {seed}", max(2, steps // 2))
    world.add("compactor", compacting.run)
    scripts.append(compacting)
    world.add("cleaner", CleaningScript(world, "cleaner", f"cleaner {seed}", 0).run)
    return scripts


def _servers(world: World, seed: int, steps: int, scripts: list[Script]) -> None:
    for number in range(2):
        world.add(f"historical-{number}", servers.run_historical)
    for number in range(2):
        world.add(f"coordinator-{number}", servers.run_coordinator)
    asking = servers.AskingScript(world, "broker", f"broker {seed}", steps)
    world.add("broker", asking.run)
    scripts.append(asking)


def _overlords(world: World, seed: int, steps: int, scripts: list[Script]) -> None:
    for number in range(2):
        world.add(f"overlord-{number}", run_overlord)
    tasking = TaskingScript(world, "client", f"client {seed}", steps)
    world.add("client", tasking.run)
    scripts.append(tasking)


def _conclude(world: World, scripts: list[Script]) -> None:
    kernel = world.kernel
    if kernel.violations:
        return
    late = [one.name for one in scripts if not one.is_over]
    if late:
        kernel.violate(
            "liveness",
            f"{', '.join(late)} came to no end within {REST_MS // 60_000} minutes without faults",
        )
        return
    world.rest()
    for _ in range(SETTLING_MS // LOOK_MS):
        kernel.run(LOOK_MS)
        if kernel.violations or not world.auditor.leftovers():
            break
    if not kernel.violations:
        world.auditor.conclude()


class Chaos:
    """Faults of processes between two effects: they crash and come back, they stand still, their clocks are set."""

    def __init__(self, world: World, rng: random.Random, scripts: list[Script]) -> None:
        self._world, self._rng, self._scripts = world, rng, scripts
        self._kinds = sorted(world.faults.kinds & {"crash", "freeze", "clock"})
        self._share = SHARE * min(FORCE_MAX, len(self._kinds) * world.swarm.force / 3)

    def start(self) -> None:
        """Begin."""
        if self._kinds:
            self._world.kernel.befall = self._befall

    def stop(self) -> None:
        """Let everything recover."""
        self._world.faults.is_on = False
        self._world.kernel.befall = None
        self._world.kernel.note("faults stop")
        if self._world.skew_ms:
            self._world.restart(0)
        for process in self._world.attempts.owners:
            process.frozen_until_ms = process.skew_ms = 0
        now_ms = self._world.kernel.now_ms
        for name, process in list(self._world.processes.items()):
            process.frozen_until_ms = min(process.frozen_until_ms, now_ms)
            process.skew_ms = 0
            if process.is_dead:
                self._world.start(name)
        for script in self._scripts:
            # one that stood still went on with it beside another that had done its part, and crashed
            if not script.is_over and self._world.has_ended(script.name):
                self._world.start(script.name)

    def _befall(self, process: Process) -> None:
        if self._rng.random() >= self._share or process is self._world.god:
            return
        world, rng, kernel = self._world, self._rng, self._world.kernel
        kind = rng.choice(self._kinds)
        is_current = world.processes.get(process.name) is process
        if kind == "clock" and world.swarm.is_one_machine:
            skew_ms = rng.choice(SKEWS_MS)
            if rng.random() < RESTARTS:
                world.restart(skew_ms)
            else:
                world.skew_ms = skew_ms
                kernel.note(f"the machine's clock is set {skew_ms} ms ahead")
        elif kind == "crash":
            kernel.note("crashes")
            kernel.kill(process)
            if is_current:
                world.start_later(process.name, rng.randint(0, 8_000))
        elif kind == "freeze":
            freeze_ms = rng.choice(FREEZES_MS)
            kernel.note(f"stands still for {freeze_ms} ms")
            process.frozen_until_ms = kernel.now_ms + freeze_ms
            if is_current and rng.random() < TAKEN_FOR_DEAD and "historical" not in process.name:
                world.start_later(process.name, rng.randint(1_000, 20_000))
        else:
            process.skew_ms = rng.choice(SKEWS_MS)
            kernel.note(f"its clock is set {process.skew_ms} ms ahead")
