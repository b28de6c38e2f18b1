"""The places of a job's segments: the four rows of the segment locking proposal's table, on Spark.

| | best-effort rollup | perfect rollup |
|---|---|---|
| segment lock | a merge asks for the next place whenever it begins a segment | the driver asks for all before |
| time-chunk lock | a merge counts on by itself, in steps of its chunk's merges | a chunk is one merge: 0, 1, 2, … |

Executors ask over HTTP with a sequence of their own; another attempt at a merge has the same, so it gets the same.
"""

from __future__ import annotations

import http.client
import json
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from carnac.core.json_text import parse_json
from carnac.core.log.allocation import AllocationRequest
from carnac.core.log.allocation_records import pending_id_of, read_reply, request_to_json
from carnac.core.log.commits import Numbered, Place, Reserved
from carnac.core.texts import one_line
from carnac.core.time.intervals import Interval
from carnac.errors import Invalid, Unavailable
from carnac.ports.places import Allocate, LockFirst, NumberOwn, PlacePlan
from carnac.rows.merge import SinkWatch
from carnac.rows.merge_task import Ask, Given, Merge, MergeTask, Own

if TYPE_CHECKING:
    from carnac.rows.segment_writer import SegmentWriter

BULK_LIMIT = 500
"""Places asked for in one transaction."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0
TRIES_MAX = 8
"""Maximum number of tries of a request without an answer; with the pauses between them about ten seconds."""
TIMEOUT_S = 60.0
ANSWER_MAX_BYTES = 8 << 20
DEFAULT_WAIT_S = 300.0

Pause: TypeAlias = Callable[[float], object]


class PlaceTaker(SinkWatch):
    """Takes a place for every segment that a merge begins.

    Attributes:
        places: Places that were taken, in order.
    """

    def __init__(self, numbers: Ask | Given | Own, *, pause: Pause | None = None) -> None:
        self.places: list[Place] = []
        self._numbers = numbers
        self._previous_id = ""
        self._pause = pause or threading.Event().wait

    def make_writer(self, *args: Any, **options: Any) -> SegmentWriter:
        """Take a place, then return the writer."""
        path = str(args[1])
        segment_id = path.rsplit("/", 1)[-1].removesuffix(".parquet")
        self._take(segment_id)
        return super().make_writer(*args, **options)

    def _take(self, segment_id: str) -> None:
        count, numbers = len(self.places), self._numbers
        if isinstance(numbers, Own):
            number = numbers.first + count * numbers.step
            place: Place = Numbered(segment_id=segment_id, chunk=numbers.chunk, partition_id=number)
        elif isinstance(numbers, Given):
            if count >= len(numbers.pending_ids):
                return
            place = Reserved(segment_id=segment_id, pending_id=numbers.pending_ids[count])
        else:
            request = replace(numbers.first, previous_id=self._previous_id)
            (self._previous_id,) = ask_until_given(
                lambda asked: _post(numbers.url, asked, self._pause), [request], self._pause
            )
            place = Reserved(segment_id=segment_id, pending_id=self._previous_id)
        self.places.append(place)


def plan_places(
    merges: Sequence[Merge], plan: PlacePlan | None, *, job_id: str, is_perfect: bool
) -> tuple[Merge, ...]:
    """Return the merges with what each needs to place its segments; asks for all places now if the rollup is perfect.

    Raises:
        CarnacError: The places are denied.
    """
    if plan is None or not merges:
        return tuple(merges)
    chunks = sorted({merge.task.chunk for merge in merges})
    if isinstance(plan, LockFirst):
        plan.begin(chunks)
        return tuple(merges)
    if isinstance(plan, NumberOwn):
        own = _own(merges, plan.begin(chunks))
        return tuple(_with(merge, numbers) for merge, numbers in zip(merges, own, strict=True))
    firsts = [
        replace(
            plan.template,
            at_ms=merge.task.chunk.start_ms,
            sequence=f"{job_id}/{merge.task.id_prefix}",
        )
        for merge in merges
    ]
    if not is_perfect:
        return tuple(
            _with(merge, Ask(url=plan.url, first=first))
            for merge, first in zip(merges, firsts, strict=True)
        )
    wanted = [
        [replace(first, sequence=f"{first.sequence}/{n}") for n in range(most_segments(merge))]
        for merge, first in zip(merges, firsts, strict=True)
    ]
    given = iter(_ask_all(plan.allocate, [one for some in wanted for one in some]))
    return tuple(
        _with(merge, Given(pending_ids=tuple(next(given) for _ in some)))
        for merge, some in zip(merges, wanted, strict=True)
    )


def most_segments(merge: Merge) -> int:
    """Return how many segments a merge makes at most, if no file reaches the target size before its rows are in."""
    spec = merge.task.partitions
    if spec.type == "hashed" and spec.num_shards:
        return spec.num_shards
    if spec.type == "range":  # of two neighbours one may be small, and both together are not
        return max(1, -(-2 * merge.rows // spec.rows_per_segment))
    return max(1, -(-merge.rows // spec.rows_per_segment))


def ask_until_given(
    allocate: Callable[[Sequence[AllocationRequest]], Sequence[str | None]],
    requests: Sequence[AllocationRequest],
    pause: Pause,
) -> list[str]:
    """Return the pending ids of all requests; asks again for those that wait for a lock, as long as that may take.

    Raises:
        Unavailable: The lock was not free in time.
        CarnacError: A request was denied.
    """
    found: list[str | None] = [None] * len(requests)
    lock = requests[0].lock if requests else None
    left_s = DEFAULT_WAIT_S if lock is None else lock.timeout_ms / 1000
    pause_s = FIRST_PAUSE_S
    while True:
        missing = [index for index, one in enumerate(found) if one is None]
        replies = allocate([requests[index] for index in missing])
        for index, reply in zip(missing, replies, strict=True):
            found[index] = reply
        given = [one for one in found if one is not None]
        if len(given) == len(requests):
            return given
        if left_s <= 0:
            raise Unavailable(
                f"{requests[0].owner} waited in vain for its lock on {requests[0].datasource}; retry later, or look "
                f"at carnac locks",
                owner=requests[0].owner,
            )
        pause(pause_s)
        left_s -= pause_s
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _ask_all(allocate: Allocate, requests: Sequence[AllocationRequest]) -> Iterator[str]:
    """Yield the pending ids of all requests, asked for from this process."""

    def ask(some: Sequence[AllocationRequest]) -> list[str | None]:
        return [pending_id_of(reply) for reply in allocate(some)]

    for at in range(0, len(requests), BULK_LIMIT):
        yield from ask_until_given(ask, requests[at : at + BULK_LIMIT], threading.Event().wait)


def _own(merges: Sequence[Merge], next_ids: Mapping[Interval, int]) -> Iterator[Own]:
    """Yield numbers for each merge such that no two of one chunk have any in common."""
    of_chunk = Counter(merge.task.chunk for merge in merges)
    seen: Counter[Interval] = Counter()
    for merge in merges:
        chunk = merge.task.chunk
        first = next_ids.get(chunk, 0) + seen[chunk]
        yield Own(chunk=chunk, first=first, step=of_chunk[chunk])
        seen[chunk] += 1


def _with(merge: Merge, numbers: Ask | Given | Own) -> Merge:
    task: MergeTask = replace(merge.task, numbers=numbers)
    return replace(merge, task=task)


def _post(url: str, requests: Sequence[AllocationRequest], pause: Pause) -> list[str | None]:
    """Ask over HTTP; asks again if there is no answer, which is safe: the same question has the same answer."""
    body = json.dumps([request_to_json(request) for request in requests]).encode()
    said, pause_s = "", FIRST_PAUSE_S
    for attempt in range(1, TRIES_MAX + 1):
        message = urllib.request.Request(  # noqa: S310 - a URL of our own server
            url, data=body, headers={"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(message, timeout=TIMEOUT_S) as answer:  # noqa: S310
                return _replies(answer.read(ANSWER_MAX_BYTES), len(requests))
        except urllib.error.HTTPError as error:
            said = _said(error)
            if error.code < 500:
                raise Unavailable(f"{url} refused to give places: {said}", url=url) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            said = str(error) or type(error).__name__
        if attempt < TRIES_MAX:
            pause(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
    raise Unavailable(f"{url} does not give places: {said}; is the overlord there?", url=url)


def _replies(data: bytes, count: int) -> list[str | None]:
    """Return what is answered to so many requests; raises ValueError if it is no such answer."""
    try:
        values = parse_json(data, "answer")
    except Invalid as error:
        raise ValueError(error.message) from None
    if not isinstance(values, list) or len(values) != count:
        raise ValueError(f"the answer is not a list of {count} replies")
    return [read_reply(value) for value in values]


def _said(error: urllib.error.HTTPError) -> str:
    try:
        found = parse_json(error.read(ANSWER_MAX_BYTES), "answer")
    except (Invalid, OSError, http.client.HTTPException):
        found = None
    said = found.get("error") if isinstance(found, dict) else None
    return one_line(said) if isinstance(said, str) else f"HTTP {error.code}"
