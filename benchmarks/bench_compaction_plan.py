"""Planning the compaction of a million segments: 100 datasources of 1,000 hours, ten segments an hour.

Measured in fresh processes, medians: the full analysis, from the segments of all datasources to coloured tasks; the
same through the conductor, which also keeps the state of every chunk; and the analysis after appends to 1,000 chunks,
spread over all datasources: from the changed chunks to the new queue. In one chunk of ten there is something to do.
Garbage is collected as seldom as in a process of `carnac`; the analysis of changes is measured with Python's own
setting too.

    python -m benchmarks.bench_compaction_plan [--runs 5]
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import subprocess
import sys

from benchmarks.support.harness import RUNS, medians, seconds, write_results
from carnac.cli import YOUNG_OBJECTS
from carnac.core.compaction.control.conductor import Conductor
from carnac.core.compaction.control.manager import Capacity
from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.compaction.plan.inputs import PlanSegment
from carnac.core.compaction.plan.planning import plan_compaction
from carnac.core.compaction.plan.settings import CompactionSettings
from carnac.core.log.entries import Chunk
from carnac.core.segments.version import SegmentVersion
from carnac.core.time.intervals import ETERNITY, Interval, IntervalSet

HOUR_MS = 3_600_000
DATASOURCES = 100
CHUNKS = 1_000
SEGMENTS = 10
CHANGED = 1_000
NOW_MS = 2_000 * HOUR_MS
MIB = 1 << 20
AIMS = {"full_analysis_s": 5, "reanalysis_ms": 50}
SETTINGS = CompactionSettings(
    target=CompactionTarget(target_bytes=500 * MIB, segment_granularity="HOUR")
)
Store = dict[str, dict[Interval, list[PlanSegment]]]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=RUNS)
    options.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.measure:
        print(json.dumps(measure()))
        return
    runs = [measured() for _ in range(chosen.runs)]
    shape = {
        "datasources": DATASOURCES,
        "chunks": DATASOURCES * CHUNKS,
        "segments": DATASOURCES * CHUNKS * SEGMENTS,
        "changed_chunks": CHANGED,
    }
    write_results("compaction_plan", {**shape, "aims": AIMS, **medians(runs)})


def measured() -> dict[str, float]:
    """Measure in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.bench_compaction_plan", "--measure"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    if not isinstance(found, dict):
        raise TypeError(done.stdout)
    return found


def measure() -> dict[str, float]:
    rng = random.Random(7)
    defaults = gc.get_threshold()
    gc.set_threshold(YOUNG_OBJECTS, *defaults[1:])
    store: Store = {
        f"events{number}": make_datasource(number, rng) for number in range(DATASOURCES)
    }
    lists = {name: [one for chunk in store[name].values() for one in chunk] for name in store}
    gc.collect()
    gc.freeze()
    full_s, tasks = seconds(lambda: [plan_all(name, lists[name]) for name in lists])
    conductor = Conductor(Capacity(tasks=10, queue_max=20_000))
    for name in store:
        conductor.watch(name, SETTINGS)
    everything = {name: [ETERNITY] for name in store}
    first_s, analysed = seconds(lambda: follow(conductor, store, everything))
    if analysed != DATASOURCES * CHUNKS:
        raise AssertionError(f"{analysed} chunks were analysed")
    again_s = follow_appends(conductor, store, rng, revision=CHUNKS + 1)
    idle_s, analysed = seconds(lambda: follow(conductor, store, {name: [] for name in store}))
    gc.set_threshold(*defaults)
    defaults_s = follow_appends(conductor, store, rng, revision=CHUNKS + 2)
    return {
        "tasks": sum(tasks),
        "full_analysis_s": full_s,
        "full_analysis_with_states_s": first_s,
        "reanalysis_ms": again_s * 1000,
        "reanalysis_python_defaults_ms": defaults_s * 1000,
        "nothing_changed_ms": idle_s * 1000,
    }


def follow_appends(
    conductor: Conductor, store: Store, rng: random.Random, *, revision: int
) -> float:
    """Append to some chunks; return how long it takes until they have their places in the queue."""
    changed = append_somewhere(store, rng, revision=revision)
    gc.collect()
    gc.freeze()
    again_s, analysed = seconds(lambda: follow(conductor, store, changed))
    if analysed != CHANGED:
        raise AssertionError(f"{analysed} chunks were analysed again")
    return again_s


def make_datasource(number: int, rng: random.Random) -> dict[Interval, list[PlanSegment]]:
    chunks: dict[Interval, list[PlanSegment]] = {}
    for hour in range(CHUNKS):
        chunk = Interval(hour * HOUR_MS, (hour + 1) * HOUR_MS)
        is_done = rng.random() < 0.9
        chunks[chunk] = [
            make_segment(
                f"{number}-{hour}-{one}",
                chunk,
                450 * MIB if is_done else rng.randrange(1, 30) * MIB,
                revision=hour + 1,
            )
            for one in range(SEGMENTS)
        ]
    return chunks


def make_segment(name: str, chunk: Interval, size_bytes: int, *, revision: int) -> PlanSegment:
    return PlanSegment(
        segment_id=name,
        start_ms=chunk.start_ms,
        end_ms=chunk.end_ms,
        size_bytes=size_bytes,
        rows=size_bytes // 1000,
        chunk=chunk,
        revision=revision,
    )


def plan_all(name: str, segments: list[PlanSegment]) -> int:
    return len(plan_compaction(name, segments, SETTINGS, now_ms=NOW_MS).tasks)


def follow(conductor: Conductor, store: Store, dirty: dict[str, list[Interval]]) -> int:
    """Let the conductor have a round; return how many chunks were analysed."""
    analysed = 0
    for name, intervals in dirty.items():
        chunks = store[name]
        reached = conductor.reach(name, intervals, newest_ms=None, now_ms=NOW_MS)
        if not reached:
            continue
        live = [make_chunk(one, chunks[one]) for one in live_in(chunks, reached, intervals)]
        due, _ = conductor.look(name, reached, live, now_ms=NOW_MS)
        conductor.judge(name, [one for chunk in due for one in chunks[chunk]])
        analysed += len(due)
    conductor.start(revision=1, now_ms=NOW_MS)
    return analysed


def live_in(
    chunks: dict[Interval, list[PlanSegment]], reached: IntervalSet, dirty: list[Interval]
) -> list[Interval]:
    return list(chunks) if reached.intervals == (ETERNITY,) else dirty


def make_chunk(interval: Interval, segments: list[PlanSegment]) -> Chunk:
    return Chunk(
        interval=interval,
        version=SegmentVersion(0),
        next_partition_id=0,
        entries=len(segments),
        revision=segments[-1].revision,
    )


def append_somewhere(
    store: Store, rng: random.Random, *, revision: int
) -> dict[str, list[Interval]]:
    """Append two small segments to each of the changed chunks."""
    changed: dict[str, list[Interval]] = {}
    for name, chunks in store.items():
        changed[name] = sorted(rng.sample(list(chunks), CHANGED // DATASOURCES))
        for chunk in changed[name]:
            for one in range(2):
                segment = make_segment(
                    f"late-{name}-{chunk.start_ms}-{one}", chunk, MIB, revision=revision
                )
                chunks[chunk].append(segment)
    return changed


if __name__ == "__main__":
    main()
