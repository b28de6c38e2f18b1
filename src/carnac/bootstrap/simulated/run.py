"""One simulation from its seed to its verdict."""

from __future__ import annotations

import gc
import importlib
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from carnac.bootstrap.simulated.bugs import Bug, planted
from carnac.bootstrap.simulated.clients import (
    CleaningScript,
    CompactingScript,
    ReadingScript,
    Script,
    WritingScript,
)
from carnac.bootstrap.simulated.world import World
from carnac.simulation.cluster.faults import KINDS, Faults
from carnac.simulation.cluster.kernel import Kernel, Process, Violation
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
)
"""Whose threads are strands."""
STEPS = 12
"""Things that each writer does."""
CHAOS_MS = 1_800_000
"""How long faults last at most."""
REST_MS = 900_000
"""In which all must come to an end once there are no faults."""
SHARE = 0.007
"""Of the effects of a process, those after which something befalls it."""
FREEZES_MS = (1_000, 8_000, 15_000, 40_000, 120_000)
SKEWS_MS = (0, 0, -3_600_000, 3_600_000, -20_000, 20_000)
TAKEN_FOR_DEAD = 0.5
"""Of the processes that stand still, those in whose place another one is started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of a simulation.

    Attributes:
        digest: Of its trace: the same for the same seed.
        elapsed_ms: That passed in it.
        revisions: That were published.
        answers: Statements that were answered and audited.
    """

    seed: int
    digest: str
    elapsed_ms: int
    hand_overs: int
    revisions: int
    answers: int
    violations: tuple[Violation, ...]


def run(
    seed: int,
    *,
    steps: int = STEPS,
    kinds: Iterable[str] = KINDS,
    bug: Bug | None = None,
    on_note: Callable[[str], object] | None = None,
) -> Verdict:
    """Let a cluster live under a seed, and say what came of it."""
    kernel = Kernel(seed, on_note=on_note)
    faults = Faults(_random(f"calls {seed}"), frozenset(kinds))
    for name in PACKAGES:
        importlib.import_module(name)
    with ExitStack() as stack:
        stack.enter_context(_garbage_kept())
        stack.enter_context(planted(bug))
        stack.enter_context(simulated(kernel, PACKAGES))
        world = stack.enter_context(World(kernel, faults))
        scripts = _people(world, seed, steps)
        chaos = Chaos(world, _random(f"chaos {seed}"))
        chaos.start()
        kernel.run(CHAOS_MS, until=lambda: all(one.is_over for one in scripts))
        if not kernel.violations:
            chaos.stop()
            kernel.run(REST_MS, until=lambda: all(one.is_over for one in scripts))
            _conclude(world, scripts)
        return Verdict(
            seed=seed,
            digest=kernel.digest,
            elapsed_ms=kernel.elapsed_ms,
            hand_overs=kernel.steps,
            revisions=world.auditor.oracle.revision,
            answers=world.answers,
            violations=tuple(kernel.violations),
        )


@contextmanager
def _garbage_kept() -> Iterator[None]:
    """Collect no garbage meanwhile: no seed decides when, and what is thrown away may still do something."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


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
    kernel.run(180_000)
    if not kernel.violations:
        world.auditor.conclude()


class Chaos:
    """What befalls processes between two effects: they crash and come back, they stand still, their clocks are set."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self._world, self._rng = world, rng
        self._kinds = sorted(world.faults.kinds & {"crash", "freeze", "clock"})

    def start(self) -> None:
        """Begin."""
        if self._kinds:
            self._world.kernel.befall = self._befall

    def stop(self) -> None:
        """Let everything recover."""
        self._world.faults.is_on = False
        self._world.kernel.befall = None
        self._world.kernel.note("faults stop")
        for name, process in list(self._world.processes.items()):
            process.frozen_until_ms = process.skew_ms = 0
            if process.is_dead:
                self._world.start(name)

    def _befall(self, process: Process) -> None:
        if self._rng.random() >= SHARE or process is self._world.god:
            return
        world, rng, kernel = self._world, self._rng, self._world.kernel
        kind = rng.choice(self._kinds)
        is_current = world.processes.get(process.name) is process
        if kind == "crash":
            kernel.note("crashes")
            kernel.kill(process)
            if is_current:
                self._start_later(process.name, rng.randint(0, 8_000))
        elif kind == "freeze":
            freeze_ms = rng.choice(FREEZES_MS)
            kernel.note(f"stands still for {freeze_ms} ms")
            process.frozen_until_ms = kernel.now_ms + freeze_ms
            if is_current and rng.random() < TAKEN_FOR_DEAD:
                self._start_later(process.name, rng.randint(1_000, 20_000))
        else:
            process.skew_ms = rng.choice(SKEWS_MS)
            kernel.note(f"its clock is set {process.skew_ms} ms ahead")

    def _start_later(self, name: str, after_ms: int) -> None:
        """Let somebody start a process anew; one that only stood still goes on beside it."""
        kernel = self._world.kernel
        was = self._world.processes[name]

        def start() -> None:
            kernel.sleep(after_ms)
            if self._world.processes[name] is was and kernel.befall is not None:
                self._world.start(name)

        kernel.spawn(self._world.god, f"start {name}", start)
