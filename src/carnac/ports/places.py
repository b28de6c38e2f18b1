"""How the segments of a job get their places: asked for one by one, all at once, or numbered by the job itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from carnac.core.log.allocation import AllocationReply, AllocationRequest

if TYPE_CHECKING:
    from carnac.core.log.allocation import AllocationLock
    from carnac.core.time.intervals import Interval

Allocate: TypeAlias = Callable[[Sequence[AllocationRequest]], Sequence[AllocationReply]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceTerms:
    """The terms on which a task's writes get places; None in its place: publish finds them.

    Attributes:
        owner: Owner with whose end the places end.
        lock: Lock that the owner must hold on a chunk to get a place there.
        is_alone: It works under a time-chunk lock: nobody else numbers segments there, so it numbers its own.
        locks_first: Its locks are got before the first segment is written, once the time chunks are known.
    """

    owner: str
    lock: AllocationLock | None = None
    is_alone: bool = False
    locks_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AskForPlaces:
    """Under segment locks.

    With best-effort rollup the executors ask whenever they begin a segment; with perfect rollup the driver asks for
    all before any is written.

    Attributes:
        template: Values of every request; time and sequence are the segment's.
        url: Where executors ask, over HTTP.
        allocate: Where the driver asks.
    """

    template: AllocationRequest
    url: str
    allocate: Allocate


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberOwn:
    """Time-chunk lock, or a replacement, which makes a version of its own: the job numbers its segments.

    Attributes:
        begin: Called once, with the time chunks that get segments, before the first one is written: gets the task's
            locks where it must have them by then, however long that takes, and returns the first free partition id of
            chunks in which there are segments; of others it is 0.
    """

    begin: Callable[[Sequence[Interval]], Mapping[Interval, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LockFirst:
    """Time-chunk lock that is shared: others number segments there too, so publish finds the places.

    Attributes:
        begin: As of `NumberOwn`.
    """

    begin: Callable[[Sequence[Interval]], object]


PlacePlan: TypeAlias = AskForPlaces | NumberOwn | LockFirst


class Allocator(Protocol):
    """Gives places to the jobs of this process, and lets their executors ask for them."""

    def allocate(self, requests: Sequence[AllocationRequest]) -> Sequence[AllocationReply]:
        """Return the reply to each request, in order."""
        ...

    def serving(self) -> AbstractContextManager[str]:
        """Answer over HTTP until the block ends; yields the URL."""
        ...
