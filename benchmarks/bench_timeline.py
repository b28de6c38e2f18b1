"""The timeline of a million segments: ten years of hours, four versions of each.

Two layouts. *majors*: four major versions of every hour, as time-chunk locks make them. *minors*: two major versions,
each replaced once under a minor version, as segment locks make them. Either way an hour and version has two to three
entries. Measured in fresh processes, medians: bulk build (in order of time, as a database returns them; and in random
order, which waits for memory), adding one at a time (new hours; a new version of hours that are there), removing (of
what shows, so that something older comes back), looking a day up (cold, as a build leaves it; warm; right after a
change of one hour), and memory beyond the entries themselves. All of it is one thread's
work, so seconds are seconds of CPU, which a busy machine hardly changes.

    python -m benchmarks.bench_timeline [--segments 1000000] [--runs 3] [--layouts majors]

A run of one layout takes about 25 seconds, most of them for making a million entries and for building twice. A layout
that is not measured keeps the figures that it has.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence

from benchmarks.harness import RESULTS, cpu_seconds, medians, write_results
from carnac.core.log.entries import Entry
from carnac.core.segments.version import IdRanges, SegmentVersion
from carnac.core.time.intervals import Interval
from carnac.core.timeline import Timeline

HOUR_MS = 3_600_000
HOURS = 87_600
"""Ten years."""
VERSIONS = 4
SAMPLES = 20_000
RUNS = 3
"""Fewer than elsewhere: seconds of CPU differ little from run to run."""
LAYOUTS = ("majors", "minors")
AIMS = {"bulk_adds_per_s": 200_000, "adds_per_s": 50_000, "lookup_of_a_day_us": 50}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--segments", type=int, default=1_000_000)
    options.add_argument("--runs", type=int, default=RUNS)
    options.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=LAYOUTS)
    options.add_argument("--measure", choices=LAYOUTS, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.measure:
        print(json.dumps(measure(chosen.measure, chosen.segments)))
        return
    figures: dict[str, object] = {
        "segments": chosen.segments,
        "hours": HOURS,
        "versions_of_each": VERSIONS,
        "aims": AIMS,
        **kept_figures(),
    }
    for layout in chosen.layouts:
        runs = [measured(layout, chosen.segments) for _ in range(chosen.runs)]
        figures[layout] = medians(runs)
    write_results("timeline", figures)


def kept_figures() -> dict[str, object]:
    """Return the figures of the layouts as they were measured last."""
    path = RESULTS / "timeline.json"
    if not path.exists():
        return {}
    figures = json.loads(path.read_text(encoding="utf-8"))["figures"]
    return {layout: figures[layout] for layout in LAYOUTS if layout in figures}


def measured(layout: str, segments: int) -> dict[str, float]:
    """Measure in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.bench_timeline", "--measure", layout]
    command += ["--segments", str(segments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    if not isinstance(found, dict):
        raise TypeError(done.stdout)
    return found


def measure(layout: str, segments: int) -> dict[str, float]:
    rng = random.Random(7)
    gc.disable()  # making the entries is not measured
    entries = make_entries(layout, segments)
    gc.enable()
    gc.collect()
    entries_mib = resident_mib()
    build_s, timeline = cpu_seconds(lambda: Timeline(entries))
    memory_mib = resident_mib() - entries_mib
    rng.shuffle(entries)
    del timeline
    gc.collect()
    shuffled_s, timeline = cpu_seconds(lambda: Timeline(entries))
    first_id = len(entries) + 1
    days = [rng.randrange(HOURS // 24) for _ in range(2000)]
    figures = {
        "bulk_build_s": build_s,
        "bulk_adds_per_s": len(entries) / build_s,
        "bulk_adds_in_random_order_per_s": len(entries) / shuffled_s,
        "memory_mib": memory_mib,
        "memory_bytes_per_segment": memory_mib * 2**20 / len(entries),
        "lookup_of_a_day_cold_us": look_up(timeline, days),
        "lookup_of_a_day_us": look_up(timeline, days),
    }
    timeline.lookup(Interval(0, HOURS * HOUR_MS))
    gc.collect()  # what the build left for the garbage collector is not the next part's
    fresh = [version(hour, 0, first_id + hour)[0] for hour in range(HOURS, HOURS + SAMPLES)]
    figures["adds_of_new_hours_per_s"] = rate(timeline.add, fresh)
    newer = [one(hour, first_id + HOURS * 2 + hour) for hour in rng.sample(range(HOURS), SAMPLES)]
    figures["adds_per_s"] = rate(timeline.add, newer)
    figures["removes_per_s"] = rate(timeline.remove, newer)
    shown = rng.sample(
        [e for p in timeline.lookup(Interval(0, HOURS * HOUR_MS)) for e in p.entries], SAMPLES
    )
    figures["removes_with_fallback_per_s"] = rate(timeline.remove, shown)
    figures["adds_back_per_s"] = rate(timeline.add, shown)
    figures["lookup_of_a_day_after_a_change_us"] = look_up_after_changes(timeline, shown[:2000])
    return figures


def make_entries(layout: str, segments: int) -> list[Entry]:
    """Return the entries in order of time and version; every hour and version has as many, give or take one."""
    found: list[Entry] = []
    for hour in range(HOURS):
        for number in range(VERSIONS):
            place = hour * VERSIONS + number
            first = place * segments // (HOURS * VERSIONS)
            count = (place + 1) * segments // (HOURS * VERSIONS) - first
            if layout == "majors":
                found += version(hour, number, first + 1, count=count)
            else:
                found += minor_version(hour, number, first + 1, count=count, segments=segments)
    return found


def version(hour: int, major: int, first_id: int, *, count: int = 1) -> list[Entry]:
    """One update group that takes an hour over."""
    group = IdRanges(((0, count - 1),))
    return [
        entry(first_id + n, hour, SegmentVersion(major, 0), n, replaces=IdRanges(), group=group)
        for n in range(count)
    ]


def minor_version(
    hour: int, number: int, first_id: int, *, count: int, segments: int
) -> list[Entry]:
    """Versions 0 and 2 take the hour over, 1 and 3 replace them under a minor version."""
    if number % 2 == 0:
        return version(hour, number // 2, first_id, count=count)
    place = hour * VERSIONS + number - 1
    before = (place + 1) * segments // (HOURS * VERSIONS) - place * segments // (HOURS * VERSIONS)
    group, replaces = IdRanges(((before, before + count - 1),)), IdRanges(((0, before - 1),))
    return [
        entry(
            first_id + n,
            hour,
            SegmentVersion(number // 2, 1),
            before + n,
            replaces=replaces,
            group=group,
        )
        for n in range(count)
    ]


def one(hour: int, entry_id: int) -> Entry:
    """An append to the newest major version of an hour, of either layout."""
    return version(hour, VERSIONS, entry_id)[0]


def entry(
    entry_id: int,
    hour: int,
    segment_version: SegmentVersion,
    partition_id: int,
    *,
    replaces: IdRanges,
    group: IdRanges,
) -> Entry:
    chunk = Interval(hour * HOUR_MS, (hour + 1) * HOUR_MS)
    return Entry(
        entry_id=entry_id,
        segment_id=f"{entry_id:032x}",
        chunk=chunk,
        span=chunk,
        clip=None,
        version=segment_version,
        partition_id=partition_id,
        overshadowed_ids=replaces,
        update_group=group,
    )


def rate(work: Callable[[Entry], bool], entries: Sequence[Entry]) -> float:
    """Return how many a second of calls that must all change something."""
    elapsed_s, done = cpu_seconds(lambda: [work(item) for item in entries])
    if not all(done):
        raise ValueError("a call changed nothing")
    return len(entries) / elapsed_s


def look_up(timeline: Timeline, days: Iterable[int]) -> float:
    """Return the median microseconds of looking a day up."""
    return median_us([lambda day=day: look(timeline, day) for day in days])


def look_up_after_changes(timeline: Timeline, shown: Sequence[Entry]) -> float:
    """Return the median microseconds of looking up a day of which one hour has just changed."""
    found = []
    for item in shown:
        timeline.remove(item)
        day = item.chunk.start_ms // (24 * HOUR_MS)
        found.append(cpu_seconds(lambda day=day: look(timeline, day))[0])
        timeline.add(item)
    return sorted(found)[len(found) // 2] * 1e6


def look(timeline: Timeline, day: int) -> None:
    pieces = timeline.lookup(Interval(day * 24 * HOUR_MS, (day + 1) * 24 * HOUR_MS))
    if len(pieces) != 24:
        raise ValueError(f"day {day} has {len(pieces)} pieces")


def median_us(calls: Iterable[Callable[[], None]]) -> float:
    found = sorted(cpu_seconds(call)[0] for call in calls)
    return found[len(found) // 2] * 1e6


def resident_mib() -> float:
    """Return the largest resident size so far; it only grows, so differences are what was added."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
