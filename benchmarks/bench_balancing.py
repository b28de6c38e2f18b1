"""Balancing: evaluations of the cost, placements in any order, and a run of 1,000 moves.

One core, and all times are CPU time of the one thread, which other work on the machine hardly changes (a busy cache
does). Segments are hours of ten datasources on 300 servers, as the reference measured them, unless said otherwise.
The naive rate, the sum over all pairs, is taken in the same run: the ratio of the two does not depend on the machine.

    python -m benchmarks.bench_balancing [--only PART] [--runs 5] [--small]

With `--only` the figures of the other parts are kept as they are in the result file.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.support.harness import RUNS, ratio, read_figures, write_results
from benchmarks.support.harness import cpu_seconds as seconds
from carnac.core.balancing.cost.columns import SegmentColumns, segment_columns
from carnac.core.balancing.cost.compiled import compiled
from carnac.core.balancing.cost.field import pair_cost
from carnac.core.balancing.cost.index import CostIndex
from carnac.core.balancing.cost.joint import DAY_MS, HOUR_MS
from carnac.core.balancing.plan.cluster import ClusterState, Hold, Replicas, SegmentTable, Server
from carnac.core.balancing.plan.limits import MoveLimits
from carnac.core.balancing.plan.moves import plan_moves
from carnac.core.balancing.plan.plans import MovePlan
from carnac.core.balancing.plan.scoring import index_of

SERVERS, DATASOURCES = 300, 10
START_MS = 1_767_225_600_000
NOTE = (
    "Seconds of CPU of one thread. The parts are measured one by one; `load_1min_at_end` is that of the last one, and "
    "where other programs share the caches, what waits for memory (place, growth) takes up to half as long again."
)
RATE = np.log(2) / DAY_MS


@compiled
def sum_pairs(starts: np.ndarray, x0: int, x1: int, rate: float) -> float:
    total = 0.0
    for k in range(len(starts)):
        total += pair_cost(x0, x1, starts[k], starts[k] + 3_600_000, rate)
    return total


PARTS: dict[str, Callable[[int, int], object]] = {
    "pairs": lambda _, runs: measure_pairs(runs),
    "held_1_000_000": lambda share, runs: measure_held(1_000_000 // share, runs),
    "place": lambda share, _: measure_placing(1_000_000 // share),
    "growth": lambda share, runs: measure_growth(
        [10_000, 100_000, 1_000_000, 10_000_000 // share], runs
    ),
    "six_servers_200_days_100_partitions": lambda _, runs: measure_six_servers(runs),
    "run": lambda share, runs: measure_run(3_000_000 // share, min(runs, 3)),
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", choices=PARTS)
    options.add_argument("--runs", type=int, default=RUNS)
    options.add_argument("--small", action="store_true", help="a tenth of the segments")
    chosen = options.parse_args()
    figures: dict[str, object] = {
        "aims": {
            "place_any_order_per_s": 100_000,
            "run_of_1000_moves_s": 1.0,
        }
    }
    if chosen.only is not None:
        figures |= read_figures("balancing")
    warm_up()
    for part in PARTS if chosen.only is None else (chosen.only,):
        figures[part] = PARTS[part](10 if chosen.small else 1, chosen.runs)
    write_results("balancing", figures, packages=("numba", "numpy"), note=NOTE)


def memory_bytes(index: CostIndex) -> int:
    """Return what the arrays of an index take."""
    return sum(one.nbytes for one in index._field if isinstance(one, np.ndarray))  # noqa: SLF001


def some_hours(count: int, days: int, seed: int = 1) -> SegmentColumns:
    rng = np.random.default_rng(seed)
    starts = START_MS + rng.integers(0, days * 24, count) * HOUR_MS
    return segment_columns(rng.integers(0, DATASOURCES, count), starts, starts + HOUR_MS)


def some_servers(count: int) -> np.ndarray:
    return np.random.default_rng(2).integers(0, SERVERS, count)


def rate(work: Callable[[], object], count: int, runs: int) -> int:
    """Return the median of how many of `count` things are done in a second."""
    return round(count / statistics.median(seconds(work)[0] for _ in range(runs)))


def warm_up() -> None:
    """Have everything compiled."""
    few = some_hours(2_000, 2)
    index = CostIndex(SERVERS)
    index.load_many(some_servers(2_000), few)
    index.place(few.take(np.arange(10)))
    index.costs(0, START_MS, START_MS + 1)
    sum_pairs(few.starts_ms, 0, 1, RATE)
    cluster = cluster_of(few, some_servers(2_000))
    plan_moves(cluster, MoveLimits(max_moves=3), index=index_of(cluster))


def measure_pairs(runs: int) -> dict[str, object]:
    """Ten thousand random hours within a year against one, as Druid's own benchmark has it."""
    starts = some_hours(10_000, 365).starts_ms

    def many() -> None:
        for _ in range(100):
            sum_pairs(starts, START_MS, START_MS + HOUR_MS, RATE)

    return {
        "pairs_per_s": rate(many, 1_000_000, runs),
        "naive_10_000_hours_ms": 10_000_000 / rate(many, 1_000_000, runs),
    }


def measure_held(count: int, runs: int) -> dict[str, object]:
    """Measure the cost of one segment on all servers, with so many held, by the index and by the sum over pairs."""
    held, servers = some_hours(count, 365), some_servers(count)
    index = CostIndex(SERVERS)
    load_s, _ = seconds(lambda: index.load_many(servers, held))
    asked = [int(start) for start in some_hours(2_000, 365, seed=3).starts_ms]
    everywhere = rate(lambda: [index.costs(3, at, at + HOUR_MS) for at in asked], 2_000, runs)
    naive = rate(lambda: sum_pairs(held.starts_ms, START_MS, START_MS + HOUR_MS, RATE), 1, runs)
    return {
        "load_s": round(load_s, 2),
        "memory_mb": round(memory_bytes(index) / 1e6),
        "total_s": round(seconds(index.totals)[0], 2),
        "all_servers_per_s_from_python": everywhere,
        "all_servers_by_pairs_per_s": naive,
        "times_the_sum_over_pairs": ratio(everywhere, max(naive, 1)),
    }


def measure_placing(count: int) -> dict[str, object]:
    segments = some_hours(count, 120)
    index = CostIndex(SERVERS)
    any_order_s, chosen = seconds(lambda: index.place(segments))
    per_server = np.bincount(chosen, minlength=SERVERS)
    days = (segments.starts_ms - START_MS) // DAY_MS
    by_day = np.zeros((120, SERVERS))
    np.add.at(by_day, (days, chosen), 1)
    return {
        "segments": count,
        "any_order_per_s": round(count / any_order_s),
        "any_order_memory_mb": round(memory_bytes(index) / 1e6),
        "segments_max_over_mean": round(per_server.max() / per_server.mean(), 4),
        "day_max_over_mean": round(float((by_day.max(axis=1) / by_day.mean(axis=1)).mean()), 3),
    }


def measure_growth(sizes: list[int], runs: int) -> list[dict[str, object]]:
    """Placements in any order beside so many that are held already."""
    found: list[dict[str, object]] = []
    for size in sizes:
        index = CostIndex(SERVERS)
        index.load_many(some_servers(size), some_hours(size, 365))
        times = [place_more(index, run) for run in range(runs)]
        micros = statistics.median(times) / 5_000 * 1e6
        found.append(
            {
                "held": size,
                "placement_us": round(micros, 2),
                "placement_us_over_log2": round(micros / np.log2(size), 3),
                "memory_mb": round(memory_bytes(index) / 1e6),
            }
        )
    return found


def place_more(index: CostIndex, run: int) -> float:
    """Return how long it takes to place 5,000 more whose hours were reserved."""
    rows = some_hours(5_000, 365, seed=run + 10)
    index.reserve(rows)
    return seconds(lambda: index.place(rows))[0]


def measure_six_servers(runs: int) -> dict[str, object]:
    """Six servers that hold 200 days of 100 partitions each: where would one more go?"""
    days = np.repeat(np.arange(200), 100)
    held = segment_columns(
        np.zeros(20_000, np.int64), START_MS + days * DAY_MS, START_MS + (days + 1) * DAY_MS
    )
    index = CostIndex(6)
    index.load_many(np.random.default_rng(100).integers(0, 6, 20_000), held)
    asked = [START_MS + day * DAY_MS for day in range(200)]
    chosen = rate(
        lambda: [int(np.argmin(index.costs(0, at, at + DAY_MS))) for at in asked], 200, runs
    )
    return {"choices_per_s_from_python": chosen, "memory_mb": round(memory_bytes(index) / 1e6, 1)}


def cluster_of(segments: SegmentColumns, servers: np.ndarray) -> ClusterState:
    count = segments.row_count
    return ClusterState(
        servers=tuple(Server(server_id=f"s{n}", capacity_bytes=1 << 60) for n in range(SERVERS)),
        segments=SegmentTable(
            ids=range(count),  # type: ignore[arg-type]  # nobody looks at the strings
            datasources=tuple(f"d{n}" for n in range(DATASOURCES)),
            datasource=segments.datasources.astype(np.int32),
            start_ms=segments.starts_ms,
            end_ms=segments.ends_ms,
            size_bytes=np.full(count, 500_000_000),
            partition=np.zeros(count, np.int32),
        ),
        replicas=Replicas(
            segment=np.arange(count),
            server=servers.astype(np.int32),
            hold=np.full(count, Hold.LOADED, np.int32),
        ),
    )


def measure_run(count: int, runs: int) -> dict[str, object]:
    """A thousand moves among segments placed at random; the coordinator keeps its index, so that is timed by itself."""
    cluster = cluster_of(some_hours(count, 365), some_servers(count))
    limits = MoveLimits(max_moves=1_000)
    built, planned = [], []
    memory, plan = 0, MovePlan()
    for _ in range(runs):
        build_s, index = seconds(partial(index_of, cluster))
        plan_s, plan = seconds(partial(plan_moves, cluster, limits, index=index))
        built.append(build_s)
        planned.append(plan_s)
        memory = memory_bytes(index)
    saved = (plan.cost_before or 0) - (plan.cost_after or 0)
    return {
        "segments": count,
        "index_s": round(statistics.median(built), 2),
        "moves": len(plan.moves),
        "run_s": round(statistics.median(planned), 2),
        "saved_hours2": round(saved, 1),
        "index_memory_mb": round(memory / 1e6),
    }


if __name__ == "__main__":
    main()
