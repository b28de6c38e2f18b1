"""One clock, and strands of which exactly one runs at a time: a seed decides which, and how much time passes.

A strand is a thread of a simulated process. It runs until it waits for something; then it hands over to the one that
the seed chooses. A process that crashes never runs again. The memory of its strands is lost, and their writes stay.
Its strands are unwound when the simulation ends, and reach nothing meanwhile.
"""

from __future__ import annotations

import hashlib
import heapq
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

MAIN = "main"
"""The first strand of a process."""
EPOCH_MS = 1_700_000_000_000
"""When every simulation begins."""
STEPS_MAX = 400_000
"""Hand-overs before a run counts as one that goes in circles."""
GIVE_WAY_S = 10
"""How long the strand that runs may take to its next step when a run is interrupted."""
SIGNALS_S = 0.5
"""Between two looks for Ctrl-C: one that comes right before a wait does not end that wait."""


def closed_gate() -> threading.Lock:
    """Return a gate: a strand that acquires it waits until another one releases it, once for each time."""
    gate = threading.Lock()
    gate.acquire()
    return gate


class Killed(BaseException):
    """The process of the strand is gone: nothing catches this but the kernel."""


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must never be.

    Attributes:
        auditor: The auditor that has found it.
        text: The violation as a sentence.
        at_ms: Time since the simulation began.
    """

    auditor: str
    text: str
    at_ms: int


@dataclass(eq=False)
class Process:
    """A simulated process.

    Attributes:
        frozen_until_ms: Time before which it runs no strand: stopped, swapped out, asleep.
        skew_ms: Time by which its machine's clock is ahead.
    """

    name: str
    is_dead: bool = False
    frozen_until_ms: int = 0
    skew_ms: int = 0
    ids: random.Random = field(default_factory=random.Random)


@dataclass(eq=False)
class Strand:
    """A thread of a process."""

    name: str
    process: Process
    work: Callable[[], object]
    gate: threading.Lock = field(default_factory=closed_gate)
    thread: object = None
    worker: int = 0
    token: int = 0
    is_waiting: bool = False
    was_woken: bool = False
    is_over: bool = False
    has_begun: bool = False


class Kernel:
    """The clock and the strands of one simulation.

    Args:
        seed: Decides everything.
        on_note: Function that takes each line of the trace, and whose exception ends the run; None: only the digest of
            the trace is kept.
    """

    def __init__(self, seed: int, *, on_note: Callable[[str], object] | None = None) -> None:
        self.rng = random.Random(f"schedule {seed}")  # noqa: S311 - a simulation
        self.faults = random.Random(f"faults {seed}")  # noqa: S311
        self._draw = self.rng.random  # half of `randrange`'s time, a million times
        self.now_ms = EPOCH_MS
        self.violations: list[Violation] = []
        self.steps = 0
        self.is_closing = False
        self.befall: Callable[[Process], object] | None = None
        self._on_note = on_note
        self._failure: BaseException | None = None
        self._digest = hashlib.sha256()
        self._ready: list[Strand] = []
        self._timers: list[tuple[int, int, Strand, int]] = []
        self._count = 0
        self._strands: list[Strand] = []
        self._current: Strand | None = None
        self._main = closed_gate()
        self._crew = _Crew()
        self._end_ms = 0
        self._is_done: Callable[[], bool] = lambda: False

    # ------------------------------------------------------------------------------------------------- from outside

    @property
    def elapsed_ms(self) -> int:
        """Since the simulation began."""
        return self.now_ms - EPOCH_MS

    @property
    def digest(self) -> str:
        """The digest of the trace so far."""
        return self._digest.hexdigest()[:16]

    def note(self, what: str) -> None:
        """Write a line into the trace."""
        strand = self.here()
        who = "world" if strand is None else strand.process.name
        line = f"{self.elapsed_ms:>9} {who:<14} {what}"
        self._digest.update(line.encode())
        self._digest.update(b"\n")
        if self._on_note is not None:
            try:
                self._on_note(line)
            except BaseException as error:
                self._failure, self._on_note = error, None
                if strand is None:
                    raise  # else a service would take it for a failure of its own

    def violate(self, auditor: str, text: str) -> None:
        """Note what must never be; the run ends after this step."""
        if self.is_closing:
            return
        self.violations.append(Violation(auditor, text, self.elapsed_ms))
        self.note(f"VIOLATION {auditor}: {text}")

    def spawn(self, process: Process, name: str, work: Callable[[], object]) -> Strand:
        """Start a strand; it runs when it is chosen."""
        strand = Strand(name, process, work)
        self._strands.append(strand)
        if not process.is_dead:
            self._ready.append(strand)
        return strand

    def run(self, duration_ms: int, *, until: Callable[[], bool] | None = None) -> None:
        """Let so much time pass, or less if `until` becomes true or something is violated.

        Raises:
            BaseException: The exception that `on_note` has raised.
        """
        self._end_ms = self.now_ms + duration_ms
        self._is_done = until or (lambda: False)
        following = self._choose()
        if following is not None:
            self._resume(following)
            try:
                while not self._main.acquire(timeout=SIGNALS_S):
                    pass
            except BaseException:  # Ctrl-C: one strand runs yet, and gives way at its next step
                self.is_closing = True
                self._main.acquire(timeout=0.1 if self._current is None else GIVE_WAY_S)
                raise
        if self._failure is not None:
            raise self._failure
        if not self.violations and not self._is_done():
            self.now_ms = max(self.now_ms, self._end_ms)

    def kill(self, process: Process) -> None:
        """End a process where it stands."""
        process.is_dead = True

    def close(self) -> None:
        """Unwind all strands, and end their threads. They reach nothing any more. Idempotent."""
        self.is_closing = True
        for strand in self._strands:
            if strand.has_begun and not strand.is_over:
                strand.process.is_dead = True
                self._resume(strand)
                self._main.acquire()
            strand.is_over = True
        self._strands.clear()
        self._crew.close()

    # ------------------------------------------------------------------------------------------------ from a strand

    def here(self) -> Strand | None:
        """Return the strand whose thread this is; None: it is none's."""
        strand = self._current
        if strand is not None and strand.worker == threading.get_ident():
            return strand
        return None

    def require(self) -> Strand:
        """Return the strand whose thread this is.

        Raises:
            Killed: Its process is gone.
        """
        strand = self.here()
        if strand is None:
            raise AssertionError("this thread is none of the simulation's")
        if strand.process.is_dead or self.is_closing:
            raise Killed(strand.name)
        return strand

    def sleep(self, duration_ms: int) -> None:
        """Let others run for a while."""
        self.wait(self.now_ms + max(0, duration_ms))

    def pause(self, shortest_ms: int = 0, longest_ms: int = 4) -> None:
        """Let others run for as long as the seed says. The process may end here, and its work so far is done."""
        strand = self.require()
        if self.befall is not None:
            self.befall(strand.process)
        pause_ms = shortest_ms + int(self._draw() * (longest_ms - shortest_ms + 1))
        self._hand_over(strand, self.now_ms + pause_ms)

    def is_main(self) -> bool:
        """Whether this strand is the first of its process, not one that keeps something up beside it."""
        return self.require().name == MAIN

    def freeze(self, duration_ms: int) -> None:
        """Let the process of this strand stand still."""
        self.note(f"stands still for {duration_ms} ms")
        self.require().process.frozen_until_ms = self.now_ms + duration_ms
        self.sleep(0)

    def wait(self, until_ms: int | None = None) -> bool:
        """Let others run until `wake`; False: it has not come in time."""
        strand = self.here()
        if strand is None:
            raise AssertionError("this thread is none of the simulation's")
        if self.is_closing:
            raise Killed(strand.name)
        return self._hand_over(strand, until_ms)

    def _hand_over(self, strand: Strand, until_ms: int | None) -> bool:
        strand.is_waiting, strand.was_woken = True, False
        strand.token += 1
        if until_ms is not None:
            self._count += 1
            heapq.heappush(self._timers, (until_ms, self._count, strand, strand.token))
        following = None if self.is_closing else self._choose()
        if following is not strand:
            if following is None:
                self._current = None
                self._main.release()
            else:
                self._resume(following)
            strand.gate.acquire()
        if strand.process.is_dead or self.is_closing:
            raise Killed(strand.name)
        return strand.was_woken

    def wake(self, strand: Strand) -> None:
        """End the wait of a strand."""
        if strand.is_waiting:
            strand.is_waiting, strand.was_woken = False, True
            self._ready.append(strand)

    # --------------------------------------------------------------------------------------------------- the choice

    def _choose(self) -> Strand | None:
        self.steps += 1
        if self.steps > STEPS_MAX:
            self.violate("liveness", f"nothing came to an end in {STEPS_MAX} steps")
        if self.violations or self._failure is not None or self._is_done():
            return None
        while True:
            strand = self._take_ready()
            if strand is not None:
                return strand
            if not self._timers or self._timers[0][0] > self._end_ms:
                return None
            until_ms, _, strand, token = heapq.heappop(self._timers)
            if strand.token != token or not strand.is_waiting or strand.process.is_dead:
                continue
            self.now_ms = max(self.now_ms, until_ms)
            strand.is_waiting = False
            self._ready.append(strand)

    def _take_ready(self) -> Strand | None:
        while self._ready:
            place = int(self._draw() * len(self._ready))
            strand = self._ready[place]
            self._ready[place] = self._ready[-1]
            self._ready.pop()
            if strand.process.is_dead:
                continue
            thaw_ms = strand.process.frozen_until_ms
            if thaw_ms <= self.now_ms:
                return strand
            was_woken = strand.was_woken
            strand.is_waiting = True
            strand.token += 1
            self._count += 1
            heapq.heappush(self._timers, (thaw_ms, self._count, strand, strand.token))
            strand.was_woken = was_woken
        return None

    def _resume(self, strand: Strand) -> None:
        self._current = strand
        if strand.has_begun:
            strand.gate.release()
        else:
            strand.has_begun = True
            self._crew.start(lambda: self._live(strand))

    def _live(self, strand: Strand) -> None:
        """Run a strand to its end, in a thread of the crew."""
        strand.worker = threading.get_ident()
        try:
            strand.work()
        except Killed:
            pass
        except BaseException as error:
            self.violate("threads", f"{strand.name} of {strand.process.name} died of {error!r}")
        strand.is_over = True
        if self.is_closing:
            self._main.release()
            return
        following = self._choose()
        if following is None:
            self._current = None
            self._main.release()
        else:
            self._resume(following)


class _Crew:
    """Threads that are kept for the next strands: to start one takes longer than many a strand lives."""

    def __init__(self) -> None:
        self._members: list[tuple[threading.Thread, threading.Lock]] = []
        self._idle: list[tuple[threading.Lock, list[Callable[[], None]]]] = []

    def start(self, work: Callable[[], None]) -> None:
        if self._idle:
            gate, box = self._idle.pop()
        else:
            gate, box = closed_gate(), []
            thread = threading.Thread(
                target=self._serve, args=(gate, box), name="carnac-simulated", daemon=True
            )
            self._members.append((thread, gate))
            thread.start()
        box.append(work)
        gate.release()

    def close(self) -> None:
        """End all threads, when no strand is left."""
        for _, gate in self._members:
            gate.release()
        while self._members:
            self._members.pop()[0].join()

    def _serve(self, gate: threading.Lock, box: list[Callable[[], None]]) -> None:
        while True:
            gate.acquire()
            if not box:
                return
            box.pop()()
            self._idle.append((gate, box))
